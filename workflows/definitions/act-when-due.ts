import { condition, defineSignal, setHandler } from '@temporalio/workflow'
import { signals } from '../contract/messages.ts'

const changedSignal = defineSignal(signals.changed)
/** A worker's clock may be behind the one of the timer. */
const shortestPauseMs = 1000

/**
 * Waits until an instant, or until PostgreSQL has something new, then acts; again as long as that was too early.
 * @param dueAt RFC 3339
 * @param wait what operators read of the wait and of the signal that ends it
 */
export async function actWhenDue<Outcome>(
  dueAt: string,
  wait: { readonly summary: string; readonly signal: string },
  act: () => Promise<Outcome | 'early'>,
): Promise<Outcome> {
  let changed = false
  const hear = () => {
    changed = true
  }
  setHandler(changedSignal, hear, { description: wait.signal })
  for (let leastMs = 0; ; leastMs = shortestPauseMs) {
    const pauseMs = Math.max(leastMs, Date.parse(dueAt) - Date.now())
    if (pauseMs > 0) await condition(() => changed, pauseMs, { summary: wait.summary })
    changed = false
    const outcome = await act()
    if (outcome !== 'early') return outcome
  }
}
