/** Why a request may not wait: its payer has its share of the waiting room, or the room is full. */
export type Overflow = 'payer' | 'server'

export interface FairQueueLimits {
  /** Slots of all payers together. */
  readonly slots: number
  /** Slots that one payer may hold; by default all of them. */
  readonly slotsPerPayer?: number
  /** How many requests may wait for a slot; by default any number. */
  readonly waitingRoom?: {
    readonly total: number
    readonly perPayer: number
    readonly overflow: (why: Overflow, payer: string) => Error
  }
  /** How long a request may wait for a slot; by default there is no limit. */
  readonly patience?: { readonly ms: number; readonly late: () => Error }
}

interface Line {
  readonly payer: string
  held: number
  /** Called when it gets a slot, first come, first served. */
  readonly waiters: (() => void)[]
  /** The number of the queue's latest grant that went to this payer. */
  servedAt: number
}

/**
 * Slots that payers share fairly: a free one goes to the payer that holds the fewest, and of those to the one that was served longest ago.
 * However many slots a payer waits for, another one waits for at most one of them. The waiting room is shared as well: a payer may take no
 * more of it than is still free.
 */
export class FairQueue {
  readonly #limits: FairQueueLimits
  readonly #slotsPerPayer: number
  readonly #lines = new Map<string, Line>()
  #held = 0
  #waiting = 0
  #grants = 0

  constructor(limits: FairQueueLimits) {
    this.#limits = limits
    this.#slotsPerPayer = limits.slotsPerPayer ?? limits.slots
  }

  get held(): number {
    return this.#held
  }

  get waiting(): number {
    return this.#waiting
  }

  /** Waits for a slot, and returns a function that releases it. An abort of the signal ends the wait with the signal's reason. */
  async acquire(payer: string, signal?: AbortSignal): Promise<() => void> {
    const line = this.#lines.get(payer) ?? { payer, held: 0, waiters: [], servedAt: 0 }
    this.#lines.set(payer, line)
    const isFree = this.#held < this.#limits.slots && line.held < this.#slotsPerPayer && line.waiters.length === 0
    return isFree ? this.#grant(line) : await this.#wait(line, signal)
  }

  /** Runs the work while it holds a slot. */
  async run<T>(payer: string, work: () => Promise<T>): Promise<T> {
    const release = await this.acquire(payer)
    try {
      return await work()
    } finally {
      release()
    }
  }

  #grant(line: Line): () => void {
    line.held += 1
    this.#held += 1
    this.#grants += 1
    line.servedAt = this.#grants
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      line.held -= 1
      this.#held -= 1
      this.#forgetIdle(line)
      this.#grantNext()
    }
  }

  #forgetIdle(line: Line): void {
    if (line.held === 0 && line.waiters.length === 0) this.#lines.delete(line.payer)
  }

  #grantNext(): void {
    while (this.#held < this.#limits.slots) {
      let best: Line | undefined
      for (const line of this.#lines.values()) {
        if (line.waiters.length === 0 || line.held >= this.#slotsPerPayer) continue
        const isBetter = best === undefined || line.held < best.held || (line.held === best.held && line.servedAt < best.servedAt)
        if (isBetter) best = line
      }
      const granted = best?.waiters.shift()
      if (!granted) return
      granted()
    }
  }

  #enterWaitingRoom(line: Line): void {
    const room = this.#limits.waitingRoom
    const count = line.waiters.length + 1
    if (room && count > Math.min(room.perPayer, room.total - this.#waiting)) {
      this.#forgetIdle(line)
      throw room.overflow(count > room.perPayer ? 'payer' : 'server', line.payer)
    }
    this.#waiting += 1
  }

  #wait(line: Line, signal: AbortSignal | undefined): Promise<() => void> {
    this.#enterWaitingRoom(line)
    const { patience } = this.#limits
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined
      const stopWaiting = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
        this.#waiting -= 1
      }
      const granted = () => {
        stopWaiting()
        resolve(this.#grant(line))
      }
      const giveUp = (error: unknown) => {
        line.waiters.splice(line.waiters.indexOf(granted), 1)
        stopWaiting()
        this.#forgetIdle(line)
        reject(error)
      }
      const onAbort = () => giveUp(signal?.reason)
      line.waiters.push(granted)
      signal?.addEventListener('abort', onAbort)
      if (patience) timer = setTimeout(() => giveUp(patience.late()), patience.ms)
    })
  }
}
