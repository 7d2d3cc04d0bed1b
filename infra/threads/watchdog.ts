import { Worker } from 'node:worker_threads'

export interface WatchdogLimits {
  /** Processor time of the main thread without one turn of the event loop, after which the process is ended. */
  readonly standstillMs: number
  /** How long the process may go on when the launcher that started it has gone. */
  readonly orphanMs: number
}

/** What the watching thread is given. */
export interface Watched extends WatchdogLimits {
  readonly process: string
  /** Its first element grows at every beat. */
  readonly beats: Int32Array
  /** Pid of the launcher; undefined when something else started the process, which may outlive that. */
  readonly launcher: number | undefined
}

const beatMs = 500
/** The longest honest work of a process blocks it for well below a second. A launcher's processes drain within 10 s. */
const usual: WatchdogLimits = { standstillMs: 10_000, orphanMs: 15_000 }

/**
 * Ends this process by SIGKILL when its event loop stands still, so that its supervisor, whichever it is, starts it again; a line of its log
 * says for how long and where. A thread watches, because nothing on a blocked event loop could, not even the handler of SIGTERM. It judges by the
 * processor time that the main thread has used since its last beat: a stopped process, a suspended machine and one with too much to do use none.
 * The same thread ends a process that does not end by itself after its launcher was killed. It costs about 20 MB.
 */
export function startWatchdog(process_: string, limits: WatchdogLimits = usual): void {
  const beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  const launcher = process.channel ? process.ppid : undefined
  const workerData: Watched = { ...limits, process: process_, beats, launcher }
  new Worker(new URL('./watchdog-thread.ts', import.meta.url), {
    workerData,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 2 },
  }).unref()
  setInterval(() => Atomics.add(beats, 0, 1), beatMs).unref()
}
