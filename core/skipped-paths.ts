import { counted } from './amounts.ts'
import { judgeSourcePath } from './manifest.ts'
import { isServiceFile } from './service-files.ts'

const shownPaths = 10

/** Why a path of a source was left out, as far as the path itself tells. */
export function reasonToSkip(path: string): string {
  const bare = path.replace(/\/\*\*$|\/$/, '')
  const segments = bare.split('/')
  if (segments.includes('node_modules')) return 'installed packages are not taken from the source'
  if (segments.includes('.git')) return 'repositories are not published'
  if (segments.some((segment) => segment === '__MACOSX' || segment.startsWith('._'))) return 'added by macOS'
  const verdict = judgeSourcePath(bare)
  if (verdict.kind === 'bad') return `the path ${verdict.reason}`
  if (isServiceFile(bare)) return 'files of this name are never published'
  return 'a link, a special file, or a second entry with the same path'
}

/** Lines for the log of a build: the paths that were left out, by reason, the first ten of each. */
export function skippedLines(paths: readonly string[]): string[] {
  const byReason = Object.entries(Object.groupBy(paths, (path) => (path.startsWith('… and ') ? '' : reasonToSkip(path))))
  return byReason.map(([reason, group = []]) => {
    if (reason === '') return `left out ${group.join(', ').replace('… and ', '')}`
    const more = group.length > shownPaths ? ` and ${group.length - shownPaths} more` : ''
    return `left out ${counted(group.length, 'path')} (${reason}): ${group.slice(0, shownPaths).join(', ')}${more}`
  })
}
