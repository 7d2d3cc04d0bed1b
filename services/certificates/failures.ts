import { triesBeforeNotice } from '../../core/certificates.ts'
import { failingEmail } from '../../core/domain-emails.ts'
import { insertNotification, notifyOwner } from '../notifications/notifications.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { recordEvent } from '../webhooks/events.ts'
import { endOrder, type OrderRun, setOrderError } from './certificates.ts'

interface FailedTry {
  readonly error: string
  /** Failed tries of the order. */
  readonly tries: number
  readonly next_try_at: Date
}

/** Stores a failed try; the owner of the domain is notified once for each order. False when another order took its place. May be repeated. */
export function postponeOrder(services: Services, run: OrderRun, failed: FailedTry): Promise<boolean> {
  return transact(services, async (tx) => {
    const before = await lockOrder(tx, run)
    if (!before || !(await setOrderError(tx, run, failed))) return false
    const isNews = before.tries < triesBeforeNotice && failed.tries >= triesBeforeNotice
    if (isNews) await recordFailing(tx, services, run, failed.error)
    return true
  })
}

/** Ends an order after its last try; a certificate in use stays. The next order begins at `renew_at`. May be repeated. */
export function giveUpOrder(
  services: Services,
  run: OrderRun,
  end: { readonly renew_at: Date; readonly error: string },
): Promise<void> {
  return transact(services, async (tx) => {
    const before = await lockOrder(tx, run)
    if (!before) return
    await endOrder(tx, run, end)
    if (before.tries < triesBeforeNotice) await recordFailing(tx, services, run, end.error)
  })
}

const lockOrder = (tx: Tx, { certificate_id, order_id }: OrderRun) =>
  tx
    .selectFrom('certificates')
    .select('tries')
    .where('id', '=', certificate_id)
    .where('order_id', '=', order_id)
    .forNoKeyUpdate()
    .executeTakeFirst()

/** Notifies the owner and the webhooks of a project that a domain gets no certificate. Names of the platform have no owner. */
async function recordFailing(tx: Tx, services: Services, { certificate_id }: OrderRun, error: string): Promise<void> {
  const now = services.clock()
  const domain = await tx
    .selectFrom('domains')
    .innerJoin('certificates', 'certificates.domain_id', 'domains.id')
    .select(['domains.id', 'domains.domain', 'domains.project_id', 'domains.site_id', 'certificates.not_after'])
    .where('certificates.id', '=', certificate_id)
    .executeTakeFirst()
  if (!domain) return
  const { project_id, site_id, not_after } = domain
  const data = { domain_id: domain.id, domain: domain.domain, error, not_after: not_after?.toISOString() ?? null }
  await recordEvent(tx, { type: 'certificate.failing', project_id, site_id, data }, now)
  if (not_after) return await notifyOwner(tx, services, domain, failingEmail(domain.domain, error, not_after))
  // the end of the attempt to connect the domain is an email already
  const title = `${domain.domain} gets no certificate`
  await insertNotification(tx, project_id, { kind: 'certificate_failing', title, message: error, site_id }, now)
}
