import { deployAllows } from '../../core/deploy.ts'
import { conflict } from '../../core/errors.ts'
import { hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { endLinkOfDeploy, showDeploy } from '../previews/links.ts'
import type { Services } from '../services.ts'
import { inTrash, isTrashed, lockSiteOf } from '../sites/sites.ts'
import { transact } from '../transact.ts'
import { lockSiteOfDeploy } from './deploys.ts'
import { filesDeleted } from './files.ts'

/**
 * Issues the link that shows a deploy which is not live; the same link on repeat.
 * @throws AppError `conflict` when its state forbids it
 */
export async function issuePreviewLink(
  services: Services,
  deploy_id: string,
): Promise<{ readonly token: string; readonly issued_at: Date }> {
  const { previewTokens, clock, log } = services
  const tokenOf = (generation: number) => previewTokens(deploy_id, generation)
  const { generation, issued_at } = await transact(services, async (tx) => {
    const found = await lockSiteOfDeploy(tx, deploy_id)
    if (!found || isTrashed(found.site)) throw inTrash()
    const { deploy } = found
    if (deploy.artifacts_purged) throw filesDeleted()
    if (!deployAllows('preview', deploy.status) || !deploy.file_count) throw notShowable(deploy.status)
    tx.afterCommit(() => log.info({ deploy_id }, 'preview link issued'))
    const owner = { id: deploy_id, site_id: deploy.site_id, git_preview_id: null }
    return await showDeploy(tx, owner, deploy_id, (generation) => hashPreviewToken(tokenOf(generation)), clock())
  })
  return { token: tokenOf(generation), issued_at }
}

const notShowable = (status: string) =>
  conflict(
    status === 'active'
      ? 'this deploy is live: its site shows it'
      : `a deploy that is ${status} has no files to show; only ready and superseded ones have`,
    'wrong_status',
  )

/** Ends the deploy's link for good; does nothing when there is none. */
export function revokePreviewLink(
  services: Services,
  { id: deploy_id, site_id }: { readonly id: string; readonly site_id: string },
): Promise<void> {
  return transact(services, async (tx) => {
    await lockSiteOf(tx, 'deploys', deploy_id)
    if (!(await endLinkOfDeploy(tx, deploy_id))) return
    await bumpRoutes(tx, { site_id })
    tx.afterCommit(() => services.log.info({ deploy_id, site_id }, 'preview link revoked'))
  })
}
