import { conflict } from '../../core/errors.ts'
import { sweepGraceMs, uploadPeriodMs } from '../../core/limits.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { dropAbandonedBlobs, findAbandonedBlobs } from './abandoned-blobs.ts'
import { forgetReleasedObjects, listReleasedObjects, type ReleasedObject } from './released-objects.ts'
import { forgetSweptObjects, hasMarkedObjects, removeObjects, type SweptObject } from './swept-objects.ts'
import { findUnneeded } from './unneeded-objects.ts'
import { deleteUploadsBefore } from './uploads.ts'

export interface SweepOptions {
  /** Objects that were stored or touched later, by PostgreSQL's clock, are left alone. */
  readonly before: Date
  /** Called now and then, with a line about the progress; an exception ends the sweep. */
  readonly progress: (line: string) => void
}

export interface ObjectSweep {
  readonly looked_at: number
  readonly removed: number
  /** Bytes of the removed objects, without their variants. */
  readonly bytes: number
}

const rowsAtOnce = 1000
const lookedAtOnce = 1000
/** Uploads of the same objects wait while a batch is removed. */
const objectsAtOnce = 50
/** An installation this small may lose any share: one deleted site is a large part of it. */
const smallStorage = 1000

/** Drops uploads that no deploy used and that were not touched since `before`. Returns their number. */
export async function dropUnusedBlobs(services: Services, { before, progress }: SweepOptions, now: Date): Promise<number> {
  let dropped = 0
  for (;;) {
    const abandoned = await findAbandonedBlobs(services.db, before, rowsAtOnce)
    for (const [projectId, hashes] of abandoned) {
      dropped += await withProject(services, projectId, (tx) => dropAbandonedBlobs(tx, projectId, hashes, { before, now }))
      progress(`dropped ${dropped} rows`)
    }
    if (abandoned.size === 0) return dropped
  }
}

/**
 * Removes released objects, then searches the whole storage for objects that no row needs and that were not stored again since `before`. The
 * search completes before anything is removed, and any failure ends it, so that no object counts as unneeded because something did not answer.
 * @param maxShare the share of all objects that may be removed although they were not released
 * @throws AppError `conflict` when it would be more, or while a backup is running
 */
export async function sweepObjects(services: Services, options: SweepOptions & { maxShare: number }): Promise<ObjectSweep> {
  const { db, cas } = services
  const { before, progress, maxShare } = options
  const released = await removeReleasedObjects(services, options)
  const storedBefore = (await readStorageClock(services))(before)
  const { looked_at, unneeded } = await findObjects()
  if (looked_at > smallStorage && unneeded.size > maxShare * looked_at) throw tooMany(unneeded.size, looked_at, maxShare)

  const queue = [...unneeded.keys()]
  let { removed, bytes } = released
  while (queue.length > 0) {
    const batch = queue.splice(0, objectsAtOnce).map((sha256) => ({ sha256, storedBefore }))
    for (const sha256 of await removeObjects(services, batch, before)) {
      removed += 1
      bytes += unneeded.get(sha256) ?? 0
    }
    progress(`removed ${removed} objects, ${queue.length} to go`)
  }
  return { looked_at: looked_at + released.removed, removed, bytes }

  async function findObjects() {
    const unneeded = new Map<string, number>()
    let looked_at = 0
    for await (const hashes of inBatches(cas.list())) {
      looked_at += hashes.length
      for (const sha256 of await findUnneeded(db, hashes, before)) {
        const facts = await cas.stat(sha256)
        if (!facts || facts.storedAt < storedBefore) unneeded.set(sha256, facts?.size ?? 0)
      }
      progress(`looked at ${looked_at} objects`)
    }
    return { looked_at, unneeded }
  }
}

/**
 * Ends the uploads of processes that have died: their bytes no longer count, and their objects are removed. Then removes released objects that
 * were never published, such as the files of refused builds. Called every half minute.
 * @param now by PostgreSQL's clock
 */
export async function removeAbandonedUploads(services: Services, now: Date): Promise<void> {
  const { db, cas } = services
  const before = new Date(now.getTime() - uploadPeriodMs)
  await deleteUploadsBefore(db, before)
  await cas.removeLeftovers((await readStorageClock(services))(before))
  await forgetSweptObjects(db)
  const grace = { before: new Date(now.getTime() - sweepGraceMs), progress: () => undefined }
  await removeReleasedObjects(services, grace)
  // of a sweeper that has died
  if (await hasMarkedObjects(db)) await removeObjects(services, [], grace.before)
}

/** Removes the objects whose release is long enough ago, unless a row needs them or they were stored again. */
async function removeReleasedObjects(
  services: Services,
  { before, progress }: SweepOptions,
): Promise<{ removed: number; bytes: number }> {
  let [removed, bytes] = [0, 0]
  for (;;) {
    const objects = await listReleasedObjects(services.db, before, objectsAtOnce)
    const removedSizes = await removeReleased(services, objects, before)
    removed += removedSizes.length
    bytes += removedSizes.reduce((sum, size) => sum + size, 0)
    progress(`removed ${removed} released objects`)
    if (objects.length < objectsAtOnce) return { removed, bytes }
  }
}

/** Returns the sizes of the removed objects. */
async function removeReleased(services: Services, objects: readonly ReleasedObject[], before: Date): Promise<number[]> {
  if (objects.length === 0) return []
  const { db, cas } = services
  const timeOfStorage = await readStorageClock(services)
  const candidates: SweptObject[] = []
  const sizes = new Map<string, number>()
  for (const { sha256, released_at } of objects) {
    candidates.push({ sha256, storedBefore: timeOfStorage(released_at) })
    sizes.set(sha256, (await cas.stat(sha256))?.size ?? 0)
  }
  const removed = await removeObjects(services, candidates, before)
  await forgetReleasedObjects(db, objects)
  return removed.map((sha256) => sizes.get(sha256) ?? 0)
}

/** Turns instants into those by the clock of the storage, which dates the objects. */
async function readStorageClock({ cas, clock }: Services): Promise<(instant: Date) => Date> {
  const now = clock().getTime()
  const aheadMs = (await cas.now()).getTime() - now
  return (instant) => new Date(instant.getTime() + aheadMs)
}

/** Groups hashes into batches that are large enough for a query. */
async function* inBatches(lists: AsyncIterable<readonly string[]>): AsyncGenerator<string[]> {
  let batch: string[] = []
  for await (const hashes of lists) {
    batch.push(...hashes)
    if (batch.length < lookedAtOnce) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

function tooMany(unneeded: number, all: number, maxShare: number) {
  const share = Math.ceil((unneeded / all) * 100)
  return conflict(
    `${unneeded} of ${all} objects (${share} %) belong to nothing, more than the ${Math.round(maxShare * 100)} % that are removed unasked. ` +
      'Is this the right database for this storage? If so, start the workflow sweepStorage by hand on the queue control ' +
      `with the input {"max_share": ${share / 100}}`,
  )
}
