import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { Tx } from '../transact.ts'

// Objects that the platform itself has released, so that removing them is expected. A row does not mean that nothing needs the object: another
// project may have it, or get it again.

/**
 * Releases objects: the sweeper removes them, unless another row needs them or they are stored again.
 * @param published whether edges may have read them; if so, they stay until the grace is over
 */
export async function releaseObjects(
  tx: Tx,
  hashes: readonly string[],
  { now, published }: { readonly now: Date; readonly published: boolean },
): Promise<void> {
  if (hashes.length === 0) return
  // ordered by hash, so that two transactions lock rows in the same order
  await sql`
    insert into released_objects (sha256, released_at, published)
    select sha256, ${now}, ${published} from unnest(${[...new Set(hashes)]}::text[]) as object (sha256) order by sha256
    on conflict (sha256) do update
    set released_at = excluded.released_at, published = released_objects.published or excluded.published`.execute(tx)
}

export interface ReleasedObject {
  readonly sha256: string
  readonly released_at: Date
}

/** Up to `limit` released objects whose grace is over: published ones that were released before then, and all others. The oldest come first. */
export function listReleasedObjects(db: Db, before: Date, limit: number): Promise<ReleasedObject[]> {
  return db
    .selectFrom('released_objects')
    .select(['sha256', 'released_at'])
    .where((eb) => eb.or([eb('released_at', '<', before), eb('published', '=', false)]))
    .orderBy('released_at')
    .limit(limit)
    .execute()
}

/** Forgets objects that are removed or needed again, except those that were released again in the meantime. */
export async function forgetReleasedObjects(db: Db, objects: readonly ReleasedObject[]): Promise<void> {
  await sql`
    delete from released_objects as released
    using unnest(${objects.map((one) => one.sha256)}::text[], ${objects.map((one) => one.released_at)}::timestamptz[]) as done (sha256, released_at)
    where released.sha256 = done.sha256 and released.released_at = done.released_at`.execute(db)
}
