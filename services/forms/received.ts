import { planAllows } from '../../core/plans.ts'
import { autoreplyStart } from '../../workflows/contract/autoreply.ts'
import type { Tx } from '../transact.ts'
import { recordFormReceived } from '../webhooks/events.ts'
import { startWorkflow } from '../workflow-messages.ts'
import { isNotificationDue, notifyOfSubmission } from './digests.ts'
import type { FormSite } from './form-site.ts'

/** Whether anything follows a submission to the site that its owner can see. */
export const hasFollowUps = (site: FormSite, now: Date): boolean =>
  site.has_webhooks || isNotificationDue(site, now) || getsReply(site)

/** Whether the settings and the plan allow a reply; its workflow decides the rest. */
const getsReply = ({ autoreply_enabled, plan }: FormSite) => autoreply_enabled && planAllows(plan, 'autoreply')

/** Starts what follows a submission that was stored and counted, and that the owner can see: neither spam nor hidden. In the transaction that stores it. */
export async function recordReceived(tx: Tx, site: FormSite, submission: { readonly id: string }, now: Date): Promise<void> {
  const { project_id, site_id, has_webhooks } = site
  if (has_webhooks) await recordFormReceived(tx, { project_id, site_id, submission_id: submission.id }, now)
  if (isNotificationDue(site, now)) await notifyOfSubmission(tx, site, now)
  if (getsReply(site)) {
    const due = { submission_id: submission.id, site_id, project_id }
    await tx
      .insertInto('due_autoreplies')
      .values({ ...due, created_at: now })
      .execute()
    await startWorkflow(tx, autoreplyStart(due))
  }
}
