import { StringDecoder } from 'node:string_decoder'
import { createLineMasker } from '../core/masking.ts'
import type { BuildLogs } from '../infra/build-logs/build-logs.ts'
import type { Logger } from '../infra/log.ts'
import { createLogLines } from './log-lines.ts'

const MiB = 1024 * 1024
/** What is written as it comes; of what follows only the end is kept, and written when the build has ended. */
const headBytes = 9 * MiB
const endBytes = 1 * MiB
const flushMs = 250
/** A line that has not ended is shown after this time: a question, a row of dots, a progress bar. */
const unfinishedMs = 1000
/** Large chunks are taken in parts, so that the bounds hold. */
const maxPartBytes = 64 * 1024
/** What failures are explained from. */
const recentLength = 64 * 1024

export interface BuildLogOptions {
  readonly logs: BuildLogs
  readonly log: Logger
  readonly deployId: string
  /** Values to mask besides what looks like a secret. */
  readonly secrets?: readonly string[]
  /** Bytes that were there before the first attempt. */
  readonly begunAt?: number | undefined
}

/** The output of one build on its way into its log: without terminal sequences and secrets, within bounds, never in the way of the build. */
export interface BuildLog extends AsyncDisposable {
  /** Output of a command, cut anywhere. */
  append(chunk: Buffer): void
  /** A line of the runner itself. */
  line(text: string): void
  /** The last 64 thousand characters, or fewer. */
  recent(): string
  /** Writes all that is left; nothing may follow. */
  close(): Promise<void>
}

/** Continues the log that an earlier attempt of the same build has left. */
export async function openBuildLog({ logs, log, deployId, secrets = [], begunAt = 0 }: BuildLogOptions): Promise<BuildLog> {
  const lines = createLogLines(createLineMasker(secrets), write)
  const writer = createWriter(logs, log, deployId)
  const decoder = new StringDecoder('utf8')
  const rest = createRing(endBytes)
  const before = await writer.before()
  let size = before.size
  let recent = ''
  let unfinished: NodeJS.Timeout | undefined
  if (size > begunAt) line(`${before.endsLine ? '' : '\n'}… the build was interrupted and starts again …`)

  function write(text: string): void {
    size += Buffer.byteLength(text)
    recent += text
    if (recent.length > 2 * recentLength) recent = recent.slice(-recentLength)
    writer.write(text)
  }

  function append(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; at += maxPartBytes) {
      const part = chunk.subarray(at, at + maxPartBytes)
      if (rest.size > 0 || size >= headBytes) rest.push(part)
      else if (lines.push(decoder.write(part))) stopWaiting()
    }
    if (lines.isOpen()) unfinished ??= setTimeout(showUnfinished, unfinishedMs).unref()
  }

  function stopWaiting(): void {
    clearTimeout(unfinished)
    unfinished = undefined
  }

  function showUnfinished(): void {
    unfinished = undefined
    if (rest.size === 0) lines.show()
  }

  function line(text: string): void {
    const cut = rest.size > 0 ? !rest.endsLine() : lines.isOpen()
    append(Buffer.from(cut ? `\n${text}\n` : `${text}\n`))
  }

  async function close(): Promise<void> {
    stopWaiting()
    const { bytes, dropped } = rest.take()
    if (dropped > 0) {
      if (lines.isOpen()) lines.push('\n')
      lines.push(`… ${dropped} bytes left out …\n${bytes.toString('utf8')}`)
    } else {
      lines.push(decoder.write(bytes) + decoder.end())
    }
    if (lines.isOpen()) lines.push('\n')
    await writer.close()
  }

  return {
    append,
    line,
    recent() {
      let end = ''
      const last = createLogLines(createLineMasker(secrets), (text) => {
        end += text
      })
      last.push(rest.end(recentLength).toString('utf8'))
      return `${recent}${lines.open()}${end}${last.open()}`.slice(-recentLength)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Appends in the background, in order. What could not be written is tried again with the next, and never fails a build. */
function createWriter(logs: BuildLogs, log: Logger, deployId: string) {
  let waiting = ''
  let timer: NodeJS.Timeout | undefined
  let writing = Promise.resolve()
  let reported = false

  function report(error: unknown): void {
    if (!reported) log.error({ err: error, deploy_id: deployId }, 'build log not written')
    reported = true
  }

  async function flush(): Promise<void> {
    timer = undefined
    const text = waiting
    waiting = ''
    if (text === '') return
    try {
      await logs.append(deployId, Buffer.from(text))
    } catch (error) {
      report(error)
      waiting = text + waiting
    }
  }

  function enqueue(): Promise<void> {
    writing = writing.then(flush)
    return writing
  }

  return {
    /** What an earlier attempt has written. */
    async before(): Promise<{ size: number; endsLine: boolean }> {
      try {
        const { size } = await logs.read(deployId, 0, 0)
        const last = size > 0 ? await logs.read(deployId, size - 1, 1) : undefined
        return { size, endsLine: last?.bytes[0] === 0x0a }
      } catch (error) {
        report(error)
        return { size: 0, endsLine: true }
      }
    },
    write(text: string): void {
      waiting += text
      timer ??= setTimeout(enqueue, flushMs)
    },
    async close(): Promise<void> {
      clearTimeout(timer)
      await enqueue()
    },
  }
}

/** The last bytes of all that is pushed. */
function createRing(maxBytes: number) {
  let chunks: Buffer[] = []
  let held = 0
  let total = 0

  function end(bytes: number): Buffer {
    const joined = Buffer.concat(chunks)
    return joined.subarray(Math.max(0, joined.length - bytes))
  }

  return {
    get size() {
      return total
    },
    push(chunk: Buffer): void {
      chunks.push(chunk)
      held += chunk.length
      total += chunk.length
      // half as much again may wait, so that the cut is made once in a while and not for each chunk
      if (held <= maxBytes * 1.5) return
      chunks = [Buffer.from(end(maxBytes))]
      held = maxBytes
    },
    end,
    endsLine: () => chunks.at(-1)?.at(-1) === 0x0a,
    /** Empties it; what was dropped ends with a line, if one ends in what is left. */
    take(): { bytes: Buffer; dropped: number } {
      const all = end(maxBytes)
      const begin = total > all.length ? all.indexOf(0x0a) + 1 : 0
      const bytes = all.subarray(begin)
      const dropped = total - bytes.length
      chunks = []
      held = 0
      total = 0
      return { bytes, dropped }
    },
  }
}
