import { sql } from 'kysely'
import { AppError } from '../../core/errors.ts'
import type { ObjectBatch } from '../../infra/cas/cas.ts'
import { findMissing } from '../../infra/cas/missing.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import { databaseTime } from '../../infra/db/database.ts'
import type { Services } from '../services.ts'
import { type SeenObjects, type Tx, Unprepared } from '../transact.ts'
import { holdSweeper } from './unneeded-objects.ts'

// A transaction that inserts the first row for an object asks here whether the storage has it. No transaction asks the storage itself: the
// object was seen before it began, and the rows of `swept_objects` say whether it was removed since.

type Needed = Pick<Services, 'db' | 'cas'>

/** The storage does not take or give an object. */
export class StorageFailure extends AppError {
  constructor(cause: unknown) {
    super('unavailable', 'the storage does not answer; try again in a few seconds', { retryAfterSeconds: 5 })
    this.cause = cause
  }
}

/** Puts the objects of a batch into their places, for a transaction that begins after that. */
export async function publishObjects({ db }: Pick<Services, 'db'>, objects: ObjectBatch): Promise<SeenObjects> {
  const since = await databaseTime(db)
  return new Map((await objects.publish()).map((sha256) => [sha256, { isStored: true, since }]))
}

/** Whether the storage has all of these objects; it then keeps them until the transaction ends. After the lock of the project, if that is needed. */
export async function keepObjects(tx: Tx, services: Needed, hashes: readonly string[]): Promise<boolean> {
  await requireSeen(tx, hashes, async (unseen) => {
    const since = await databaseTime(services.db)
    const missing = new Set(await findMissing(services.cas, unseen))
    for (const sha256 of unseen) tx.seen.set(sha256, { isStored: !missing.has(sha256), since })
  })
  return hashes.every((sha256) => tx.seen.get(sha256)?.isStored)
}

/** Stores an object for rows of the transaction. Returns its hash. @throws StorageFailure */
export async function storeForTransaction(tx: Tx, { db, cas }: Needed, bytes: Buffer): Promise<string> {
  const sha256 = sha256Hex(bytes)
  await requireSeen(tx, [sha256], async () => {
    const since = await databaseTime(db)
    try {
      await cas.put(bytes)
    } catch (error) {
      throw new StorageFailure(error)
    }
    tx.seen.set(sha256, { isStored: true, since })
  })
  return sha256
}

/** @param look called without any lock, with the objects that were not seen yet, or may have been removed since */
async function requireSeen(tx: Tx, hashes: readonly string[], look: (unseen: readonly string[]) => Promise<void>): Promise<void> {
  await holdSweeper(tx)
  const known = hashes.filter((sha256) => tx.seen.has(sha256))
  const { rows } = await sql<{ sha256: string }>`
    select sha256 from swept_objects
    join unnest(${known}::text[], ${known.map((sha256) => tx.seen.get(sha256)?.since)}::timestamptz[]) as seen (sha256, since) using (sha256)
    where removed_at is null or removed_at >= since`.execute(tx)
  for (const { sha256 } of rows) tx.seen.delete(sha256)
  const unseen = hashes.filter((sha256) => !tx.seen.has(sha256))
  if (unseen.length > 0) throw new Unprepared(() => look(unseen))
}
