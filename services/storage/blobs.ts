import { sql } from 'kysely'
import { AppError, invalid } from '../../core/errors.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { type Db, prepared, prepareQuery } from '../../infra/db/database.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { releaseObjects } from './released-objects.ts'
import { uploadingBytes } from './uploads.ts'

// A row is a blob that a deploy of the project contains (deploys > 0), as which each retained asset, each delivery file and each image of a page counts, or that was uploaded for one (staged). A blob with neither has no row:
// its object is released. What changes several rows holds the project's lock, or skips locked rows, so that no two transactions wait for each other.

const isReadable = sql<boolean>`not exists (
  select from damaged_objects as damaged where damaged.sha256 = blobs.sha256 and damaged.repaired_at is null
)`

export type Blob = Pick<ManifestEntry, 'sha256' | 'size'>

/** Whom room is looked for: what came later does not count, so that of several that do not fit together the first ones are taken. */
export interface RoomFor {
  readonly upload?: string | undefined
  /** A deploy with its source, which goes when the deploy ends. */
  readonly deploy?: string
}

/** Bytes of the project's distinct blobs, of what is on its way to become blobs, and of the sources of deploys that have not ended. */
export async function storageBytes(db: Db, projectId: string, { upload, deploy }: RoomFor = {}): Promise<number> {
  const total = sql<number>`
    coalesce(sum(size), 0)::bigint + ${uploadingBytes(projectId, upload)} + ${sourceBytes(projectId, deploy)}`
  const { bytes } = await db
    .selectFrom('blobs')
    .select(total.as('bytes'))
    .where('project_id', '=', projectId)
    .executeTakeFirstOrThrow()
  return bytes
}

/** The size of distinct archives. @param deploy counts only the sources of deploys that were accepted before it */
const sourceBytes = (projectId: string, deploy: string | undefined) => sql<number>`(
  select coalesce(sum(bytes), 0) from (
    select max(source_bytes) as bytes from deploys
    where project_id = ${projectId} and source_sha256 is not null ${deploy === undefined ? sql`` : sql`and id < ${deploy}`}
    group by source_sha256
  ) as sources
)::bigint`

/** The size of the archives that failed deploys keep. */
export async function keptSourceBytes(db: Db, projectId: string): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(bytes), 0)::bigint as bytes from (
      select max(source_bytes) as bytes from deploys
      where project_id = ${projectId} and status = 'failed' and not artifacts_purged and source_sha256 is not null
      group by source_sha256
    ) as sources`.execute(db)
  return rows[0]?.bytes ?? 0
}

/** The project's blobs among these; blobs with damaged objects are left out. */
async function findBlobs(db: Db, projectId: string, hashes: readonly string[]) {
  if (hashes.length === 0) return []
  const query = db
    .selectFrom('blobs')
    .select(['sha256', 'size', 'deploys'])
    .where('project_id', '=', projectId)
    .where('sha256', '=', sql<string>`any(${hashes}::text[])`)
    .where(isReadable)
  // with 2,000 hashes planning it takes as long as running it
  const { rows } = await prepareQuery('find_blobs', query).execute(db)
  return rows
}

/** The sizes of the project's blobs among these, by hash; blobs with damaged objects are left out. */
export async function findBlobSizes(db: Db, projectId: string, hashes: readonly string[]): Promise<Map<string, number>> {
  const blobs = await findBlobs(db, projectId, hashes)
  return new Map(blobs.map(({ sha256, size }) => [sha256, size]))
}

const byHash = (files: readonly Blob[]) => new Map(files.map(({ sha256, size }) => [sha256, { sha256, size }]))

/** The blobs of the files that the project does not have, each once: they would add to its storage. */
export async function newBlobs(db: Db, projectId: string, files: readonly Blob[]): Promise<Blob[]> {
  const blobs = byHash(files)
  for (const { sha256 } of await findBlobs(db, projectId, [...blobs.keys()])) blobs.delete(sha256)
  return [...blobs.values()]
}

export const bytesOf = (blobs: readonly Blob[]) => blobs.reduce((sum, blob) => sum + blob.size, 0)

/**
 * Counts one more deploy for every blob of the files and makes them the project's. Once per deploy, in the transaction that sets its
 * manifest, which keeps the sweeper away (`keepObjects`).
 */
export async function addBlobsOfDeploy(tx: Tx, projectId: string, files: readonly Blob[]): Promise<void> {
  await addNewBlobs(tx, projectId, await countHeldBlobs(tx, projectId, files))
}

/**
 * The first half of {@link addBlobsOfDeploy}: counts one more deploy for the blobs of the files that the project has. Returns the others, each
 * once, as {@link newBlobs} does.
 */
export async function countHeldBlobs(tx: Tx, projectId: string, files: readonly Blob[]): Promise<Blob[]> {
  const blobs = byHash(files)
  if (blobs.size === 0) return []
  const query = tx
    .updateTable('blobs')
    .set((eb) => ({ deploys: eb('deploys', '+', 1), staged: false }))
    .where('project_id', '=', projectId)
    .where('sha256', '=', sql<string>`any(${[...blobs.keys()]}::text[])`)
    .where(isReadable)
    .returning('sha256')
  // for 2,000 blobs that the project has it takes two thirds of the time of an upsert
  const { rows } = await sql<{ sha256: string }>`${prepared('count_held_blobs')}${query}`.execute(tx)
  for (const { sha256 } of rows) blobs.delete(sha256)
  return [...blobs.values()]
}

/** The second half of {@link addBlobsOfDeploy}: counts the first deploy of blobs, each of which is given once. */
export async function addNewBlobs(tx: Tx, projectId: string, blobs: readonly Blob[]): Promise<void> {
  if (blobs.length === 0) return
  // a blob with a damaged object has a row
  await sql`
    insert into blobs (project_id, sha256, size, deploys)
    select ${projectId}, sha256, size, 1
    from unnest(${blobs.map((blob) => blob.sha256)}::text[], ${blobs.map((blob) => blob.size)}::bigint[]) as file (sha256, size)
    on conflict (project_id, sha256) do update set deploys = blobs.deploys + 1, staged = false`.execute(tx)
}

/**
 * The reverse, in the transaction that purges the deploy, under the project's lock. Blobs that the project no longer needs, and the
 * manifest, are released: edges that lag behind may read them until their grace is over.
 */
export async function removeBlobsOfDeploy(
  tx: Tx,
  deploy: { readonly project_id: string; readonly manifest_sha256: string | null },
  files: readonly Blob[],
  now: Date,
): Promise<void> {
  const { project_id, manifest_sha256 } = deploy
  if (manifest_sha256 === null) return
  await dropBlobs(tx, project_id, [...byHash(files).keys()], now)
  await releaseObjects(tx, [manifest_sha256], { now, published: true })
}

/** Counts one more use of a blob, besides those by deploys, and makes it the project's. Under the project's lock and the sweeper's. */
export async function useBlob(tx: Tx, projectId: string, { sha256, size }: Blob): Promise<void> {
  await tx
    .insertInto('blobs')
    .values({ project_id: projectId, sha256, size, deploys: 1 })
    .onConflict((conflict) =>
      conflict.columns(['project_id', 'sha256']).doUpdateSet((eb) => ({ deploys: eb('blobs.deploys', '+', 1) })),
    )
    .execute()
}

/**
 * Counts down the blobs for uses that have ended, once for each occurrence of a hash. Blobs that the project no longer needs are released.
 * Under the project's lock.
 */
export async function dropBlobs(tx: Tx, projectId: string, hashes: readonly string[], now: Date): Promise<void> {
  if (hashes.length === 0) return
  const counted = countByHash(hashes)
  const dropped = sql`unnest(${counted.hashes}::text[], ${counted.counts}::integer[]) as dropped (sha256, uses)`
  const ofProject = sql`blobs.project_id = ${projectId} and blobs.sha256 = dropped.sha256`
  const { rows } = await sql<{ sha256: string }>`
    delete from blobs using ${dropped} where ${ofProject} and blobs.deploys = dropped.uses and not blobs.staged
    returning blobs.sha256`.execute(tx)
  await sql`
    update blobs set deploys = blobs.deploys - dropped.uses, touched_at = ${now} from ${dropped} where ${ofProject}`.execute(tx)
  const released = rows.map(({ sha256 }) => sha256)
  await releaseObjects(tx, released, { now, published: true })
}

/** Each hash once, with the number of its occurrences. */
export function countByHash(hashes: readonly string[]): { readonly hashes: string[]; readonly counts: number[] } {
  const counts = new Map<string, number>()
  for (const sha256 of hashes) counts.set(sha256, (counts.get(sha256) ?? 0) + 1)
  return { hashes: [...counts.keys()], counts: [...counts.values()] }
}

/** Adds an uploaded blob to the project and restarts its grace, under the project's lock and the sweeper's. */
export async function stageBlob(tx: Tx, projectId: string, { sha256, size }: Blob, now: Date): Promise<void> {
  await tx
    .insertInto('blobs')
    .values({ project_id: projectId, sha256, size, deploys: 0, staged: true, touched_at: now })
    .onConflict((conflict) => conflict.columns(['project_id', 'sha256']).doUpdateSet({ staged: true, touched_at: now }))
    .execute()
}

/** Returns the hashes that the project has, and keeps those that are only staged for another day. */
export async function renewBlobs(services: Services, projectId: string, hashes: readonly string[]): Promise<ReadonlySet<string>> {
  const held = new Set<string>()
  const staged: string[] = []
  for (const { sha256, deploys } of await findBlobs(services.db, projectId, hashes)) {
    if (deploys > 0) held.add(sha256)
    else staged.push(sha256)
  }
  if (staged.length === 0) return held
  const renewed = await withProject(services, projectId, (tx) => renewStagedBlobs(tx, projectId, staged, services.clock()))
  for (const sha256 of renewed) held.add(sha256)
  return held
}

/** Begins the grace of staged blobs again. Returns those that are still there: the sweeper may have removed one since. */
async function renewStagedBlobs(tx: Tx, projectId: string, hashes: readonly string[], now: Date): Promise<string[]> {
  const renewed = await tx
    .updateTable('blobs')
    .set({ touched_at: now })
    .where('project_id', '=', projectId)
    .where('sha256', '=', sql<string>`any(${hashes})`)
    .returning('sha256')
    .execute()
  return renewed.map(({ sha256 }) => sha256)
}

export const unknownBlob = (file: { path: string; sha256: string }) =>
  invalid(`${file.path}: the project has no blob ${file.sha256}; send the file's content`)

/** @param hashes may have repetitions */
export const missingBlobs = (hashes: readonly string[]) =>
  new AppError('invalid', 'the project lacks blobs; send each of them with put_blob, then repeat the manifest', {
    code: 'missing_blobs',
    missing: [...new Set(hashes)],
  })
