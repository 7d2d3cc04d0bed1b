import type { Cas } from '../../infra/cas/cas.ts'
import { readManifestEntries } from '../../infra/cas/manifests.ts'
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

export const maxDamagedObjects = 100
/** Uses of one object that are listed; those by live deploys come first. */
export const maxDamagedUses = 100
/** Live deploys come first; in an installation with more deploys, the others are not searched. */
const maxManifests = 500

/** Damaged objects with the deploys and sites that need them, and repaired ones. Objects that are no longer needed are forgotten. */
export async function listDamage({ db, cas }: { readonly db: Db; readonly cas: Cas }, now: Date): Promise<Damage[]> {
  const rows = await listDamagedObjects(db, maxDamagedObjects)
  const damaged = rows.filter((row) => !row.repaired_at).map((row) => row.sha256)
  const needless = new Set(await findUnneeded(db, damaged, now))
  await forgetDamaged(db, [...needless])
  const uses = new Map<string, DamagedUse[]>(rows.map((row) => [row.sha256, []]))
  const add = (sha256: string, use: DamagedUse) => {
    const listed = uses.get(sha256)
    if (listed && listed.length < maxDamagedUses) listed.push(use)
  }
  for (const { manifest_sha256, source_sha256, ...use } of await listDeploysOfObjects(db, damaged, maxManifests)) {
    for (const sha256 of [manifest_sha256, source_sha256]) if (sha256 !== null) add(sha256, { ...use, path: null })
    if (manifest_sha256 === null || damaged.includes(manifest_sha256)) continue
    // of the same content in one deploy one path is listed, so that no deploy takes the place of the others
    const found = new Set<string>()
    for await (const files of readManifestEntries(cas, manifest_sha256)) {
      for (const { sha256, path } of files) {
        if (!uses.has(sha256) || found.has(sha256)) continue
        found.add(sha256)
        add(sha256, { ...use, path })
      }
    }
  }
  for (const { sha256, ...use } of await listSiteUses(db, damaged, maxManifests)) add(sha256, use)
  return rows
    .filter((row) => !needless.has(row.sha256))
    .map((row) => ({ ...row, uses: row.repaired_at ? [] : (uses.get(row.sha256) ?? []) }))
}
