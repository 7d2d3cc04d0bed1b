import { setTimeout as pause } from 'node:timers/promises'
import type { Transaction } from 'kysely'
import { unavailable } from '../core/errors.ts'
import type { DB } from '../infra/db/schema.ts'
import type { Services } from './services.ts'

/** Objects that were looked for in the storage, by hash: whether it has them, and since when, by PostgreSQL's clock. */
export type SeenObjects = Map<string, { readonly isStored: boolean; readonly since: Date }>

export interface Tx extends Transaction<DB> {
  /**
   * Registers work for after the commit, such as a log line. Registering the same function twice runs it
   * once. It must not throw.
   */
  afterCommit(work: () => void): void
  readonly wakeRelay: () => void
  /** See `services/storage/stored-objects.ts`. */
  readonly seen: SeenObjects
}

/**
 * Thrown inside of a transaction by a step that needs the storage. The transaction is rolled back, so that no request waits for a lock while
 * the storage works; then `prepare` runs, and the transaction begins again.
 */
export class Unprepared extends Error {
  readonly prepare: () => Promise<void>

  constructor(prepare: () => Promise<void>) {
    super('the transaction needs the storage')
    this.prepare = prepare
  }
}

/** Another try is needed for each object that is removed, or replaced by another one, just then. */
const maxTries = 50
const retryPauseMs = 20

/**
 * Runs the work in one transaction, then the functions that it has registered. When it throws, nothing has changed. The work runs again when it
 * was not prepared, so it changes nothing but the database.
 */
export async function transact<Result>(
  { db, relay }: Pick<Services, 'db' | 'relay'>,
  work: (tx: Tx) => Promise<Result>,
  seen: SeenObjects = new Map(),
): Promise<Result> {
  for (let tries = 1; ; tries++) {
    const registered = new Set<() => void>()
    const additions = { afterCommit: (run: () => void) => void registered.add(run), wakeRelay: () => relay.wake(), seen }
    try {
      const result = await db.transaction().execute((transaction) => work(Object.assign(transaction, additions)))
      for (const run of registered) run()
      return result
    } catch (error) {
      if (!(error instanceof Unprepared)) throw error
      if (tries === maxTries) throw unavailable('the storage is being changed; try again in a few seconds')
      if (tries > 1) await pause(retryPauseMs)
      await error.prepare()
    }
  }
}
