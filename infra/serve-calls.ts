import { parentPort, workerData } from 'node:worker_threads'
import { AppError } from '../core/errors.ts'
import type { Answer, Call, Calls, ThreadData } from './limited-thread.ts'
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
    const { name, message, stack, code, path, syscall } = error as NodeJS.ErrnoException
    const kind = error instanceof AppError ? error.kind : undefined
    return { id, error: { name, message, stack, code, path, syscall, kind } }
  }
}
