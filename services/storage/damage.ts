import type { Cas } from '../../infra/cas/cas.ts'
import { readManifest } from '../../infra/cas/manifests.ts'
import type { Db } from '../../infra/db/database.ts'
import { listDeploysOfObjects, listSiteUses } from './deploys-of-objects.ts'
import { type DamagedRow, forgetDamaged, listDamagedObjects } from './health.ts'
import { findUnneeded } from './unneeded-objects.ts'

/** A file that a deploy or a site lacks while an object is damaged. */
export interface DamagedUse {
  readonly project_id: string
  readonly site_id: string
  /** Null for files for visitors and the images of pages. */
  readonly deploy_id: string | null
  /** Null for the manifest of the deploy, and for the source of its build. */
  readonly path: string | null
  readonly live: boolean
}

export interface Damage extends DamagedRow {
  readonly uses: readonly DamagedUse[]
}

const maxListed = 100
/** Live deploys come first; in an installation with more deploys, the others are not searched. */
const maxManifests = 500

/** Damaged objects with the deploys and sites that need them, and repaired ones. Objects that are no longer needed are forgotten. */
export async function listDamage({ db, cas }: { readonly db: Db; readonly cas: Cas }, now: Date): Promise<Damage[]> {
  const rows = await listDamagedObjects(db, maxListed)
  const damaged = rows.filter((row) => !row.repaired_at).map((row) => row.sha256)
  const needless = new Set(await findUnneeded(db, damaged, now))
  await forgetDamaged(db, [...needless])
  const uses = new Map<string, DamagedUse[]>(rows.map((row) => [row.sha256, []]))
  for (const { manifest_sha256, source_sha256, ...use } of await listDeploysOfObjects(db, damaged, maxManifests)) {
    for (const sha256 of [manifest_sha256, source_sha256]) if (sha256 !== null) uses.get(sha256)?.push({ ...use, path: null })
    if (manifest_sha256 === null || damaged.includes(manifest_sha256)) continue
    const { files } = await readManifest(cas, manifest_sha256)
    for (const { sha256, path } of files) uses.get(sha256)?.push({ ...use, path })
  }
  for (const { sha256, ...use } of await listSiteUses(db, damaged, maxManifests)) uses.get(sha256)?.push(use)
  return rows
    .filter((row) => !needless.has(row.sha256))
    .map((row) => ({ ...row, uses: row.repaired_at ? [] : (uses.get(row.sha256) ?? []) }))
}
