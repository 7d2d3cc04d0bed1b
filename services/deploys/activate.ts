import { deployAllows } from '../../core/deploy.ts'
import { conflict } from '../../core/errors.ts'
import { countPublish } from '../activity.ts'
import { queueReports } from '../reports/reports.ts'
import type { Services } from '../services.ts'
import { inTrash, isTrashed, type LockedSite } from '../sites/sites.ts'
import type { Tx } from '../transact.ts'
import { recordSuccess } from './announcements.ts'
import { type DeployRow, isOvertaken, lockSiteOfDeploy, setActive, supersedeDeploy } from './deploys.ts'
import { filesDeleted } from './files.ts'
import { applyRetention } from './retention.ts'
import { type Retain, transactActivation } from './superseded-assets.ts'

/**
 * Activates a deploy for its owner. The edge is notified with the commit; then older deploys are purged.
 * @throws AppError `conflict` when its state forbids it
 */
export async function activateDeploy(
  services: Services,
  deploy_id: string,
): Promise<{ deploy: DeployRow; previous_deploy_id: string | null }> {
  const activated = await transactActivation(services, deploy_id, async (tx, retain) => {
    const found = await lockSiteOfDeploy(tx, deploy_id)
    if (!found || isTrashed(found.site)) throw inTrash()
    if (found.deploy.artifacts_purged) throw filesDeleted()
    if (!deployAllows('activate', found.deploy.status)) {
      throw conflict(
        `a ${found.deploy.status} deploy cannot be activated; only ready, active and superseded ones can`,
        'wrong_status',
      )
    }
    const { site_id } = found.deploy
    await queueReports(tx, site_id)
    await retain(found.site)
    tx.afterCommit(() => services.log.info({ deploy_id, site_id }, 'deploy activated'))
    const activated = await setActive(tx, found.deploy, services.clock())
    // its workflow was about to publish it, and will find it live
    if (found.deploy.status === 'ready' && found.deploy.activate) await recordSuccess(tx, activated.deploy, services.clock())
    if (found.deploy.status !== 'active') await countPublish(tx, site_id, services.clock())
    return activated
  })
  await retain(services, activated.deploy.site_id)
  return activated
}

/** Applies the retention. A failure does not matter: the deploy is live, and the next activation retries. */
async function retain(services: Services, site_id: string): Promise<void> {
  try {
    await applyRetention(services, site_id)
  } catch (error) {
    services.log.warn({ err: error, site_id }, 'retention failed')
  }
}

/**
 * Makes a deploy that has just become ready the live one, unless a later one is live already. Undefined when another attempt owns it, or there
 * is nothing to publish. May be repeated.
 */
export function publishDeploy(
  services: Services,
  { deploy_id, attempt }: { readonly deploy_id: string; readonly attempt: number },
): Promise<'active' | 'superseded' | undefined> {
  return transactActivation(services, deploy_id, async (tx, retain) => {
    const found = await lockSiteOfDeploy(tx, deploy_id)
    if (!found || found.deploy.attempt !== attempt) return undefined
    const { deploy, site } = found
    if (deploy.status === 'active' || deploy.status === 'superseded') return deploy.status
    if (deploy.status !== 'ready' || deploy.artifacts_purged) return undefined
    return await publishReady(tx, services, { deploy, site, retain })
  })
}

interface Publishing {
  readonly deploy: DeployRow
  /** Its site, which is locked. */
  readonly site: LockedSite
  /** See {@link transactActivation}. */
  readonly retain: Retain
}

/** Makes a ready deploy the live one, unless its site is in the trash or a later deploy is live already. */
export async function publishReady(
  tx: Tx,
  { log, clock }: Pick<Services, 'log' | 'clock'>,
  { deploy, site, retain }: Publishing,
): Promise<'active' | 'superseded'> {
  const { id: deploy_id, site_id } = deploy
  if (deploy.source_kind === 'git') await queueReports(tx, site_id)
  const status = isTrashed(site) || (await isOvertaken(tx, deploy)) ? 'superseded' : 'active'
  if (status === 'active') {
    await retain(site)
    await setActive(tx, deploy, clock())
  } else await supersedeDeploy(tx, deploy_id)
  await recordSuccess(tx, { ...deploy, status }, clock())
  if (status === 'active') await countPublish(tx, site_id, clock())
  tx.afterCommit(() => log.info({ deploy_id, status }, 'deploy published'))
  return status
}
