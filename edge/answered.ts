/** Nothing when a request was answered at once, and a promise when something has to be read first. */
export type Answered = void | Promise<void>

/** Goes on at once with what is in memory: a promise would cost a small response more than everything else that is done for it. */
export function whenRead<T, R>(read: T | Promise<T>, use: (value: T) => R): R | Promise<Awaited<R>> {
  return read instanceof Promise ? (read.then(use) as Promise<Awaited<R>>) : use(read)
}
