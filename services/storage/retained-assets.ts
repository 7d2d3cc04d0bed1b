import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { maxArchiveEntries, maxDeployPathBytes } from '../../core/limits.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { manifestBytes } from '../../infra/cas/manifests.ts'
import type { Db } from '../../infra/db/database.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { countByHash, dropBlobs } from './blobs.ts'
import { releaseObjects } from './released-objects.ts'
import { storeForTransaction } from './stored-objects.ts'

// A row is an asset of a superseded deploy that a site still serves, at a path where its live deploy has no file. It counts as one of the
// deploys that contain the blob. Rows and the manifest of a site, which the edges read, change together under the project's lock.

type Needed = Pick<Services, 'db' | 'cas' | 'clock'>

export interface RetainingSite {
  readonly id: string
  readonly project_id: string
  readonly asset_retention_days: number
}

/**
 * Retains assets of the deploy that is about to be superseded, and forgets those at whose paths the next deploy has files, those that have
 * expired and, beyond the limits of a deploy, the oldest ones. Under the project's lock.
 * @param isLive whether the next deploy has a file at the path
 * @throws StorageFailure
 */
export async function retainAssets(
  tx: Tx,
  services: Needed,
  site: RetainingSite,
  superseded: {
    readonly deploy_id: string
    readonly assets: readonly ManifestEntry[]
    readonly isLive: (path: string) => boolean
  },
): Promise<void> {
  const { deploy_id, assets, isLive } = superseded
  const now = services.clock()
  const rows = await tx.selectFrom('retained_assets').select('path').where('site_id', '=', site.id).execute()
  const replaced = new Set(assets.map(({ path }) => path))
  const outdated = rows.flatMap(({ path }) => (isLive(path) || replaced.has(path) ? [path] : []))
  const { id, project_id, asset_retention_days } = site
  const expired = await forget(tx, project_id, sql`site_id = ${id} and ${isExpired(asset_retention_days, now)}`, now)
  const replacedRows = await forget(tx, project_id, sql`site_id = ${id} and path = any(${outdated})`, now)
  await insertAssets(tx, site, { deploy_id, assets, now })
  const excess = await forget(tx, project_id, sql`ctid = any(array(${excessRows(id)}))`, now)
  if (expired.size + replacedRows.size + assets.length + excess.size > 0) await storeRetained(tx, services, id)
}

async function insertAssets(
  tx: Tx,
  site: RetainingSite,
  { deploy_id, assets, now }: { readonly deploy_id: string; readonly assets: readonly ManifestEntry[]; readonly now: Date },
): Promise<void> {
  if (assets.length === 0) return
  await sql`
    insert into retained_assets (site_id, project_id, deploy_id, retained_at, path, sha256, size)
    select ${site.id}, ${site.project_id}, ${deploy_id}, ${now}, path, sha256, size from unnest(
      ${assets.map(({ path }) => path)}::text[], ${assets.map(({ sha256 }) => sha256)}::text[], ${assets.map(({ size }) => size)}::bigint[]
    ) as asset (path, sha256, size)`.execute(tx)
  const { hashes, counts } = countByHash(assets.map(({ sha256 }) => sha256))
  await sql`
    update blobs set deploys = blobs.deploys + asset.rows
    from unnest(${hashes}::text[], ${counts}::integer[]) as asset (sha256, rows)
    where blobs.project_id = ${site.project_id} and blobs.sha256 = asset.sha256`.execute(tx)
}

const isExpired = (days: number | RawBuilder<unknown>, now: Date) =>
  sql<SqlBool>`(${days}::integer = 0 or retained_at <= ${now}::timestamptz - ${days}::integer * interval '1 day')`

/** The rows of a site beyond the limits of a deploy; what was retained last is within them. */
const excessRows = (siteId: string) => sql`
  select row_id from (
    select ctid as row_id, row_number() over latest as place, sum(octet_length(path)) over latest as path_bytes
    from retained_assets where site_id = ${siteId} window latest as (order by retained_at desc, path)
  ) as ordered where place > ${maxArchiveEntries} or path_bytes > ${maxDeployPathBytes}`

/** Deletes rows of the project and counts down their blobs. Returns the ids of their sites, whose manifests have to be stored again. */
async function forget(tx: Tx, project_id: string, which: RawBuilder<unknown>, now: Date): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ site_id: string; sha256: string }>`
    delete from retained_assets where project_id = ${project_id} and ${which} returning site_id, sha256`.execute(tx)
  const hashes = rows.map(({ sha256 }) => sha256)
  await dropBlobs(tx, project_id, hashes, now)
  return new Set(rows.map(({ site_id }) => site_id))
}

/**
 * Stores the manifest of what a site retains now, in place of the earlier one. The edge is notified with the commit.
 * @throws StorageFailure
 */
async function storeRetained(tx: Tx, services: Needed, siteId: string): Promise<void> {
  const assets = await tx.selectFrom('retained_assets').select(['path', 'sha256', 'size']).where('site_id', '=', siteId).execute()
  const retained_sha256 = assets.length === 0 ? null : await storeForTransaction(tx, services, manifestBytes(assets))
  const before = await tx.selectFrom('sites').select('retained_sha256').where('id', '=', siteId).executeTakeFirstOrThrow()
  if (before.retained_sha256 === retained_sha256) return
  await tx.updateTable('sites').set({ retained_sha256 }).where('id', '=', siteId).execute()
  const released = before.retained_sha256 === null ? [] : [before.retained_sha256]
  await releaseObjects(tx, released, { now: services.clock(), published: true })
  await bumpRoutes(tx, { site_id: siteId })
}

async function forgetAndStore(tx: Tx, services: Needed, projectId: string, which: RawBuilder<unknown>): Promise<number> {
  const sites = await forget(tx, projectId, which, services.clock())
  // in order, so that two transactions lock them in the same order
  for (const site_id of [...sites].sort()) await storeRetained(tx, services, site_id)
  return sites.size
}

/** Forgets what the site retains for longer than it wants to. Under the project's lock. */
export async function forgetExpiredAssets(tx: Tx, services: Needed, site: RetainingSite): Promise<void> {
  const expired = isExpired(site.asset_retention_days, services.clock())
  await forgetAndStore(tx, services, site.project_id, sql`site_id = ${site.id} and ${expired}`)
}

/** Forgets everything that the site retains. Under the project's lock. */
export async function forgetAssetsOfSite(
  tx: Tx,
  services: Needed,
  site: Omit<RetainingSite, 'asset_retention_days'>,
): Promise<void> {
  await forgetAndStore(tx, services, site.project_id, sql`site_id = ${site.id}`)
}

/** Forgets what its site retains of a deploy. May be repeated. */
export function forgetAssetsOfDeploy(
  services: Services,
  { id, project_id }: { readonly id: string; readonly project_id: string },
): Promise<void> {
  return withProject(services, project_id, async (tx) => {
    await forgetAndStore(tx, services, project_id, sql`deploy_id = ${id}`)
  })
}

/** Forgets the expired assets of every site. A site that fails is logged and left for the next time. */
export async function forgetExpiredAssetsEverywhere(services: Services): Promise<void> {
  const { db, clock, log } = services
  const { rows } = await sql<RetainingSite>`
    select id, project_id, asset_retention_days from sites where retained_sha256 is not null and exists (
      select from retained_assets where site_id = sites.id and ${isExpired(sql.ref('asset_retention_days'), clock())}
    )`.execute(db)
  for (const { id, project_id } of rows) {
    try {
      await withProject(services, project_id, async (tx) => {
        const site = await tx
          .selectFrom('sites')
          .select(['id', 'project_id', 'asset_retention_days'])
          .where('id', '=', id)
          .executeTakeFirst()
        if (site) await forgetExpiredAssets(tx, services, site)
      })
    } catch (error) {
      log.warn({ err: error, site_id: id }, 'retained assets not forgotten')
    }
  }
}

/** The project's blobs that only retained assets need, with the instant since when: forgetting those assets makes room. */
const retainedBlobs = (projectId: string, keep: readonly string[]) => sql`
  select blobs.sha256, blobs.size, max(retained_assets.retained_at) as retained_at
  from blobs join retained_assets on retained_assets.project_id = blobs.project_id and retained_assets.sha256 = blobs.sha256
  where blobs.project_id = ${projectId} and not blobs.staged and not blobs.sha256 = any(${keep}::text[])
  group by blobs.project_id, blobs.sha256 having blobs.deploys = count(*)`

/** The bytes that forgetting all retained assets of the project would free. */
export async function retainedBytes(db: Db, projectId: string, keep: readonly string[] = []): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(size), 0)::bigint as bytes from (${retainedBlobs(projectId, keep)}) as retained`.execute(db)
  return rows[0]?.bytes ?? 0
}

/**
 * Forgets assets of the project until so many bytes are free, those that are retained longest first; nothing when all of them are too few.
 * Under the project's lock.
 * @param keep hashes of blobs that are about to be needed again
 */
export async function freeRetainedBytes(
  tx: Tx,
  services: Needed,
  projectId: string,
  { bytes, keep }: { readonly bytes: number; readonly keep: readonly string[] },
): Promise<boolean> {
  if ((await retainedBytes(tx, projectId, keep)) < bytes) return false
  const longest = sql`
    select sha256 from (
      select sha256, sum(size) over (order by retained_at, sha256) - size as freed_before
      from (${retainedBlobs(projectId, keep)}) as retained
    ) as ordered where freed_before < ${bytes}`
  await forgetAndStore(tx, services, projectId, sql`sha256 = any(array(${longest}))`)
  return true
}
