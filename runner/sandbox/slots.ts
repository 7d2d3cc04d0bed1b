import { createHash } from 'node:crypto'

/** The right to run one build, with the user that it runs as. */
export interface Slot {
  readonly index: number
  /** Undefined when the runner is not root and builds run as its own user. */
  readonly uid: number | undefined
}

const firstUid = 20_000
const uidsPerRunner = 256
const ranges = 128

/**
 * Slots for builds at the same time; `acquire` waits for a free one. Each has a user of its own, so that one build cannot touch
 * another. The users depend on the build folder too: runners of several data directories on one machine stay apart.
 */
export function createSlots(count: number, buildDir: string, isRoot: boolean) {
  const range = createHash('sha256').update(buildDir).digest().readUInt16BE(0) % ranges
  const free: Slot[] = Array.from({ length: count }, (_, index) => ({
    index,
    uid: isRoot ? firstUid + range * uidsPerRunner + index : undefined,
  }))
  const waiting: ((slot: Slot) => void)[] = []

  return {
    async acquire(): Promise<Slot & AsyncDisposable> {
      const slot = free.shift() ?? (await new Promise<Slot>((resolve) => waiting.push(resolve)))
      return {
        ...slot,
        async [Symbol.asyncDispose]() {
          const next = waiting.shift()
          if (next) next(slot)
          else free.push(slot)
        },
      }
    },
  }
}
export type Slots = ReturnType<typeof createSlots>
