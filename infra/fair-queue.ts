/** Why nobody else may wait: the payer has its share of the queue, or the queue is full. */
export type Overflow = 'payer' | 'server'

export interface FairQueueLimits {
  /** Places at once, of all payers and of one. */
  readonly places: number
  readonly placesPerPayer: number
  /** Who waits for a place, of all payers and of one. */
  readonly waiting: number
  readonly waitingPerPayer: number
  readonly overflow: (why: Overflow, payer: string) => Error
  /** A longer wait is given up with `late`; without it, there is no end. */
  readonly patienceMs?: number
  readonly late?: () => Error
}

export interface FairQueue {
  /** Waits for a place, and returns what gives it back. The signal ends the wait with its reason. */
  acquire(payer: string, signal?: AbortSignal): Promise<() => void>
  readonly held: number
  readonly waiting: number
}

interface Waiter {
  readonly grant: () => void
}

interface Line {
  held: number
  readonly waiters: Waiter[]
  /** The number of the latest grant of the queue that went to this payer. */
  servedAt: number
}

/**
 * Places that payers share fairly: a free one goes to the payer that holds the fewest, and of those to the one that was served longest ago.
 * However many places a payer waits for, another one waits for at most one of them. Of the waiting room, too, nobody gets more than is free.
 */
export function createFairQueue(limits: FairQueueLimits): FairQueue {
  const lines = new Map<string, Line>()
  let held = 0
  let waiting = 0
  let grants = 0

  function lineOf(payer: string): Line {
    const line = lines.get(payer) ?? { held: 0, waiters: [], servedAt: 0 }
    lines.set(payer, line)
    return line
  }

  function take(payer: string, line: Line): () => void {
    line.held += 1
    held += 1
    grants += 1
    line.servedAt = grants
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      line.held -= 1
      held -= 1
      forgetIdle(payer, line)
      grantNext()
    }
  }

  function forgetIdle(payer: string, line: Line): void {
    if (line.held === 0 && line.waiters.length === 0) lines.delete(payer)
  }

  function grantNext(): void {
    while (held < limits.places) {
      let best: Line | undefined
      for (const line of lines.values()) {
        if (line.waiters.length === 0 || line.held >= limits.placesPerPayer) continue
        const isBetter = best === undefined || line.held < best.held || (line.held === best.held && line.servedAt < best.servedAt)
        if (isBetter) best = line
      }
      const next = best?.waiters.shift()
      if (!next) return
      next.grant()
    }
  }

  function wait(payer: string, line: Line, signal?: AbortSignal): Promise<() => void> {
    const mayWait = Math.min(limits.waitingPerPayer, limits.waiting - waiting)
    if (line.waiters.length + 1 > mayWait) {
      forgetIdle(payer, line)
      throw limits.overflow(line.waiters.length + 1 > limits.waitingPerPayer ? 'payer' : 'server', payer)
    }
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined
      const leave = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
        waiting -= 1
      }
      const giveUp = (error: unknown) => {
        line.waiters.splice(line.waiters.indexOf(waiter), 1)
        leave()
        forgetIdle(payer, line)
        reject(error)
      }
      const onAbort = () => giveUp(signal?.reason)
      const waiter: Waiter = {
        grant: () => {
          leave()
          resolve(take(payer, line))
        },
      }
      line.waiters.push(waiter)
      waiting += 1
      signal?.addEventListener('abort', onAbort)
      if (limits.patienceMs === undefined) return
      timer = setTimeout(() => giveUp(limits.late?.() ?? new Error('waited too long for a place')), limits.patienceMs)
    })
  }

  return {
    async acquire(payer, signal) {
      const line = lineOf(payer)
      const isFree = held < limits.places && line.held < limits.placesPerPayer && line.waiters.length === 0
      return isFree ? take(payer, line) : await wait(payer, line, signal)
    },
    get held() {
      return held
    },
    get waiting() {
      return waiting
    },
  }
}
