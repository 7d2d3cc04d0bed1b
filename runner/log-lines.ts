import type { LineMasker } from '../core/masking.ts'

/** Longer lines are passed on in parts. */
const maxLineLength = 64 * 1024
/** No secret is longer. */
const maxWordLength = 4096
/**
 * A control sequence, a command with its text, or a short escape (ECMA-48, 5.4 and 5.6). No part can begin in the middle of another, so
 * this is linear; the pattern of `util.stripVTControlCharacters` is not: 64 KB of `ESC ]` took it 320 ms.
 */
const terminalSequence =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to find
  /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)|\x1b[ -/]*[0-~]/g // oxlint-disable-line no-control-regex

/** Splits text into readable lines: without terminal sequences, control characters and secrets. */
export function createLogLines(masker: LineMasker, write: (text: string) => void) {
  /** The incomplete line, and the part of it that was passed on already. */
  let line = ''
  let shown = ''

  /** Shown text cannot be taken back, so a line that was rewritten is shown again from its start. */
  const addition = (text: string) => (text.startsWith(shown) ? text.slice(shown.length) : `\n${text}`)
  const open = () => addition(masker.start(readable(line)))

  function show(): void {
    const text = open()
    write(text)
    shown = masker.start(readable(line))
  }

  function end(): void {
    const text = masker.line(readable(line))
    if (text !== undefined) write(`${addition(text)}\n`)
    else if (shown !== '') write('\n')
    line = ''
    shown = ''
  }

  function cutLongLine(): void {
    const wanted = wordEnd(line, maxLineLength)
    // a secret that begins before the cut is passed on with what follows
    const cut = wanted - masker.begunAtEnd(line.slice(0, wanted)) || wanted
    const rest = line.slice(cut)
    line = line.slice(0, cut)
    show()
    line = rest
    shown = ''
  }

  return {
    isOpen: () => line !== '',
    /** The text that `show` would pass on. */
    open,
    show,
    /** Whether a line has ended. */
    push(text: string): boolean {
      let from = 0
      for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', from)) {
        line += text.slice(from, at)
        while (line.length > maxLineLength) cutLongLine()
        end()
        from = at + 1
      }
      line += text.slice(from)
      while (line.length > maxLineLength) cutLongLine()
      return from > 0
    },
  }
}

/** Where a line may be cut without splitting a possible secret, unless that is longer than any secret. */
function wordEnd(line: string, maxLength: number): number {
  const last = line.slice(maxLength - maxWordLength, maxLength).search(/[\s"'`,;<>()[\]{}][^\s"'`,;<>()[\]{}]*$/)
  if (last >= 0) return maxLength - maxWordLength + last + 1
  return isHighSurrogate(line.charCodeAt(maxLength - 1)) ? maxLength - 1 : maxLength
}

const isHighSurrogate = (unit: number) => unit >= 0xd800 && unit < 0xdc00

/** One line without terminal sequences and control characters. A progress bar rewrites its line; only what it showed last matters. */
function readable(line: string): string {
  let end = line.length
  while (end > 0 && line[end - 1] === '\r') end -= 1
  const begin = line.lastIndexOf('\r', end - 1) + 1
  return line
    .slice(begin, end)
    .replace(terminalSequence, '')
    .replace(/[^\P{Cc}\t]/gu, '')
}
