import { setTimeout as delay } from 'node:timers/promises'

/** Waits for some time, or until the signal is aborted: then it returns early and does not throw. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined)
}

/** Waits for work, or until the signal is aborted. A loop that raced its work with one promise of the abort would keep something of every lap. */
export async function untilAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const aborted = Promise.withResolvers<void>()
  const end = () => aborted.resolve()
  signal.addEventListener('abort', end)
  try {
    await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', end)
  }
}
