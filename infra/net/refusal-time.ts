import { setTimeout } from 'node:timers/promises'

/** How long it takes to refuse a name, or a multiple of it. */
const refusalMs = 1000

/**
 * Waits so that a refusal takes as long for a name that is unknown as for one that leads into a private network, which is looked up faster or
 * more slowly.
 * @param startedAtMs of `performance.now()`
 * @param periodMs the time is rounded up to a multiple of it
 */
export async function untilRefusal(startedAtMs: number, periodMs = refusalMs, signal?: AbortSignal): Promise<void> {
  const takenMs = performance.now() - startedAtMs
  await setTimeout(Math.max(1, Math.ceil(takenMs / periodMs)) * periodMs - takenMs, undefined, signal && { signal })
}
