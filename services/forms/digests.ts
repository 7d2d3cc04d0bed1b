import { sql } from 'kysely'
import {
  digestPauseMs,
  formNotificationPauseMs,
  maxFormEmailsPerHour,
  maxListedSubmissions,
  type ReceivedSubmission,
  submissionsEmail,
  submissionsTitle,
} from '../../core/form-emails.ts'
import { siteUrl } from '../../infra/config.ts'
import type { Db } from '../../infra/db/database.ts'
import { type DigestInput, type DigestOutcome, digestStart } from '../../workflows/contract/forms.ts'
import { sendEmailToOwner } from '../emails/emails.ts'
import { insertNotification } from '../notifications/notifications.ts'
import { takeAllowance } from '../rates.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { startWorkflow } from '../workflow-messages.ts'
import type { FormSite } from './form-site.ts'
import { isHidden } from './inbox.ts'

// Emails to the owner of a site about its submissions. Each submission is stored with `email_pending`; the first one starts the workflow of an
// email, and each email that of the next, until a pause passes without submissions. An email takes all that are pending, so none is lost or mailed twice.

/** A post that is under way longer than this has failed. */
const longestPostMs = 60_000

type EmailedSite = Pick<FormSite, 'notify_email' | 'digest_at' | 'notified_at'>

/** Whether the owner has to be notified of a submission now: not while an email that will hold it is already waiting for its time. */
export function isNotificationDue({ notify_email, digest_at, notified_at }: EmailedSite, now: Date): boolean {
  if (notify_email) return digest_at === null || digest_at.getTime() < now.getTime() + longestPostMs
  return notified_at === null || notified_at.getTime() <= now.getTime() - formNotificationPauseMs
}

/** Notifies the owner of a submission in the transaction that stores it, which has counted it: by an email, or by a notification alone. */
export async function notifyOfSubmission(tx: Tx, site: Pick<FormSite, 'site_id' | 'project_id'>, now: Date): Promise<void> {
  if (!(await beginEmails(tx, site.site_id, now))) await notifyOnce(tx, site, now)
}

/** Starts the first email, unless one is due already. False when the owner wants none. */
async function beginEmails(tx: Tx, siteId: string, now: Date): Promise<boolean> {
  const row = await tx
    .selectFrom('site_forms')
    .select(['notify_email', 'digest_at', 'digest_no'])
    .where('site_id', '=', siteId)
    .forNoKeyUpdate()
    .executeTakeFirst()
  if (!row?.notify_email) return false
  if (row.digest_at === null) await scheduleDigest(tx, { site_id: siteId, digest_no: row.digest_no + 1, digests: 0 }, now)
  return true
}

/** Writes one notification in an hour. */
async function notifyOnce(tx: Tx, { site_id, project_id }: Pick<FormSite, 'site_id' | 'project_id'>, now: Date): Promise<void> {
  const since = new Date(now.getTime() - formNotificationPauseMs)
  const { rows } = await sql<{ name: string }>`
    update site_forms f set notified_at = ${now} from sites
    where f.site_id = ${site_id} and sites.id = f.site_id and (f.notified_at is null or f.notified_at <= ${since})
    returning sites.name`.execute(tx)
  const [site] = rows
  if (!site) return
  const message = 'It is in the inbox of the project. More submissions within an hour make no further notification.'
  const texts = { title: submissionsTitle(1, site.name), message }
  await insertNotification(tx, project_id, { kind: 'form_submissions', ...texts, site_id }, now)
}

interface Digest {
  readonly site_id: string
  readonly digest_no: number
  /** The emails before it since submissions were first gathered. */
  readonly digests: number
}

async function scheduleDigest(tx: Tx, { site_id, digest_no, digests }: Digest, due_at: Date): Promise<void> {
  const { rows } = await sql<{ project_id: string; site_name: string }>`
    update site_forms f set digest_no = ${digest_no}, digest_at = ${due_at}, digests = ${digests} from sites
    where f.site_id = ${site_id} and sites.id = f.site_id
    returning f.project_id, sites.name as site_name`.execute(tx)
  for (const site of rows) await startWorkflow(tx, digestStart({ ...site, site_id, digest_no, due_at }))
}

/**
 * Sends the owner of a site one email about all submissions that are pending, when it is due, and schedules the next one. Without any, submissions
 * are no longer gathered: the next one is mailed at once. May be repeated.
 */
export function sendDigest(services: Services, { site_id, digest_no }: DigestInput): Promise<DigestOutcome | 'early'> {
  return transact(services, async (tx): Promise<DigestOutcome | 'early'> => {
    const now = services.clock()
    // posts take the row of the site after that of their submission, so it cannot be locked before those here
    await sql`select pg_advisory_xact_lock(hashtextextended(${`form digest of ${site_id}`}, 0))`.execute(tx)
    const found = await findDigest(tx, site_id)
    if (found?.digest_no !== digest_no || found.digest_at === null) return { kind: 'nothing', count: 0 }
    if (found.digest_at > now) return 'early'
    if (!(await hasPending(tx, site_id)) && (await endGathering(tx, site_id))) return { kind: 'nothing', count: 0 }
    const next = { site_id, digest_no: digest_no + 1 }
    const { project_id, digests } = found
    const allowance = { project_id, kind: 'form_emails', limit: maxFormEmailsPerHour, periodMs: 3_600_000 }
    const freeAt = await takeAllowance(tx, allowance, now)
    if (freeAt) {
      await scheduleDigest(tx, { ...next, digests }, freeAt)
      return { kind: 'postponed', count: 0 }
    }
    const count = await sendPending(tx, services, found, now)
    const pauseMs = digestPauseMs(digests + 1, services.config.forms.digestPauseMs)
    await scheduleDigest(tx, { ...next, digests: digests + 1 }, new Date(now.getTime() + pauseMs))
    return count > 0 ? { kind: 'sent', count } : { kind: 'nothing', count }
  })
}

type FoundDigest = NonNullable<Awaited<ReturnType<typeof findDigest>>>

const findDigest = (db: Db, siteId: string) =>
  db
    .selectFrom('site_forms as f')
    .innerJoin('sites', 'sites.id', 'f.site_id')
    .select(['f.site_id', 'f.project_id', 'f.notify_email', 'f.digest_no', 'f.digest_at', 'f.digests'])
    .select(['sites.name', 'sites.subdomain'])
    .where('f.site_id', '=', siteId)
    .executeTakeFirst()

async function hasPending(tx: Tx, siteId: string): Promise<boolean> {
  const pending = tx.selectFrom('form_submissions').select('id').where('site_id', '=', siteId).where('email_pending', '=', true)
  return (await pending.limit(1).executeTakeFirst()) !== undefined
}

/** False when a submission was committed since: posts that saw submissions being gathered hold the row until then. */
async function endGathering(tx: Tx, siteId: string): Promise<boolean> {
  await tx.selectFrom('site_forms').select('site_id').where('site_id', '=', siteId).forNoKeyUpdate().execute()
  if (await hasPending(tx, siteId)) return false
  await tx.updateTable('site_forms').set({ digest_at: null, digests: 0 }).where('site_id', '=', siteId).execute()
  return true
}

/** Writes the email, and a notification, about the pending submissions that the owner still sees. Returns their number. */
async function sendPending(tx: Tx, { config }: Services, found: FoundDigest, now: Date): Promise<number> {
  const { site_id, project_id, name, subdomain, notify_email } = found
  const { count, ids } = await takePending(tx, site_id)
  if (!notify_email || count === 0) return 0
  const [first, ...others] = await readSubmissions(tx, ids)
  if (!first) return 0
  const email = submissionsEmail({ id: site_id, name, url: siteUrl(config, subdomain) }, count, [first, ...others])
  await sendEmailToOwner(tx, project_id, email, { sender: config.mail.from, now })
  const message = 'An email with the fields was sent to the owner of the project; the inbox has all of them.'
  await insertNotification(tx, project_id, { kind: 'form_submissions', title: email.subject, message, site_id }, now)
  return count
}

/** Marks all pending submissions as mailed. Returns how many of them are neither spam nor hidden, and the newest of these. */
async function takePending(tx: Tx, siteId: string): Promise<{ readonly count: number; readonly ids: readonly string[] }> {
  const { rows } = await sql<{ count: number; ids: string[] | null }>`
    with s as (
      update form_submissions set email_pending = false
      where id = any (array(
        select id from form_submissions where site_id = ${siteId} and email_pending order by id for no key update))
      returning id, project_id, status, hidden_no)
    select count(*) as count, (array_agg(s.id order by s.id desc))[1:${sql.lit(maxListedSubmissions)}] as ids
    from s where s.status <> 'spam' and not ${isHidden}`.execute(tx)
  return { count: rows[0]?.count ?? 0, ids: rows[0]?.ids ?? [] }
}

const readSubmissions = (tx: Tx, ids: readonly string[]): Promise<ReceivedSubmission[]> =>
  tx
    .selectFrom('form_submissions')
    .select(['id', 'data', 'created_at'])
    .where((eb) => eb('id', '=', eb.fn.any(sql<string[]>`${ids}::uuid[]`)))
    .orderBy('id', 'desc')
    .execute()

/** Lists the emails about submissions that are due by the instant, by site. */
export function listDueDigests(db: Db, before: Date, { limit, afterId }: { limit: number; afterId?: string | undefined }) {
  return db
    .selectFrom('site_forms as f')
    .innerJoin('sites', 'sites.id', 'f.site_id')
    .select(['f.site_id', 'f.project_id', 'f.digest_no', 'sites.name as site_name'])
    .select((eb) => eb.ref('f.digest_at').$notNull().as('due_at'))
    .where('f.digest_at', '<=', before)
    .$if(afterId !== undefined, (query) => query.where('f.site_id', '>', afterId ?? ''))
    .orderBy('f.site_id')
    .limit(limit)
    .execute()
}
