import { unavailable } from '../core/errors.ts'

export interface Turns {
  /**
   * Runs the work when every earlier one has ended.
   * @throws AppError `unavailable` when too many are waiting
   */
  run<T>(work: () => Promise<T>): Promise<T>
}

/** One at a time, in the order of arrival. */
export function createTurns(maxWaiting: number): Turns {
  let last: Promise<unknown> = Promise.resolve()
  let pending = 0
  return {
    async run(work) {
      if (pending > maxWaiting) throw unavailable('too many large requests are waiting; try again in a few seconds')
      pending += 1
      const turn = last.then(work)
      last = turn.catch(() => undefined)
      try {
        return await turn
      } finally {
        pending -= 1
      }
    },
  }
}
