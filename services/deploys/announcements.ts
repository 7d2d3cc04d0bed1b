import { deployFailedEmail } from '../../core/emails.ts'
import { queueEmailToOwner } from '../emails/emails.ts'
import { insertNotification } from '../notifications/notifications.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { recordEvent } from '../webhooks/events.ts'
import type { DeployRow } from './deploys.ts'

// Events and notifications about the end of a deploy, written in the transaction that ends it.

type Ended = Pick<DeployRow, 'id' | 'project_id' | 'site_id' | 'status' | 'error' | 'cancelled' | 'is_preview'>

/** Records that a deploy has become live or superseded, or is ready when it is not to be published. */
export async function recordSuccess(tx: Tx, { id, project_id, site_id, status, is_preview }: Ended, now: Date): Promise<void> {
  const data = { deploy_id: id, status, is_preview }
  await recordEvent(tx, { type: 'deploy.succeeded', project_id, site_id, data }, now)
}

/**
 * Records that a deploy has failed. Its owner is notified, unless somebody has cancelled it; by email too when it was to be published.
 */
export async function recordFailure(tx: Tx, { config }: Pick<Services, 'config'>, deploy: Ended, now: Date): Promise<void> {
  const { id, project_id, site_id, status, error, cancelled, is_preview } = deploy
  const data = { deploy_id: id, status, is_preview, cancelled, error }
  await recordEvent(tx, { type: 'deploy.failed', project_id, site_id, data }, now)
  if (cancelled) return
  const site = await tx.selectFrom('sites').select('name').where('id', '=', site_id).executeTakeFirstOrThrow()
  const texts = { title: `A deploy of ${site.name} has failed`, message: error ?? '' }
  await insertNotification(tx, project_id, { kind: 'deploy_failed', ...texts, site_id, deploy_id: id }, now)
  if (is_preview) return
  const email = deployFailedEmail({ id, site_id, site_name: site.name, error: error ?? '' })
  await queueEmailToOwner(tx, project_id, email, { sender: config.mail.from, now })
}
