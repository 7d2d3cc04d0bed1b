import { findDeploy } from '../deploys/deploys.ts'
import { type DeployAttempt, failAttempt } from '../deploys/runs.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { settleFailure } from './endings.ts'

const error = 'the platform could not run this deploy; deploy again, and tell the operator if it repeats'

/**
 * Fails a deploy whose workflow cannot run, or has failed itself, so that other builds of its project get its permit. False when it has ended, or
 * another attempt has begun.
 */
export function giveUpDeploy(services: Services, deploy: DeployAttempt & { readonly project_id: string }): Promise<boolean> {
  const { clock, log } = services
  return withProject(services, deploy.project_id, async (tx) => {
    const now = clock()
    const before = await findDeploy(tx, deploy.project_id, deploy.deploy_id)
    const changed = await failAttempt(tx, deploy, error, now)
    if (!changed) return false
    await settleFailure(tx, services, changed, { before, outcome: 'platform_failure', now })
    tx.afterCommit(() => log.error({ deploy_id: changed.id, site_id: changed.site_id, error }, 'deploy given up'))
    return true
  })
}
