/** When the start is over, also on a machine that is busy with it. */
const afterMs = 5000

/**
 * Collects, once, what loading has left: 4 to 20 MiB. V8 does not do so by itself in a process that then waits for work, because it
 * allocates too little. Needs Node's flag `--expose-gc`; without it nothing happens.
 */
export function collectGarbageOfStart(): void {
  // the usual collection keeps the room for young objects and code that ran only once
  setTimeout(() => globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' }), afterMs).unref()
}
