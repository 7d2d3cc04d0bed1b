import { sql } from 'kysely'
import type { ManifestEntry } from '../../core/manifest.ts'
import type { Db, Tx } from './database.ts'

/** Bytes of the project's distinct blobs that an unpurged deploy contains. */
export async function storageBytes(db: Db, projectId: string): Promise<number> {
  const { bytes } = await db
    .selectFrom('blobs')
    .select(sql<number>`coalesce(sum(size), 0)::bigint`.as('bytes'))
    .where('project_id', '=', projectId)
    .executeTakeFirstOrThrow()
  return bytes
}

/** Sizes by hash of those blobs that the project has; the others are absent from the map. */
export async function findBlobSizes(db: Db, projectId: string, hashes: readonly string[]): Promise<Map<string, number>> {
  if (hashes.length === 0) return new Map()
  const rows = await db
    .selectFrom('blobs')
    .select(['sha256', 'size'])
    .where('project_id', '=', projectId)
    .where('sha256', '=', sql<string>`any(${hashes})`)
    .execute()
  return new Map(rows.map((row) => [row.sha256, row.size]))
}

type Blob = Pick<ManifestEntry, 'sha256' | 'size'>

/** Each blob once, in the order of its hash, so that two transactions lock rows in one order. */
function distinct(files: readonly Blob[]): Blob[] {
  const byHash = new Map(files.map(({ sha256, size }) => [sha256, { sha256, size }]))
  return [...byHash.values()].sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1))
}

/** Bytes that the files would add to the project's storage: its own blobs are not counted again. */
export async function addedBytes(db: Db, projectId: string, files: readonly Blob[]): Promise<number> {
  const blobs = distinct(files)
  const held = await findBlobSizes(
    db,
    projectId,
    blobs.map((blob) => blob.sha256),
  )
  return blobs.reduce((sum, blob) => (held.has(blob.sha256) ? sum : sum + blob.size), 0)
}

/** Counts one more deploy for every blob of the files and makes them the project's. Once per deploy, in the transaction that sets its manifest. */
export async function addBlobsOfDeploy(tx: Tx, projectId: string, files: readonly Blob[]): Promise<void> {
  const blobs = distinct(files)
  if (blobs.length === 0) return
  await sql`
    insert into blobs (project_id, sha256, size, deploys)
    select ${projectId}, sha256, size, 1
    from unnest(${blobs.map((blob) => blob.sha256)}::text[], ${blobs.map((blob) => blob.size)}::bigint[]) as file (sha256, size)
    on conflict (project_id, sha256) do update set deploys = blobs.deploys + 1`.execute(tx)
}

/** The reverse, in the transaction that purges the deploy; a blob without deploys is no longer the project's. */
export async function removeBlobsOfDeploy(tx: Tx, projectId: string, files: readonly Blob[]): Promise<void> {
  const hashes = distinct(files).map((blob) => blob.sha256)
  if (hashes.length === 0) return
  await tx
    .updateTable('blobs')
    .set((eb) => ({ deploys: eb('deploys', '-', 1) }))
    .where('project_id', '=', projectId)
    .where('sha256', '=', sql<string>`any(${hashes})`)
    .execute()
  await tx
    .deleteFrom('blobs')
    .where('project_id', '=', projectId)
    .where('sha256', '=', sql<string>`any(${hashes})`)
    .where('deploys', '<=', 0)
    .execute()
}
