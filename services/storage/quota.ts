import { sql } from 'kysely'
import { conflict } from '../../core/errors.ts'
import { overStorageQuota } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import type { ProjectRow } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { keptSourceBytes, type RoomFor, storageBytes } from './blobs.ts'
import { releaseObjects } from './released-objects.ts'
import { freeRetainedBytes, retainedBytes } from './retained-assets.ts'

type Project = Pick<ProjectRow, 'id' | 'plan'>

interface Room extends RoomFor {
  readonly addedBytes: number
  /** Hashes of blobs that are needed by what room is made for. */
  readonly needed?: readonly string[]
}

type Needed = Pick<Services, 'config' | 'db' | 'clock' | 'cas'>

export const overQuota = ({ config }: Pick<Services, 'config'>, { plan }: Project) =>
  overStorageQuota(plan, config.plans[plan].storage_bytes ?? 0)

/** How many bytes are too many; zero or less when they fit. */
async function excessOf(db: Db, { config }: Pick<Services, 'config'>, { id, plan }: Project, { addedBytes, ...room }: Room) {
  const quota = config.plans[plan].storage_bytes
  return quota === null ? 0 : (await storageBytes(db, id, room)) + addedBytes - quota
}

/**
 * Refuses early what cannot fit. The kept archives of failed deploys and retained assets do not count, because they make room for what is accepted.
 * @throws AppError `conflict`
 */
export async function checkStorage(
  db: Db,
  services: Pick<Services, 'config'>,
  project: Project,
  room: Omit<Room, 'deploy' | 'needed'>,
): Promise<void> {
  const excess = await excessOf(db, services, project, room)
  if (excess <= 0) return
  if (excess <= (await keptSourceBytes(db, project.id)) + (await retainedBytes(db, project.id))) return
  throw conflict(overQuota(services, project), 'quota_storage')
}

/**
 * Checks the quota exactly, under the project's lock, and deletes kept archives of failed deploys, oldest first, and then retained assets, while
 * there is too little room. False when there is too little without them.
 */
export async function makeRoom(tx: Tx, services: Needed, project: Project, room: Room): Promise<boolean> {
  for (;;) {
    const excess = await excessOf(tx, services, project, room)
    if (excess <= 0) return true
    const { rows } = await sql<{ sha256: string }>`
      with oldest as (
        select id, source_sha256 from deploys
        where project_id = ${project.id} and status = 'failed' and not artifacts_purged and source_sha256 is not null
        order by created_at, id limit 1
      )
      update deploys set artifacts_purged = true, source_sha256 = null from oldest where deploys.id = oldest.id
      returning oldest.source_sha256 as sha256`.execute(tx)
    const [released] = rows
    if (!released) return await freeRetainedBytes(tx, services, project.id, { bytes: excess, keep: room.needed ?? [] })
    await releaseObjects(tx, [released.sha256], { now: services.clock(), published: false })
  }
}

/** As {@link makeRoom}. @throws AppError `conflict` */
export async function requireRoom(tx: Tx, services: Needed, project: Project, room: Room): Promise<void> {
  if (!(await makeRoom(tx, services, project, room))) throw conflict(overQuota(services, project), 'quota_storage')
}
