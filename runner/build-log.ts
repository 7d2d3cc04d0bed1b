import { maskPlainSecrets } from '../core/masking.ts'
import type { BuildLogs } from '../infra/build-logs/build-logs.ts'
import type { Logger } from '../infra/log.ts'
import { createByteRing } from './byte-ring.ts'
import { createLogText, recentLength } from './log-text.ts'
import { createLogWriter } from './log-writer.ts'
import type { Reader } from './readers.ts'

const MiB = 1024 * 1024
/** How much is written as it arrives. Of further output only the end is kept, and written when the build has ended. */
const headBytes = 9 * MiB
const endBytes = 1 * MiB
/** An incomplete line is shown after this time: a question, a row of dots, a progress bar. */
const unfinishedMs = 1000
/** Large chunks are split, so that the limits hold. */
const maxPartBytes = 64 * 1024
/** Characters of a line of the runner that nothing but this process is left to read. */
const maxOwnLength = 1000

export interface BuildLogOptions {
  readonly logs: BuildLogs
  readonly log: Logger
  readonly deployId: string
  /** Makes the output readable. */
  readonly reader: Pick<Reader, 'call' | 'stopped'>
  /** Values to mask besides texts that look like secrets. */
  readonly secrets?: readonly string[]
  /** The size of the log before the first attempt. */
  readonly begunAt?: number | undefined
}

/** Writes the output of one build to its log, without terminal sequences and secrets, within limits, and without blocking the build. */
export interface BuildLog extends AsyncDisposable {
  /** Takes output of a command, cut anywhere. */
  append(chunk: Buffer): void
  /** Writes a line of the runner itself. */
  line(text: string): void
  /**
   * Returns the last 64 thousand characters, or fewer.
   * @throws ReadingStopped when the reader has stopped
   */
  recent(): Promise<string>
  /** Masks a text for another place than the log. */
  mask(text: string): Promise<string>
  /** Writes the remaining output; it must be the last call. */
  close(): Promise<void>
}

/** Continues the log of an earlier attempt of the same build. */
export async function openBuildLog({
  logs,
  log,
  deployId,
  reader,
  secrets = [],
  begunAt = 0,
}: BuildLogOptions): Promise<BuildLog> {
  const writer = createLogWriter(logs, log, deployId)
  const rest = createByteRing(endBytes)
  const own = createLogText([])
  const reading = createReading(reader, write)
  const [before] = await Promise.all([writer.before(), reader.call('openLog', secrets)])
  /** The bytes of output so far, including earlier attempts. */
  let size = before.size
  let endsLine = true
  /** Whether the last line of the log is incomplete. */
  let isCut = false
  let unfinished: NodeJS.Timeout | undefined
  if (size > begunAt) line(`${before.endsLine ? '' : '\n'}… the build was interrupted and starts again …`)

  function write(text: string): void {
    if (text !== '') isCut = !text.endsWith('\n')
    writer.write(text)
  }

  function append(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; at += maxPartBytes) {
      const part = chunk.subarray(at, at + maxPartBytes)
      if (rest.size > 0 || size >= headBytes) rest.push(part)
      else {
        size += part.length
        reading.push(part)
      }
    }
    const end = chunk.lastIndexOf(0x0a)
    if (end >= 0) stopWaiting()
    if (chunk.length > 0) endsLine = end === chunk.length - 1
    if (!endsLine) unfinished ??= setTimeout(showUnfinished, unfinishedMs).unref()
  }

  function stopWaiting(): void {
    clearTimeout(unfinished)
    unfinished = undefined
  }

  function showUnfinished(): void {
    unfinished = undefined
    if (rest.size === 0) void reading.add(() => reader.call('showLog'))
  }

  function line(text: string): void {
    if (reader.stopped.aborted) write(own.push(Buffer.from(`${isCut ? '\n' : ''}${maskOwn(text)}\n`)))
    else append(Buffer.from(endsLine ? `${text}\n` : `\n${text}\n`))
  }

  /** Masks a text without the reader: in this process many and large secrets would hold up other builds. */
  const maskOwn = (text: string) => maskPlainSecrets(text.slice(0, 4 * maxOwnLength), secrets).slice(0, maxOwnLength)

  async function close(): Promise<void> {
    stopWaiting()
    const { bytes, dropped } = rest.take()
    const end = { bytes: copyOf(bytes), dropped }
    await reading.add(() => reader.call('closeLog', end))
    await writer.close()
  }

  return {
    append,
    line,
    async recent() {
      await reading.done()
      return await reader.call('readRecentLog', copyOf(rest.end(recentLength)))
    },
    async mask(text) {
      return reader.stopped.aborted ? maskOwn(text) : await reader.call('maskText', text)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Passes output to the reader in order, and writes its result. Nothing is read once the reader has stopped. */
function createReading(reader: BuildLogOptions['reader'], write: (text: string) => void) {
  /** Output that waits for the reader. */
  let waiting: Buffer[] = []
  let last = Promise.resolve()

  function then(step: () => Promise<void>): Promise<void> {
    last = last.then(async () => {
      if (!reader.stopped.aborted) await step().catch(() => undefined)
    })
    return last
  }

  async function pushWaiting(): Promise<void> {
    const bytes = Buffer.concat(waiting)
    waiting = []
    for (let at = 0; at < bytes.length; at += maxPartBytes) {
      write(await reader.call('pushLog', copyOf(bytes.subarray(at, at + maxPartBytes))))
    }
  }

  return {
    /** Output that arrives while the reader is busy goes to it in one message. */
    push(part: Buffer): void {
      waiting.push(part)
      if (waiting.length === 1) void then(pushWaiting)
    },
    add: (read: () => Promise<string>) => then(async () => write(await read())),
    done: () => last,
  }
}

/** Copies a part, because a message would contain the whole buffer that the part lies in. */
const copyOf = (part: Buffer) => new Uint8Array(part)
