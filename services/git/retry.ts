import { conflict } from '../../core/errors.ts'
import { isCommitId } from '../../core/git-remotes.ts'
import { type DeployedSite, queueDeploy } from '../deploys/accept.ts'
import type { DeployRow } from '../deploys/deploys.ts'
import { checkDeployGates } from '../deploys/gates.ts'
import { requireEnded } from '../deploys/retry.ts'
import { findOpenPreview } from '../previews/branch-previews.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { notConnected } from './accept.ts'
import { findConnection } from './connections.ts'

/**
 * Accepts a new deploy of the same commit, which is fetched again from the connected repository.
 * @throws AppError from the gates; `conflict` when the deploy has not ended, its commit was never known, its preview is closed, or the site is in
 * the trash or not connected
 */
export async function retryGitDeploy(services: Services, site: DeployedSite, deploy: DeployRow): Promise<DeployRow> {
  const { git, git_preview_id, activate, id } = deploy
  requireEnded(deploy)
  if (!git || !isCommitId(git.commit)) {
    throw conflict(
      'the commit of this deploy is not known, because it was never fetched; deploy from the repository',
      'source_gone',
    )
  }
  return await withProject(services, site.project_id, async (tx, project) => {
    const connection = await findConnection(tx, site.id)
    if (!connection) throw notConnected()
    const preview = git_preview_id === null ? undefined : await findOpenPreview(tx, git_preview_id)
    if (!activate && !preview)
      throw conflict(
        'the preview of this deploy is closed or not approved; push to its branch to open it, or approve it',
        'source_gone',
      )
    await checkDeployGates(tx, services, project, { addedBytes: 0, activate })
    const source = { source_kind: 'git', activate, git, git_preview_id, fetch_commit: git.commit } as const
    const row = await queueDeploy(tx, site, source, services.clock(), preview?.ref ?? connection.branch)
    tx.afterCommit(() => services.log.info({ deploy_id: row.id, site_id: site.id, retried: id }, 'deploy retried'))
    return row
  })
}
