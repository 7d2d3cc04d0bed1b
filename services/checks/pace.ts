import { setImmediate as nextTurn } from 'node:timers/promises'

const maxHoldMs = 5

/** A function to await between steps of a long computation: it lets others run when the event loop has been held for long. */
export function createPace(): () => Promise<void> {
  let turnAt = performance.now()
  return async () => {
    if (performance.now() - turnAt < maxHoldMs) return
    await nextTurn()
    turnAt = performance.now()
  }
}
