import type { Transaction } from 'kysely'
import type { DB } from '../infra/db/schema.ts'
import type { Services } from './services.ts'

export interface Tx extends Transaction<DB> {
  /**
   * Registers what must only happen when the transaction was committed, such as a log line. Registering the same function twice runs it
   * once. It must not throw.
   */
  afterCommit(work: () => void): void
  readonly wakeRelay: () => void
}

/** Runs the work in one transaction, then what the work has registered; when it throws, nothing has happened. */
export async function transact<Result>(
  { db, relay }: Pick<Services, 'db' | 'relay'>,
  work: (tx: Tx) => Promise<Result>,
): Promise<Result> {
  const registered = new Set<() => void>()
  const additions = { afterCommit: (run: () => void) => void registered.add(run), wakeRelay: () => relay.wake() }
  const result = await db.transaction().execute((transaction) => work(Object.assign(transaction, additions)))
  for (const run of registered) run()
  return result
}
