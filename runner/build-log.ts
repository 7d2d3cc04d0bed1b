import { stripVTControlCharacters } from 'node:util'

const MiB = 1024 * 1024
const headBytes = 1 * MiB
const tailBytes = 9 * MiB

/** The output of a build in bounded memory: its first MiB and its last nine; what lies between is dropped and said so. */
export function createBuildLog() {
  const head: Buffer[] = []
  let headSize = 0
  let tail: Buffer[] = []
  let tailSize = 0
  let total = 0

  function append(chunk: Buffer): void {
    total += chunk.length
    const room = headBytes - headSize
    if (room > 0) {
      const part = chunk.subarray(0, room)
      head.push(part)
      headSize += part.length
    }
    if (chunk.length <= room) return
    const rest = chunk.subarray(Math.max(0, room))
    tail.push(rest)
    tailSize += rest.length
    // half as much again may wait, so that the cut is made once in a while and not for each line
    if (tailSize > tailBytes * 1.5) {
      const joined = Buffer.concat(tail)
      tail = [Buffer.from(joined.subarray(joined.length - tailBytes))]
      tailSize = tailBytes
    }
  }

  return {
    append,
    line: (text: string) => append(Buffer.from(`${text}\n`)),
    /** Bytes written so far, dropped ones included. */
    size: () => total,
    /** UTF-8 without terminal sequences and control characters, other than line ends and tabs. */
    text(): string {
      const joined = Buffer.concat(tail)
      const kept = joined.subarray(Math.max(0, joined.length - tailBytes))
      const dropped = total - headSize - kept.length
      const gap = dropped > 0 ? [`\n… ${dropped} bytes left out …\n`] : []
      return [Buffer.concat(head).toString('utf8'), ...gap, kept.toString('utf8')].map(readable).join('')
    },
  }
}
export type BuildLog = ReturnType<typeof createBuildLog>

function readable(text: string): string {
  return (
    text
      .split('\n')
      .map(readableLine)
      .join('\n')
      // control characters, except line ends and tabs
      .replace(/[^\P{Cc}\n\t]/gu, '')
  )
}

// a long line of half a sequence overflows the stack of Node's pattern, and takes other patterns minutes
const maxPatternLength = 4096

/** A progress bar rewrites its line; only what it showed last matters. */
function readableLine(line: string): string {
  let end = line.length
  while (end > 0 && line[end - 1] === '\r') end -= 1
  const begin = line.lastIndexOf('\r', end - 1) + 1
  let shown = ''
  for (let at = begin; at < end; at += maxPatternLength) {
    shown += stripVTControlCharacters(line.slice(at, Math.min(end, at + maxPatternLength)))
  }
  return shown
}
