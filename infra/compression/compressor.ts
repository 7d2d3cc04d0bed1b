import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Text, Variants } from './encode-bytes.ts'

/** Compresses texts in a process of its own. Disposing ends the process. */
export interface Compressor extends AsyncDisposable {
  /**
   * The variants of the texts that are worth keeping, in their order; none of a text that takes the process too much memory or processor time.
   * Call it again only when it has returned.
   * @throws the signal's reason when it is aborted, and Error when the process cannot be started
   */
  compress(texts: readonly Text[]): Promise<readonly Variants[]>
}

const heapMb = 128
/** A batch of texts takes ten seconds, and one that is as large as possible six. */
const maxProcessorSeconds = 120
/**
 * Limits all writable memory, of which V8 reserves more than half without using it, processor time and files, in KiB, seconds and blocks. A
 * system without one of these limits starts the process without it.
 */
const limits = `ulimit -c 0; ulimit -d 1048576 2>/dev/null; ulimit -t ${maxProcessorSeconds} 2>/dev/null; ulimit -f 0 2>/dev/null`
/** Everything else on the machine comes first. */
const limited = `${limits}; exec nice -n 19 "$0" "$@"`

const program = fileURLToPath(new URL('./compress-child.ts', import.meta.url))
/** To read its program and what that imports, from the sources or from a bundle. */
const rights = ['core', 'infra/compression', 'package.json', 'chunks'].map(
  (path) => `--allow-fs-read=${join(dirname(program), '../..', path)}`,
)
const flags = [`--max-old-space-size=${heapMb}`, '--disable-warning=ExperimentalWarning', '--permission', ...rights]

/** The process is started with the first text: about 50 ms of processor time. It may read its own program only, and inherits nothing. */
export function openCompressor(signal?: AbortSignal): Compressor {
  let running: Promise<ChildProcess> | undefined

  async function start(): Promise<ChildProcess> {
    const child = spawn('/bin/sh', ['-c', limited, process.execPath, ...flags, program], {
      cwd: '/',
      env: {},
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      serialization: 'advanced',
    })
    const kill = () => void child.kill('SIGKILL')
    signal?.addEventListener('abort', kill, { once: true })
    child.once('exit', () => signal?.removeEventListener('abort', kill))
    const answer = await messageOf(child)
    signal?.throwIfAborted()
    if (answer === undefined) throw new Error('the process that compresses files cannot be started')
    return child
  }

  async function compress(texts: readonly Text[]): Promise<readonly Variants[]> {
    signal?.throwIfAborted()
    running ??= start()
    const child = await running
    const answer = messageOf(child)
    // a child that cannot receive them has exited
    child.send(texts, () => undefined)
    const variants = (await answer) as Variants[] | undefined
    signal?.throwIfAborted()
    if (variants) return variants
    running = undefined
    if (texts.length === 1) return [{}]
    const alone: Variants[] = []
    for (const text of texts) alone.push(...(await compress([text])))
    return alone
  }

  return {
    compress,
    async [Symbol.asyncDispose]() {
      const child = await running?.catch(() => undefined)
      if (!child || child.exitCode !== null || child.signalCode !== null) return
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** The next message of the process; undefined when it exits, or cannot be started. */
function messageOf(child: ChildProcess): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>()
  const end = () => resolve(undefined)
  child.once('message', resolve).once('exit', end).once('error', end)
  // it was killed since its last message, and may say no more that it has exited
  if (!child.connected) end()
  return promise.finally(() => child.off('message', resolve).off('exit', end).off('error', end))
}
