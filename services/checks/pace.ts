import { setImmediate as nextTurn } from 'node:timers/promises'

const maxHoldMs = 5

/** Makes a function to await between steps of a long computation. It yields to the event loop when that was blocked for long. */
export function createPace(): () => Promise<void> {
  let turnAt = performance.now()
  return async () => {
    if (performance.now() - turnAt < maxHoldMs) return
    await nextTurn()
    turnAt = performance.now()
  }
}
