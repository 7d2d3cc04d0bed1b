import { conflict } from './errors.ts'
import { anyFolders, matchesParts, type PatternPart, patternPart, type Steps } from './path-patterns.ts'

export const maxIgnorePatterns = 100
export const maxIgnorePatternLength = 200
/** A deploy of 20,000 files and 100 usual patterns takes half of these; all of them take about 2 s. */
const maxSteps = 30_000_000

/** Why a text is no pattern; it follows the place of the pattern. Undefined when it is one. */
export function refusalOfPattern(pattern: string): string | undefined {
  if (pattern.length > maxIgnorePatternLength) return `has more than ${maxIgnorePatternLength} characters`
  if (/[\p{Cc}\\[\]]/u.test(pattern)) return 'has a bracket, a backslash or a control character; use *, ? and ** only'
  return undefined
}

interface IgnoreRule {
  readonly keeps: boolean
  readonly foldersOnly: boolean
  readonly parts: readonly PatternPart[]
}

/**
 * Makes the test whether a path is ignored, by the rules of gitignore: the last pattern that matches decides. What lies in an ignored folder is
 * ignored too, so its caller does not ask.
 * @throws AppError `conflict` when matching takes too long
 */
export function createIgnore(patterns: readonly string[]): (path: string, isFolder: boolean) => boolean {
  const rules = patterns.flatMap(parseRule).toReversed()
  const steps: Steps = { left: maxSteps }
  return (path, isFolder) => {
    const names = path.split('/')
    const last = rules.find(({ foldersOnly, parts }) => (isFolder || !foldersOnly) && matchesParts(parts, names, steps))
    if (steps.left <= 0) throw conflict('the patterns of ignore in plinth.json take too long to match; use fewer stars')
    return last !== undefined && !last.keeps
  }
}

function parseRule(pattern: string): IgnoreRule[] {
  const text = pattern.trimEnd()
  if (text === '' || text.startsWith('#')) return []
  const keeps = text.startsWith('!')
  const form = keeps ? text.slice(1) : text
  const foldersOnly = form.endsWith('/')
  const names = form.split('/').filter((name) => name !== '')
  if (names.length === 0) return []
  // without a slash, other than at its end, a pattern matches at every depth
  const isAnchored = form.indexOf('/') !== -1 && form.indexOf('/') < form.length - 1
  const parts = names.map(patternPart)
  // at the end it stands for what lies in the folder, not for the folder
  if (names.at(-1) === '**') parts.push(patternPart('*'))
  return [{ keeps, foldersOnly, parts: isAnchored ? parts : [anyFolders, ...parts] }]
}
