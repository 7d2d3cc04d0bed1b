import { type RawBuilder, sql } from 'kysely'
import { AppError, invalid } from '../../core/errors.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import type { Db } from '../../infra/db/database.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { releaseObjects } from './released-objects.ts'
import { uploadingBytes } from './uploads.ts'

// A row is a blob that a deploy of the project contains (deploys > 0), as which each retained asset, each delivery file and each image of a page counts, or that was uploaded for one (staged). A blob with neither has no row:
// its object is released. What inserts or deletes rows holds the project's lock and counts their bytes in `projects.blob_bytes`.

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
  const total = sql<number>`blob_bytes + ${uploadingBytes(projectId, upload)} + ${sourceBytes(projectId, deploy)}`
  const project = await db.selectFrom('projects').select(total.as('bytes')).where('id', '=', projectId).executeTakeFirst()
  return project?.bytes ?? 0
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
  return await db
    .selectFrom('blobs')
    .select(['sha256', 'size', 'deploys'])
    .where('project_id', '=', projectId)
    .where('sha256', '=', sql<string>`any(${hashes}::text[])`)
    .where(isReadable)
    .execute()
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
  // for 2,000 blobs that the project has it takes two thirds of the time of an upsert
  const held = await updateBlobs(tx, projectId, [...blobs.keys()])
    .set((eb) => ({ deploys: eb('deploys', '+', 1), staged: false }))
    .where(isReadable)
    .returning('sha256')
    .execute()
  for (const { sha256 } of held) blobs.delete(sha256)
  return [...blobs.values()]
}

/** The second half of {@link addBlobsOfDeploy}: counts the first deploy of blobs, each of which is given once. */
export async function addNewBlobs(tx: Tx, projectId: string, blobs: readonly Blob[]): Promise<void> {
  const inserted = await insertBlobs(tx, projectId, blobs)
  const damaged = blobs.filter(({ sha256 }) => !inserted.has(sha256)).map(({ sha256 }) => sha256)
  if (damaged.length === 0) return
  await updateBlobs(tx, projectId, damaged)
    .set((eb) => ({ deploys: eb('deploys', '+', 1), staged: false }))
    .execute()
}

const updateBlobs = (tx: Tx, projectId: string, hashes: readonly string[]) =>
  tx.updateTable('blobs').where('project_id', '=', projectId).where('sha256', '=', sql<string>`any(${hashes}::text[])`)

/**
 * Inserts the rows of blobs that have none, as blobs of one deploy, or as uploaded ones. Under the project's lock and the sweeper's. Returns
 * their hashes.
 * @param blobs each once
 * @param uploadedAt makes them uploaded ones
 */
async function insertBlobs(tx: Tx, projectId: string, blobs: readonly Blob[], uploadedAt?: Date): Promise<ReadonlySet<string>> {
  if (blobs.length === 0) return new Set()
  const { rows } = await sql<{ sha256: string }>`
    with inserted as (
      insert into blobs (project_id, sha256, size, deploys, staged, touched_at)
      select ${projectId}::uuid, sha256, size, ${uploadedAt ? 0 : 1}::integer, ${uploadedAt !== undefined}::boolean,
        coalesce(${uploadedAt ?? null}::timestamptz, now())
      from unnest(${blobs.map((blob) => blob.sha256)}::text[], ${blobs.map((blob) => blob.size)}::bigint[]) as file (sha256, size)
      on conflict (project_id, sha256) do nothing
      returning sha256, size
    ), counted as (${changeBlobBytes(projectId, sql`(select sum(size) from inserted)`)})
    select sha256 from inserted`.execute(tx)
  return new Set(rows.map(({ sha256 }) => sha256))
}

/** @param bytes null when no row was inserted or deleted */
const changeBlobBytes = (projectId: string, bytes: RawBuilder<unknown>) => sql`
  update projects set blob_bytes = blob_bytes + ${bytes} where id = ${projectId} and ${bytes} is not null`

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
export async function useBlob(tx: Tx, projectId: string, blob: Blob): Promise<void> {
  const { sha256 } = blob
  if ((await insertBlobs(tx, projectId, [blob])).has(sha256)) return
  await updateBlobs(tx, projectId, [sha256])
    .set((eb) => ({ deploys: eb('deploys', '+', 1) }))
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
  const released = await deleteBlobs(
    tx,
    projectId,
    sql`delete from blobs using ${dropped} where ${ofProject} and blobs.deploys = dropped.uses and not blobs.staged`,
  )
  await sql`
    update blobs set deploys = blobs.deploys - dropped.uses, touched_at = ${now} from ${dropped} where ${ofProject}`.execute(tx)
  await releaseObjects(tx, released, { now, published: true })
}

/** Runs a statement that deletes blobs of the project, under its lock. Returns their hashes. */
export async function deleteBlobs(tx: Tx, projectId: string, statement: RawBuilder<unknown>): Promise<string[]> {
  const { rows } = await sql<{ sha256: string }>`
    with deleted as (${statement} returning blobs.sha256, blobs.size),
      counted as (${changeBlobBytes(projectId, sql`(select -sum(size) from deleted)`)})
    select sha256 from deleted`.execute(tx)
  return rows.map(({ sha256 }) => sha256)
}

/** Each hash once, with the number of its occurrences. */
export function countByHash(hashes: readonly string[]): { readonly hashes: string[]; readonly counts: number[] } {
  const counts = new Map<string, number>()
  for (const sha256 of hashes) counts.set(sha256, (counts.get(sha256) ?? 0) + 1)
  return { hashes: [...counts.keys()], counts: [...counts.values()] }
}

/** Adds an uploaded blob to the project and restarts its grace, under the project's lock and the sweeper's. */
export async function stageBlob(tx: Tx, projectId: string, blob: Blob, now: Date): Promise<void> {
  const { sha256 } = blob
  if ((await insertBlobs(tx, projectId, [blob], now)).has(sha256)) return
  await updateBlobs(tx, projectId, [sha256]).set({ staged: true, touched_at: now }).execute()
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
  const renewed = await updateBlobs(tx, projectId, hashes).set({ touched_at: now }).returning('sha256').execute()
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
