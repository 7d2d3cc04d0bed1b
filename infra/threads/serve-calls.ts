import { parentPort, workerData } from 'node:worker_threads'
import { type Answer, type Call, type Calls, packError, type ThreadData } from './calls.ts'
import { threadId } from './thread-cpu.ts'

/** Serves the calls of a thread that `startLimitedThread` has started. The file of the thread calls it once. */
export function serveCalls(calls: Calls): void {
  const { beats, beatMs } = workerData as ThreadData
  const beat = () => Atomics.add(beats, 0, 1)
  let running = 0
  let timer: NodeJS.Timeout | undefined

  async function serve({ id, name, args }: Call): Promise<void> {
    running += 1
    timer ??= setInterval(beat, beatMs)
    parentPort?.postMessage(await answerTo(id, () => calls[name]?.(...args)))
    beat()
    running -= 1
    if (running > 0) return
    clearInterval(timer)
    timer = undefined
  }

  parentPort?.on('message', (call: Call) => void serve(call))
  parentPort?.postMessage(threadId())
}

async function answerTo(id: number, work: () => unknown): Promise<Answer> {
  try {
    return { id, value: await work() }
  } catch (error) {
    return { id, error: packError(error) }
  }
}
