import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { Tx } from '../transact.ts'
import { deleteBlobs } from './blobs.ts'
import { releaseObjects } from './released-objects.ts'

/** The hashes of up to `limit` uploaded blobs that no deploy contains and that were not touched since `before`, by project. */
export async function findAbandonedBlobs(db: Db, before: Date, limit: number): Promise<ReadonlyMap<string, readonly string[]>> {
  const { rows } = await sql<{ project_id: string; hashes: string[] }>`
    select project_id, array_agg(sha256) as hashes
    from (select project_id, sha256 from blobs where ${isAbandoned(before)} limit ${limit}) as abandoned
    group by project_id order by project_id`.execute(db)
  return new Map(rows.map(({ project_id, hashes }) => [project_id, hashes]))
}

/** Deletes those of the blobs that are still abandoned, and releases their objects. Under the project's lock. Returns their number. */
export async function dropAbandonedBlobs(
  tx: Tx,
  projectId: string,
  hashes: readonly string[],
  { before, now }: { readonly before: Date; readonly now: Date },
): Promise<number> {
  const statement = sql`
    delete from blobs where project_id = ${projectId} and sha256 = any(${hashes}::text[]) and ${isAbandoned(before)}`
  const released = await deleteBlobs(tx, projectId, statement)
  await releaseObjects(tx, released, { now, published: false })
  return released.length
}

const isAbandoned = (before: Date) => sql`deploys = 0 and touched_at < ${before}`
