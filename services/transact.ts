import type { Transaction } from 'kysely'
import type { DB } from '../infra/db/schema.ts'
import type { Services } from './services.ts'

export interface Tx extends Transaction<DB> {
  /**
   * Registers work for after the commit, such as a log line. Registering the same function twice runs it
   * once. It must not throw.
   */
  afterCommit(work: () => void): void
  readonly wakeRelay: () => void
}

/** Runs the work in one transaction, then the functions that it has registered. When it throws, nothing has changed. */
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
