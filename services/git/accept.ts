import type { GitSource } from '../../core/deploy.ts'
import { conflict } from '../../core/errors.ts'
import { type DeployedSite, queueDeploy } from '../deploys/accept.ts'
import type { DeployRow } from '../deploys/deploys.ts'
import { checkDeployGates } from '../deploys/gates.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { findConnection } from './connections.ts'
import { joinWaitingDeploy } from './deploys.ts'

/** The facts of a preview for its deploy. */
interface DeployedPreview {
  readonly id: string
  readonly ref: string
}

export interface GitDeploy {
  /** What the push says about its commit; null when nothing is known. */
  readonly git: GitSource | null
  /** The id of the webhook delivery, for the log. */
  readonly delivery?: string | undefined
  /**
   * Runs first in the same transaction, under the project's lock, and may throw to refuse. Returns the preview to deploy; without
   * one, the connected branch is deployed and goes live.
   */
  readonly before?: (tx: Tx) => Promise<DeployedPreview | undefined>
}

/**
 * Accepts a deploy whose source is fetched when it has a permit. While a deploy of the same ref waits, a further one joins it (`merged`), and no
 * new deploy is created. The returned deploy is durable.
 * @throws AppError from the gates; `conflict` when the site is in the trash or not connected
 */
export function acceptGitDeploy(
  services: Services,
  site: DeployedSite,
  { git, delivery, before }: GitDeploy,
): Promise<{ deploy: DeployRow; merged: boolean }> {
  return withProject(services, site.project_id, async (tx, project) => {
    const preview = await before?.(tx)
    const activate = preview === undefined
    const git_preview_id = preview?.id ?? null
    const logAccepted = ({ id: deploy_id }: DeployRow, merged: boolean) =>
      tx.afterCommit(() =>
        services.log.info({ deploy_id, site_id: site.id, source_kind: 'git', merged, delivery }, 'deploy accepted'),
      )
    const joined = !project.suspended && (await joinWaitingDeploy(tx, { site_id: site.id, git_preview_id, git }))
    if (joined) {
      logAccepted(joined, true)
      return { deploy: joined, merged: true }
    }
    const connection = await findConnection(tx, site.id)
    if (!connection) throw notConnected()
    await checkDeployGates(tx, services, project, { addedBytes: 0, activate })
    const ref = preview?.ref ?? connection.branch
    const deploy = await queueDeploy(tx, site, { source_kind: 'git', activate, git, git_preview_id }, services.clock(), ref)
    logAccepted(deploy, false)
    return { deploy, merged: false }
  })
}

export const notConnected = () => conflict('the site is not connected to a repository; connect it first', 'not_connected')
