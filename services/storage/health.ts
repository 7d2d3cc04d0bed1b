import { type Selectable, sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Tx } from '../transact.ts'

export type DamagedRow = Selectable<DB['damaged_objects']>

/** The number of parts of the storage, named by the first two characters of hashes. */
const prefixes = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0'))

/** Chooses the prefixes whose objects were not verified for the longest time, or never. */
export async function listPrefixesToVerify(db: Db, count: number): Promise<string[]> {
  const rows = await db.selectFrom('verified_prefixes').select(['prefix', 'verified_at']).execute()
  const times = new Map(rows.map((row) => [row.prefix, row.verified_at.getTime()]))
  return prefixes.toSorted((a, b) => (times.get(a) ?? 0) - (times.get(b) ?? 0)).slice(0, count)
}

/** Records that all objects of a prefix were read. */
export async function saveVerifiedPrefix(db: Db, row: Selectable<DB['verified_prefixes']>): Promise<void> {
  const { prefix: _, ...facts } = row
  await db
    .insertInto('verified_prefixes')
    .values(row)
    .onConflict((conflict) => conflict.column('prefix').doUpdateSet(facts))
    .execute()
}

/** Marks an object as damaged: it then counts as missing in every project that has it. */
export async function markDamaged(tx: Tx, sha256: string, now: Date): Promise<void> {
  await tx
    .insertInto('damaged_objects')
    .values({ sha256, found_at: now, repaired_at: null })
    .onConflict((conflict) => conflict.column('sha256').doUpdateSet({ found_at: now, repaired_at: null }))
    .execute()
}

/** Marks objects as repaired. */
export async function markRepaired(db: Db | Tx, hashes: readonly string[], now: Date): Promise<void> {
  await db
    .updateTable('damaged_objects')
    .set({ repaired_at: now })
    .where('sha256', '=', sql<string>`any(${hashes})`)
    .where('repaired_at', 'is', null)
    .execute()
}

/** Lists damaged objects, then repaired ones, the newest first. */
export function listDamagedObjects(db: Db, limit: number): Promise<DamagedRow[]> {
  return db
    .selectFrom('damaged_objects')
    .selectAll()
    .orderBy(sql`repaired_at desc nulls first`)
    .orderBy('found_at', 'desc')
    .limit(limit)
    .execute()
}

/** Forgets old repairs. */
export async function forgetRepairsBefore(db: Db, before: Date): Promise<void> {
  await db.deleteFrom('damaged_objects').where('repaired_at', '<', before).execute()
}

/** Forgets these. */
export async function forgetDamaged(db: Db, hashes: readonly string[]): Promise<void> {
  await db.deleteFrom('damaged_objects').where('sha256', '=', sql<string>`any(${hashes})`).execute()
}

export interface StorageHealth {
  /** Their number at the latest verification. */
  readonly objects: number
  /** Their size, without variants. */
  readonly bytes: number
  /** Prefixes that were verified at least once, of 256. */
  readonly verified_prefixes: number
  readonly oldest: Date | null
  readonly latest: Date | null
  /** Objects that cannot be read. */
  readonly damaged: number
}

export async function readStorageHealth(db: Db): Promise<StorageHealth> {
  const { rows } = await sql<StorageHealth>`
    select coalesce(sum(objects), 0)::bigint as objects, coalesce(sum(bytes), 0)::bigint as bytes,
      count(*)::integer as verified_prefixes, min(verified_at) as oldest, max(verified_at) as latest,
      (select count(*)::integer from damaged_objects where repaired_at is null) as damaged
    from verified_prefixes`.execute(db)
  const [health] = rows
  if (!health) throw new Error('an aggregate without a row')
  return health
}
