import { sql } from 'kysely'
import { judgeSubmission, type RepliedSubmission, type SkipReason } from '../../core/autoreply.ts'
import { maxRepliesOfMailbox, replyPeriodMs } from '../../core/limits.ts'
import { mailboxOf } from '../../core/mailboxes.ts'
import { monthOf } from '../../core/months.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import type { AutoreplyDecision } from '../../workflows/contract/autoreply.ts'
import { isHidden } from '../forms/inbox.ts'
import { accessRate, takeRate } from '../rates.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { deliveryLink } from './delivery-page.ts'

/**
 * Decides whether the visitor who made a submission gets a reply. If so, writes the email and counts it, in one transaction. A repetition finds
 * what was written.
 */
export async function decideAutoreply(services: Services, submissionId: string): Promise<AutoreplyDecision> {
  // its library is not loaded on a platform without auto-replies
  const { composeReply } = await import('./compose.ts')
  const { config, log } = services
  const now = services.clock()
  return await transact(services, async (tx) => {
    const due = await tx
      .deleteFrom('due_autoreplies')
      .where('submission_id', '=', submissionId)
      .returning('site_id')
      .executeTakeFirst()
    if (!due) return await findDecision(tx, submissionId)
    const skipped = (reason: SkipReason): AutoreplyDecision => {
      tx.afterCommit(() => log.info({ submission_id: submissionId, site_id: due.site_id, reason }, 'auto-reply skipped'))
      return { state: 'skipped', reason }
    }
    const found = await lockReply(tx, submissionId)
    if (!found) return skipped('gone')
    const verdict = judgeSubmission(found, config.mail.from)
    if ('reason' in verdict) return skipped(verdict.reason)
    const { recipient } = verdict
    const { site_id, project_id } = found
    const refusal = await takeReply(
      tx,
      { site_id, project_id, recipient },
      config.plans[found.plan].autoreply_mails_per_month,
      now,
    )
    if (refusal) return skipped(refusal)
    const site = { id: site_id, subdomain: found.subdomain }
    const link = found.has_files ? await deliveryLink({ config, db: tx }, site, submissionId, now) : undefined
    const email = {
      ...composeReply(found, config.mail.from, link),
      project_id,
      recipient,
      kind: 'autoreply',
      about: site_id,
      submission_id: submissionId,
      created_at: now,
    }
    const { id: email_id } = await tx.insertInto('mails').values(email).returning('id').executeTakeFirstOrThrow()
    tx.afterCommit(() => log.info({ submission_id: submissionId, site_id, email_id }, 'auto-reply written'))
    return { state: 'written', email_id }
  })
}

/** What an earlier try has decided. Its reason is known only to itself. */
async function findDecision(tx: Tx, submissionId: string): Promise<AutoreplyDecision> {
  const email = await tx.selectFrom('mails').select('id').where('submission_id', '=', submissionId).executeTakeFirst()
  return email ? { state: 'written', email_id: email.id } : { state: 'skipped', reason: 'gone' }
}

type Found = RepliedSubmission & { readonly site_id: string; readonly project_id: string; readonly subdomain: string }

/** The submission with all that decides about its reply. The settings stay locked, so that the replies of a site are decided one after the other. */
async function lockReply(tx: Tx, submissionId: string): Promise<Found | undefined> {
  const { rows } = await sql<Found>`
    select s.site_id, s.project_id, s.data, s.status = 'verified' and not ${isHidden} as shown, sites.name as site_name, sites.subdomain,
      sites.deletion_scheduled_at is not null as trashed, projects.plan, projects.suspended,
      a.enabled, a.subject, a.body, a.email_field,
      exists (select from delivery_files f where f.site_id = s.site_id) as has_files
    from form_submissions s
      join sites on sites.id = s.site_id
      join projects on projects.id = s.project_id
      join autoreplies a on a.site_id = s.site_id
    where s.id = ${submissionId} for update of a`.execute(tx)
  return rows[0]
}

interface Reply {
  readonly site_id: string
  readonly project_id: string
  readonly recipient: string
}

/** Counts a reply everywhere, or nowhere when there were too many: then the reason. */
async function takeReply(
  tx: Tx,
  { site_id, project_id, recipient }: Reply,
  monthly: number | null,
  now: Date,
): Promise<SkipReason | undefined> {
  // named by its hash, so that the rates hold no addresses
  const mailbox = sha256Hex(mailboxOf(recipient))
  await sql`savepoint reply`.execute(tx)
  let refusal: SkipReason | undefined
  if (!(await takeRate(tx, accessRate(`replies:${site_id}:${mailbox}`, 1, replyPeriodMs), now))) refusal = 'repeated'
  else if (!(await takeRate(tx, accessRate(`replies:${mailbox}`, maxRepliesOfMailbox, replyPeriodMs), now))) refusal = 'mailbox'
  else if (!(await takeOfMonth(tx, project_id, monthly, now))) refusal = 'exhausted'
  if (refusal) await sql`rollback to savepoint reply`.execute(tx)
  return refusal
}

/** Counts a reply, unless the replies of the month are used up. The project's counter stays locked until the transaction ends. */
async function takeOfMonth(tx: Tx, projectId: string, limit: number | null, now: Date): Promise<boolean> {
  if (limit === 0) return false
  const { rows } = await sql`
    insert into autoreply_usage (project_id, month, emails) values (${projectId}, ${monthOf(now)}::date, 1)
    on conflict (project_id, month) do update set emails = autoreply_usage.emails + 1
    where autoreply_usage.emails < ${limit}::integer or ${limit}::integer is null
    returning emails`.execute(tx)
  return rows.length > 0
}
