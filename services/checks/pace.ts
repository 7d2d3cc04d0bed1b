import { setImmediate as nextTurn } from 'node:timers/promises'

/** The queries of a deploy whose files are checked at the same time wait this long for their next turn. */
const maxHoldMs = 1

/** Makes a function to await between steps of a long computation. It yields to the event loop when that was blocked for long. */
export function createPace(): () => Promise<void> {
  let turnAt = performance.now()
  return async () => {
    if (performance.now() - turnAt < maxHoldMs) return
    await nextTurn()
    turnAt = performance.now()
  }
}
