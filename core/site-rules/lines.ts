import { maxRuleFaults, maxRuleFileBytes, type RuleFault, type RuleFile } from './rules.ts'

export interface Line {
  /** Counted from 1. */
  readonly number: number
  readonly text: string
}

/** Collects the faults of a file: the first ones, and how many more there are. */
export interface Faults {
  add(line: number, reason: string): void
  list(): RuleFault[]
}

export function collectFaults(file: RuleFile): Faults {
  const kept: RuleFault[] = []
  let more = 0
  return {
    add(line, reason) {
      if (kept.length < maxRuleFaults) kept.push({ file, line, reason })
      else more += 1
    },
    list() {
      const last = kept.at(-1)
      if (more === 0 || !last) return kept
      return [...kept.slice(0, -1), { ...last, reason: `${last.reason}; ${more} more lines of the file have faults` }]
    },
  }
}

/** The lines of a file that are neither empty nor a comment, trimmed. What is unfit for any rule becomes a fault. */
export function* linesOf(file: string, maxLength: number, faults: Faults): Generator<Line> {
  const text = cut(file)
  let number = 0
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at)
    const next = end === -1 ? text.length : end
    const raw = next - at > maxLength + 1 ? undefined : trimLine(text.slice(at, next))
    at = next + 1
    number += 1
    if (raw === '' || raw?.startsWith('#')) continue
    if (raw === undefined || raw.length > maxLength) faults.add(number, `is longer than ${maxLength} characters`)
    else if (/[^\P{Cc}\t]/u.test(raw)) faults.add(number, 'has a control character')
    else if (!raw.isWellFormed() || raw.includes('\ufffd')) faults.add(number, 'is not valid UTF-8')
    else yield { number, text: raw }
  }
  if (text.length < file.length) faults.add(number + 1, 'and the lines below it are not read: the file is larger than 1 MiB')
}

/** Without spaces, tabs and the carriage return at its ends. */
const trimLine = (text: string) => text.trim()

/** The whole lines within the limit, without a byte order mark. */
function cut(file: string): string {
  const text = file.startsWith('\ufeff') ? file.slice(1) : file
  if (text.length * 3 <= maxRuleFileBytes) return text
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(maxRuleFileBytes))
  return read === text.length ? text : text.slice(0, text.lastIndexOf('\n', read) + 1)
}
