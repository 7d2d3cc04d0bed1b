import { assetsToRetain } from '../../core/asset-retention.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { LockedSite } from '../sites/sites.ts'
import { retainAssets } from '../storage/retained-assets.ts'
import { StorageFailure } from '../storage/stored-objects.ts'
import { type Tx, transact } from '../transact.ts'
import { readFiles } from './files.ts'

/** The assets of a live deploy that its site retains when a certain other deploy goes live. */
interface SupersededAssets {
  readonly project_id: string
  readonly live_deploy_id: string
  readonly assets: readonly ManifestEntry[]
  /** Whether the other deploy has a file at the path. */
  readonly isLive: (path: string) => boolean
}

/** Retains what the live deploy has and the other one lacks. @param site the site of both, which is locked */
export type Retain = (site: LockedSite) => Promise<void>

/** Each further try means that another activation of the site has succeeded, and a site has at most 40 requests under way. */
const maxTries = 50

/**
 * Runs the transaction in which a deploy goes live. For a site that retains assets it holds the project's lock, and the manifests are read
 * before, so that nobody waits for the storage. When the storage fails, and only then, the deploy goes live without retaining anything more.
 * @param activate calls `retain` under the site's lock, right before another deploy becomes the live one
 */
export async function transactActivation<Result>(
  services: Services,
  deploy_id: string,
  activate: (tx: Tx, retain: Retain) => Promise<Result>,
): Promise<Result> {
  try {
    for (let tries = 0; tries < maxTries; tries++) {
      const superseded = await findSupersededAssets(services, deploy_id)
      const activated = await tryActivation(services, { deploy_id, superseded }, activate)
      if (activated) return activated.result
    }
  } catch (error) {
    if (!(error instanceof StorageFailure)) throw error
    services.log.warn({ err: error.cause, deploy_id }, 'assets of the superseded deploy not retained')
  }
  return await transact(services, (tx) => activate(tx, () => Promise.resolve()))
}

/** Another deploy has gone live since the manifests were read. */
class Outdated extends Error {}

interface Activation {
  readonly deploy_id: string
  /** Undefined when there was nothing to retain. */
  readonly superseded: SupersededAssets | undefined
}

/** Undefined when the manifests must be read again. */
async function tryActivation<Result>(
  services: Services,
  activation: Activation,
  activate: (tx: Tx, retain: Retain) => Promise<Result>,
): Promise<{ readonly result: Result } | undefined> {
  const { superseded } = activation
  const run = (tx: Tx) => activate(tx, (site) => retain(tx, services, site, activation))
  try {
    return { result: await (superseded ? withProject(services, superseded.project_id, run) : transact(services, run)) }
  } catch (error) {
    if (error instanceof Outdated) return undefined
    throw error
  }
}

async function retain(tx: Tx, services: Services, site: LockedSite, { deploy_id, superseded }: Activation): Promise<void> {
  const live = site.active_deploy_id
  if (site.asset_retention_days === 0 || live === null || live === deploy_id) return
  if (live !== superseded?.live_deploy_id) throw new Outdated()
  await retainAssets(tx, services, site, { deploy_id: live, assets: superseded.assets, isLive: superseded.isLive })
}

/** Undefined when there is nothing to retain. @throws StorageFailure */
async function findSupersededAssets(services: Services, deployId: string): Promise<SupersededAssets | undefined> {
  const found = await services.db
    .selectFrom('deploys as next')
    .innerJoin('sites', 'sites.id', 'next.site_id')
    .innerJoin('deploys as live', 'live.id', 'sites.active_deploy_id')
    .select(['sites.project_id', 'live.id as live_deploy_id'])
    .select(['live.manifest_sha256 as live_manifest', 'next.manifest_sha256 as next_manifest'])
    .where('next.id', '=', deployId)
    .where('next.artifacts_purged', '=', false)
    .where('sites.asset_retention_days', '>', 0)
    .whereRef('live.id', '!=', 'next.id')
    .executeTakeFirst()
  if (!found?.live_manifest || !found.next_manifest) return undefined
  const { live_manifest, next_manifest, ...ids } = found
  try {
    const live = await readFiles(services, live_manifest)
    const next = new Set((await readFiles(services, next_manifest)).map(({ path }) => path))
    const isLive = (path: string) => next.has(path)
    return { ...ids, assets: assetsToRetain(live, isLive), isLive }
  } catch (cause) {
    throw new StorageFailure(cause)
  }
}
