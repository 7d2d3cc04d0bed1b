import type { GitSource } from '../core/deploy.ts'
import { conflict } from '../core/errors.ts'
import type { Tx } from '../infra/db/database.ts'
import type { DeployRow } from '../services/deploys/deploys.ts'
import { findConnection } from '../services/git/connections.ts'
import { joinWaitingDeploy } from '../services/git/deploys.ts'
import { lockProject } from '../services/projects/projects.ts'
import { beginDeploy, type DeployedSite } from './accept-deploy.ts'
import type { Deps } from './context.ts'
import { checkDeployGates } from './gates.ts'

/** What of a preview its deploy needs. */
interface DeployedPreview {
  readonly id: string
  readonly ref: string
}

export interface GitDeploy {
  /** What a push says of its commit; null when nothing is known. */
  readonly git: GitSource | null
  /** Names the delivery of a webhook in the log. */
  readonly delivery?: string | undefined
  /**
   * Runs first in the same transaction, under the project's lock, and may throw to refuse. Answers the preview that is deployed; without
   * one it is the connected branch, which goes live.
   */
  readonly within?: (tx: Tx) => Promise<DeployedPreview | undefined>
}

/**
 * Accepts a deploy whose source is fetched when it has a permit. While one of the same ref waits, a further one joins it and is answered as
 * it (`merged`): it is no new deploy. What it returns is durable.
 * @throws AppError as the gates say; `conflict` when the site is in the trash or not connected
 */
export async function acceptGitDeploy(
  ctx: Deps,
  site: DeployedSite,
  { git, delivery, within }: GitDeploy,
): Promise<{ deploy: DeployRow; merged: boolean }> {
  const accepted = await ctx.db.transaction().execute(async (tx) => {
    const project = await lockProject(tx, site.project_id)
    const preview = await within?.(tx)
    const activate = preview === undefined
    const git_preview_id = preview?.id ?? null
    const joined = !project.suspended && (await joinWaitingDeploy(tx, { site_id: site.id, git_preview_id, git }))
    if (joined) return { deploy: joined, merged: true }
    const connection = await findConnection(tx, site.id)
    if (!connection) throw notConnected()
    await checkDeployGates(tx, ctx, project, { addedBytes: 0, activate })
    const ref = preview?.ref ?? connection.branch
    const deploy = await beginDeploy(tx, site, { source_kind: 'git', activate, git, git_preview_id }, ctx.clock(), ref)
    return { deploy, merged: false }
  })
  ctx.relay.wake()
  const { deploy, merged } = accepted
  ctx.log.info({ deploy_id: deploy.id, site_id: site.id, source_kind: 'git', merged, delivery }, 'deploy accepted')
  return accepted
}

export const notConnected = () => conflict('the site is not connected to a repository; connect it first')
