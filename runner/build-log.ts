import type { BuildLogs } from '../infra/build-logs/build-logs.ts'
import type { Logger } from '../infra/log.ts'
import { createLogText, recentLength } from './log-text.ts'
import type { Reader } from './readers.ts'

const MiB = 1024 * 1024
/** What is written as it comes; of what follows only the end is kept, and written when the build has ended. */
const headBytes = 9 * MiB
const endBytes = 1 * MiB
const flushMs = 250
/** A line that has not ended is shown after this time: a question, a row of dots, a progress bar. */
const unfinishedMs = 1000
/** Large chunks are taken in parts, so that the bounds hold. */
const maxPartBytes = 64 * 1024
/** Characters of a line of the runner that nothing but this process is left to read. */
const maxOwnLength = 1000

export interface BuildLogOptions {
  readonly logs: BuildLogs
  readonly log: Logger
  readonly deployId: string
  /** Makes the output readable. */
  readonly reader: Pick<Reader, 'call' | 'stopped'>
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
  /**
   * The last 64 thousand characters, or fewer.
   * @throws ReadingStopped when the reader has stopped
   */
  recent(): Promise<string>
  /** Writes all that is left; nothing may follow. */
  close(): Promise<void>
}

/** Continues the log that an earlier attempt of the same build has left. */
export async function openBuildLog({
  logs,
  log,
  deployId,
  reader,
  secrets = [],
  begunAt = 0,
}: BuildLogOptions): Promise<BuildLog> {
  const writer = createWriter(logs, log, deployId)
  const rest = createRing(endBytes)
  const own = createLogText(secrets)
  const [before] = await Promise.all([writer.before(), reader.call('openLog', secrets)])
  /** What was taken of the output, and of earlier attempts. */
  let size = before.size
  let endsLine = true
  /** Whether a line of the log itself has not ended. */
  let isCut = false
  /** Output that waits for the reader. */
  let waiting: Buffer[] = []
  let reading = Promise.resolve()
  let unfinished: NodeJS.Timeout | undefined
  if (size > begunAt) line(`${before.endsLine ? '' : '\n'}… the build was interrupted and starts again …`)

  function write(text: string): void {
    if (text !== '') isCut = !text.endsWith('\n')
    writer.write(text)
  }

  /** After what was to be read before it, unless the reader has stopped. */
  function readNext(read: () => Promise<void>): Promise<void> {
    reading = reading.then(async () => {
      if (!reader.stopped.aborted) await read().catch(() => undefined)
    })
    return reading
  }

  function append(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; at += maxPartBytes) {
      const part = chunk.subarray(at, at + maxPartBytes)
      if (rest.size > 0 || size >= headBytes) rest.push(part)
      else push(part)
    }
    const end = chunk.lastIndexOf(0x0a)
    if (end >= 0) stopWaiting()
    if (chunk.length > 0) endsLine = end === chunk.length - 1
    if (!endsLine) unfinished ??= setTimeout(showUnfinished, unfinishedMs).unref()
  }

  /** What arrives while the reader is busy goes to it together. */
  function push(part: Buffer): void {
    size += part.length
    waiting.push(part)
    if (waiting.length === 1) void readNext(pushWaiting)
  }

  async function pushWaiting(): Promise<void> {
    const bytes = Buffer.concat(waiting)
    waiting = []
    for (let at = 0; at < bytes.length; at += maxPartBytes) {
      write(await reader.call('pushLog', copyOf(bytes.subarray(at, at + maxPartBytes))))
    }
  }

  function stopWaiting(): void {
    clearTimeout(unfinished)
    unfinished = undefined
  }

  function showUnfinished(): void {
    unfinished = undefined
    if (rest.size === 0) void readNext(async () => write(await reader.call('showLog')))
  }

  function line(text: string): void {
    if (reader.stopped.aborted) write(own.push(Buffer.from(`${isCut ? '\n' : ''}${text.slice(0, maxOwnLength)}\n`)))
    else append(Buffer.from(endsLine ? `${text}\n` : `\n${text}\n`))
  }

  async function close(): Promise<void> {
    stopWaiting()
    const { bytes, dropped } = rest.take()
    const end = { bytes: copyOf(bytes), dropped }
    await readNext(async () => write(await reader.call('closeLog', end)))
    await writer.close()
  }

  return {
    append,
    line,
    async recent() {
      await reading
      return await reader.call('readRecentLog', copyOf(rest.end(recentLength)))
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** A message would take along all of the memory that a part lies in. */
const copyOf = (part: Buffer) => new Uint8Array(part)

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
