import { setTimeout as delay } from 'node:timers/promises'

/** Waits for some time, or until the signal is aborted: then it returns early and does not throw. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined)
}
