import { maxRuleFaults, maxRuleFileBytes, maxRuleLines, type RuleFault, type RuleFile } from './rules.ts'

export interface Line {
  /** Counted from 1. */
  readonly number: number
  /** Without spaces at both ends. */
  readonly text: string
  readonly isIndented: boolean
}

/** Collects the faults of a file: the first ones, and how many more there are. */
export interface Faults {
  add(line: number, reason: string, about?: RuleFault['about']): void
  list(): RuleFault[]
}

export function collectFaults(file: RuleFile): Faults {
  const kept: RuleFault[] = []
  let more = 0
  return {
    add(line, reason, about) {
      if (kept.length < maxRuleFaults) kept.push({ file, line, reason, ...(about && { about }) })
      else more += 1
    },
    list() {
      const last = kept.at(-1)
      if (more === 0 || !last) return kept
      const rest = more === 1 ? 'one more line is' : `${more} more lines are`
      return [...kept.slice(0, -1), { ...last, reason: `${last.reason}; ${rest} left out` }]
    },
  }
}

/** Control characters, spaces that look like others, and characters that hide or turn what follows. */
const misleading = /[\p{Cc}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff\p{Bidi_Control}]/u

/** The lines of a file that are neither empty nor a comment, trimmed. What no rule may contain becomes a fault. */
export function* linesOf(file: string, maxLength: number, faults: Faults): Generator<Line> {
  const text = wholeLines(file)
  let number = 0
  let rules = 0
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf('\n', at)
    const end = newline === -1 ? text.length : newline
    const isIndented = text[at] === ' ' || text[at] === '\t'
    const line = text.slice(at, end).trim()
    at = end + 1
    number += 1
    if (line === '' || line.startsWith('#')) continue
    rules += 1
    if (rules > maxRuleLines) {
      faults.add(number, `and all lines below are not read: the file has more than ${maxRuleLines} lines`)
      return
    }
    const refusal = refusalOfLine(line, maxLength)
    if (refusal === undefined) yield { number, text: line, isIndented }
    else faults.add(number, refusal)
  }
  if (text.length < file.length) faults.add(number + 1, 'and all lines below are not read: the file is larger than 1 MiB')
}

function refusalOfLine(line: string, maxLength: number): string | undefined {
  if (line.length > maxLength) return `is longer than ${maxLength} characters`
  if (misleading.test(line.replaceAll('\t', ' '))) return 'has a control character, or one that cannot be seen'
  return line.isWellFormed() && !line.includes('\ufffd') ? undefined : 'is not valid UTF-8'
}

/** The lines that end within the limit. */
function wholeLines(file: string): string {
  if (file.length * 3 <= maxRuleFileBytes) return file
  const { read } = new TextEncoder().encodeInto(file, new Uint8Array(maxRuleFileBytes))
  return read === file.length ? file : file.slice(0, file.lastIndexOf('\n', read) + 1)
}
