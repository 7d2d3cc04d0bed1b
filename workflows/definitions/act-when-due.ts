import { signals } from '../contract/messages.ts'
import { createSignalFlag } from './signal-flag.ts'

/** A worker's clock may be behind the server's clock, which drives timers. */
const shortestPauseMs = 1000

/**
 * Waits until an instant, or until a signal says that the row has changed, then acts; waits again when that was too early.
 * @param dueAt RFC 3339
 * @param wait descriptions of the wait and of its signal, for operators
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
