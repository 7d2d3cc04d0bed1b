import { signals } from '../contract/messages.ts'
import { createSignalFlag } from './signal-flag.ts'

/** A worker's clock may be behind the one of the timer. */
const shortestPauseMs = 1000

/**
 * Waits until an instant, or until PostgreSQL has something new, then acts; waits again while that was too early.
 * @param dueAt RFC 3339
 * @param wait what operators read of the wait and of the signal that ends it
 */
export async function actWhenDue<Outcome>(
  dueAt: string,
  wait: { readonly summary: string; readonly signal: string },
  act: () => Promise<Outcome | 'early'>,
): Promise<Outcome> {
  const changed = createSignalFlag(signals.changed, wait.signal)
  for (let leastMs = 0; ; leastMs = shortestPauseMs) {
    const pauseMs = Math.max(leastMs, Date.parse(dueAt) - Date.now())
    if (pauseMs > 0) await changed.wait(pauseMs, wait.summary)
    changed.lower()
    const outcome = await act()
    if (outcome !== 'early') return outcome
  }
}
