import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'

export interface DeployOfObject {
  readonly project_id: string
  readonly site_id: string
  readonly deploy_id: string
  readonly manifest_sha256: string | null
  readonly source_sha256: string | null
  readonly live: boolean
}

/** Deploys that may need one of the objects: all with files of the projects that have it as a blob, and those that name it. Live ones come first. */
export async function listDeploysOfObjects(db: Db, hashes: readonly string[], limit: number): Promise<DeployOfObject[]> {
  if (hashes.length === 0) return []
  const { rows } = await sql<DeployOfObject>`
    select deploys.project_id, deploys.site_id, deploys.id as deploy_id, deploys.source_sha256,
      case when deploys.artifacts_purged then null else deploys.manifest_sha256 end as manifest_sha256,
      sites.active_deploy_id is not distinct from deploys.id as live
    from deploys join sites on sites.id = deploys.site_id
    where deploys.source_sha256 = any(${hashes})
      or (not deploys.artifacts_purged and deploys.manifest_sha256 is not null and (
        deploys.manifest_sha256 = any(${hashes})
        or deploys.project_id in (select project_id from blobs where blobs.sha256 = any(${hashes}))
      ))
    order by live desc, deploys.id desc
    limit ${limit}`.execute(db)
  return rows
}

interface SiteUse {
  readonly sha256: string
  readonly project_id: string
  readonly site_id: string
  readonly deploy_id: string | null
  readonly path: string | null
  readonly live: boolean
}

/**
 * What sites need besides the files of their deploys, live files first: manifests of retained assets, with the live deploys of their sites, files
 * and images without a deploy, and retained assets, each with its former deploy. Of the same content in a former deploy one path is listed,
 * because a single site can retain more of them than the limit.
 */
export async function listSiteUses(db: Db, hashes: readonly string[], limit: number): Promise<SiteUse[]> {
  if (hashes.length === 0) return []
  const { rows } = await sql<SiteUse>`
    select retained_sha256 as sha256, project_id, id as site_id, active_deploy_id as deploy_id, null as path, true as live
    from sites where retained_sha256 = any(${hashes}) and active_deploy_id is not null
    union all
    select * from (
      select distinct on (sha256, deploy_id) sha256, project_id, site_id, deploy_id, path, false from retained_assets
      where (project_id, sha256) in (select project_id, sha256 from blobs where sha256 = any(${hashes}))
      order by sha256, deploy_id, path
    ) as retained
    union all
    select sha256, project_id, site_id, null, name, true from delivery_files where sha256 = any(${hashes})
    union all
    select logo_sha256, project_id, site_id, null, 'logo', true from delivery_pages where logo_sha256 = any(${hashes})
    union all
    select logo_sha256, project_id, site_id, null, 'logo', true from access_brands where logo_sha256 = any(${hashes})
    union all
    select favicon_sha256, project_id, site_id, null, 'favicon', true from access_brands where favicon_sha256 = any(${hashes})
    order by live desc
    limit ${limit}`.execute(db)
  return rows
}
