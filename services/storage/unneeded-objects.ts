import { sql } from 'kysely'
import { conflict } from '../../core/errors.ts'
import { backupLock } from '../../infra/db/base-backup.ts'
import type { Db } from '../../infra/db/database.ts'
import type { Tx } from '../transact.ts'

/** The advisory lock that is shared by inserts of rows for objects, and exclusive for the sweeper while it removes objects. */
const sweepLock = sql`5377001::bigint`

/** Every column that names an object of the storage, with the condition under which the object is needed for it. */
export const objectColumns = {
  'blobs.sha256': 'true',
  'deploys.manifest_sha256': 'not deploys.artifacts_purged',
  'deploys.source_sha256': 'true',
  'sites.retained_sha256': 'true',
} as const satisfies Record<string, string>

/**
 * Keeps the sweeper from removing objects until the transaction ends. Each function that inserts the first row for an object takes it, after the
 * project's lock, and then checks that the object still exists.
 */
export async function holdSweeper(tx: Tx): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(${sweepLock})`.execute(tx)
}

/**
 * Waits for those who hold the sweeper and makes later ones wait until the transaction ends; no backup begins before that.
 * @throws AppError `conflict` while a backup is taken
 */
export async function lockSweep(tx: Tx): Promise<void> {
  await sql`select pg_advisory_xact_lock(${sweepLock})`.execute(tx)
  const { rows } = await sql<{ held: boolean }>`select pg_try_advisory_xact_lock_shared(${backupLock}::bigint) as held`.execute(
    tx,
  )
  if (!rows[0]?.held) throw conflict('a backup is copying the storage: nothing is removed until it has ended')
}

const needed = sql.raw(
  Object.entries(objectColumns)
    .map(([column, condition]) => `exists (select from ${column.split('.')[0]} where ${column} = object.sha256 and ${condition})`)
    .join(' or '),
)

/** Returns the hashes that no row of any project needs, and no edge that lags behind: those may read objects released since `before`. */
export async function findUnneeded(db: Db, hashes: readonly string[], before: Date): Promise<string[]> {
  const { rows } = await sql<{ sha256: string }>`
    select object.sha256 from unnest(${hashes}::text[]) as object (sha256)
    where not (${needed}) and not exists (
      select from released_objects as released
      where released.sha256 = object.sha256 and released.published and released.released_at >= ${before}
    )`.execute(db)
  return rows.map((row) => row.sha256)
}
