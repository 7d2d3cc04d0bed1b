import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'

// Variants are remembered for each project: if the work of one project spared another the wait, that would tell what others store.

/** Returns those of the hashes that are blobs of the project and have not been compressed for it. */
export async function findUncompressed(db: Db, projectId: string, hashes: readonly string[]): Promise<Set<string>> {
  if (hashes.length === 0) return new Set()
  const rows = await db
    .selectFrom('blobs')
    .select('sha256')
    .where('project_id', '=', projectId)
    .where('sha256', '=', sql<string>`any(${hashes})`)
    .where('compressed', '=', false)
    .execute()
  return new Set(rows.map((row) => row.sha256))
}

/**
 * Records that the variants of these blobs are stored, or not worth it. Under the project's lock, as everything that changes several blobs: without
 * it two transactions could each wait for a row of the other.
 */
export async function markCompressed(services: Services, projectId: string, hashes: readonly string[]): Promise<void> {
  await withProject(services, projectId, async (tx) => {
    await tx
      .updateTable('blobs')
      .set({ compressed: true })
      .where('project_id', '=', projectId)
      .where('sha256', '=', sql<string>`any(${hashes})`)
      .execute()
  })
}

/** Has the variants of an object made again when a deploy that contains it goes live, because they are removed. */
export async function forgetCompression(tx: Tx, sha256: string): Promise<void> {
  await sql`
    with locked as (select project_id from blobs where sha256 = ${sha256} order by project_id for update)
    update blobs set compressed = false from locked
    where blobs.sha256 = ${sha256} and blobs.project_id = locked.project_id`.execute(tx)
}
