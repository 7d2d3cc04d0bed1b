import { sql } from 'kysely'
import { conflict } from '../../core/errors.ts'
import { sweepGraceMs } from '../../core/limits.ts'
import { backupLock } from '../../infra/db/base-backup.ts'
import type { Db } from '../../infra/db/database.ts'
import type { Services } from '../services.ts'
import { transact } from '../transact.ts'
import { findUnneeded, lockSweep } from './unneeded-objects.ts'

// A row is an object that is being removed, or was removed within a day: longer than a transaction takes from the moment at which its objects
// were seen. No lock that a request waits for is held while the storage removes objects; a transaction that inserts the first row for one looks
// here instead (`stored-objects.ts`). All times are PostgreSQL's.

/** The advisory lock of the session that removes objects, one at a time, so that a row without `removed_at` is its own, or that of a session that has died. */
const removalLock = sql`5377019::bigint`

export interface SweptObject {
  readonly sha256: string
  /** An object that was stored again since stays. By the clock of the storage. */
  readonly storedBefore: Date
}

/**
 * Removes those of the objects that no row needs. Returns their hashes.
 * @param readBefore objects that were released since may still be read by edges that are behind, and stay
 * @throws AppError `conflict` while a backup is taken
 */
export async function removeObjects(
  services: Services,
  objects: readonly SweptObject[],
  readBefore: Date,
): Promise<readonly string[]> {
  return await services.db.connection().execute(async (db) => {
    await sql`select pg_advisory_lock(${removalLock})`.execute(db)
    try {
      await requireNoBackup(db)
      const session = { ...services, db }
      await settle(session)
      const unneeded = new Set(await mark(session, objects, readBefore))
      for (const { sha256, storedBefore } of objects) if (unneeded.has(sha256)) await services.cas.remove(sha256, storedBefore)
      return await settle(session)
    } finally {
      // ends with the session, too; that of a connection that broke has ended already
      await sql`select pg_advisory_unlock_all()`.execute(db).catch(() => undefined)
    }
  })
}

/** No backup begins before the lock is released. */
async function requireNoBackup(db: Db): Promise<void> {
  const { rows } = await sql<{ held: boolean }>`select pg_try_advisory_lock_shared(${backupLock}::bigint) as held`.execute(db)
  if (!rows[0]?.held) throw conflict('a backup is copying the storage: nothing is removed until it has ended')
}

/** Marks objects that no row needs. From then on no first row for one of them is inserted. */
async function mark(session: Services, objects: readonly SweptObject[], readBefore: Date): Promise<string[]> {
  return await transact(session, async (tx) => {
    await lockSweep(tx)
    const hashes = objects.map(({ sha256 }) => sha256)
    const unneeded = await findUnneeded(tx, hashes, readBefore)
    await sql`
      insert into swept_objects (sha256, removed_at) select sha256, null from unnest(${unneeded}::text[]) as object (sha256)
      on conflict (sha256) do update set removed_at = null`.execute(tx)
    return unneeded
  })
}

/** Asks the storage which of the marked objects are gone, also those of a process that has died. Returns their hashes. */
async function settle({ db, cas }: Services): Promise<string[]> {
  const marked = await db.selectFrom('swept_objects').select('sha256').where('removed_at', 'is', null).execute()
  const gone: string[] = []
  const kept: string[] = []
  for (const { sha256 } of marked) ((await cas.stat(sha256)) ? kept : gone).push(sha256)
  await sql`update swept_objects set removed_at = clock_timestamp() where sha256 = any(${gone})`.execute(db)
  await sql`delete from swept_objects where sha256 = any(${kept})`.execute(db)
  return gone
}

/** Deletes the rows of objects that were removed so long ago that no transaction has seen them before. */
export async function forgetSweptObjects(db: Db): Promise<void> {
  await sql`delete from swept_objects where removed_at < now() - ${sweepGraceMs}::integer * interval '1 millisecond'`.execute(db)
}

/** Whether objects are being removed, or a process that removed them has died. */
export async function hasMarkedObjects(db: Db): Promise<boolean> {
  const marked = db.selectFrom('swept_objects').select('sha256').where('removed_at', 'is', null).limit(1)
  return (await marked.executeTakeFirst()) !== undefined
}
