import { conflict } from '../../core/errors.ts'
import { isSameCommit } from '../../core/git-decision.ts'
import {
  approveBranchPreview,
  type BranchPreviewRow,
  closeBranchPreview,
  type ListedBranchPreview,
} from '../previews/branch-previews.ts'
import { withProject } from '../projects/projects.ts'
import { queueReports } from '../reports/reports.ts'
import type { Services } from '../services.ts'
import { inTrash, lockSite, type SiteRow } from '../sites/sites.ts'
import { acceptGitDeploy } from './accept.ts'

/**
 * Allows builds of a pull request from a fork, and builds its newest commit unless that is built already.
 * @throws AppError `conflict` when the preview is closed or its site is in the trash; as {@link acceptGitDeploy}
 */
export async function approvePreview(services: Services, site: SiteRow, preview: ListedBranchPreview): Promise<void> {
  if (isHeadBuilt(preview)) return
  if (site.deletion_scheduled_at) throw inTrash()
  const { id, ref, head_commit } = preview
  const git = head_commit === null ? null : { commit: head_commit, ref, message: '', author: '' }
  await acceptGitDeploy(services, site, {
    git,
    before: async (tx) => {
      if (!(await approveBranchPreview(tx, id, services.clock())))
        throw conflict('this preview is closed; it opens again with the next push')
      await queueReports(tx, site.id)
      tx.afterCommit(() => services.log.info({ preview_id: id, site_id: site.id, ref }, 'preview of a fork approved'))
      return { id, ref }
    },
  })
}

const isHeadBuilt = ({ approved, closed_at, head_commit, newest_deploy_id, newest_commit }: ListedBranchPreview) =>
  approved &&
  !closed_at &&
  newest_deploy_id !== null &&
  (head_commit === null || isSameCommit(head_commit, newest_commit ?? undefined))

/** Closes the preview of a branch or pull request; does nothing when it is closed already. */
export function closePreview(services: Services, { id, site_id, project_id, ref }: BranchPreviewRow): Promise<void> {
  return withProject(services, project_id, async (tx) => {
    await lockSite(tx, project_id, site_id)
    await queueReports(tx, site_id)
    if (!(await closeBranchPreview(tx, { site_id, ref }, services.clock()))) return
    tx.afterCommit(() => services.log.info({ preview_id: id, site_id, ref }, 'branch preview closed'))
  })
}
