import { AsyncLocalStorage } from 'node:async_hooks'
import { TransactionBuilder } from 'kysely'
import { expect } from 'vitest'
import type { Cas, ObjectBatch } from '../infra/cas/cas.ts'

/** Calls of the storage inside of transactions of this process, for whose locks other requests wait. */
const callsInTransactions = new Set<string>()

const inTransaction = new AsyncLocalStorage<true>()
type Execute = (this: unknown, work: (tx: unknown) => unknown) => unknown
const execute = Reflect.get(TransactionBuilder.prototype, 'execute') as Execute
const executeWatched: Execute = function (work) {
  return execute.call(this, (tx) => inTransaction.run(true, () => work(tx)))
}
Reflect.set(TransactionBuilder.prototype, 'execute', executeWatched)

/** Notes each call that is made inside of a transaction; opened objects are read later, so opening them counts. */
function watch<Watched extends Cas | ObjectBatch>(watched: Watched): Watched {
  const get = (target: Watched, name: string | symbol): unknown => {
    const member: unknown = Reflect.get(target, name)
    if (typeof member !== 'function' || name === 'written') return member
    return (...args: unknown[]): unknown => {
      if (inTransaction.getStore()) callsInTransactions.add(String(name))
      const result: unknown = Reflect.apply(member, target, args)
      return name === 'batch' ? watch(result as ObjectBatch) : result
    }
  }
  return new Proxy(watched, { get })
}

export const watchStorage = (cas: Cas): Cas => watch(cas)

/** Whatever a test has done: no transaction has called the storage. */
export function expectNoCallsInTransactions(): void {
  expect([...callsInTransactions]).toEqual([])
}
