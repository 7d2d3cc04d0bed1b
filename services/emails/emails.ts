import { type Selectable, sql } from 'kysely'
import type { Email, EmailTopic } from '../../core/emails.ts'
import { maxEmailsAboutOneThing } from '../../core/limits.ts'
import { bytesOf, readBySize } from '../../infra/db/batches.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB, EmailOutcome } from '../../infra/db/schema.ts'
import { emailStart } from '../../workflows/contract/emails.ts'
import { takeAllowance } from '../rates.ts'
import type { Tx } from '../transact.ts'
import { startWorkflow } from '../workflow-messages.ts'

export type EmailRow = Selectable<DB['mails']>

const hourMs = 3_600_000

/**
 * Writes an email to the owner of a project and starts its sending, in the transaction that causes it. Of many emails about the same
 * thing only the first few are written, so that no caller can make the platform flood an owner.
 */
export async function queueEmailToOwner(
  tx: Tx,
  projectId: string,
  email: Email,
  options: { readonly sender: string; readonly now: Date },
): Promise<void> {
  const { kind, about } = email
  const allowance = { project_id: projectId, kind: `mail:${kind}:${about}`, limit: maxEmailsAboutOneThing, periodMs: hourMs }
  if (await takeAllowance(tx, allowance, options.now)) return await countSuppressedEmail(tx, projectId, email)
  await sendEmailToOwner(tx, projectId, email, options)
}

/** Writes an email to the owner of a project and starts its sending, in the transaction that causes it. The caller limits their number. */
export async function sendEmailToOwner(
  tx: Tx,
  projectId: string,
  { kind, about, subject, text, html, reply_to }: Email,
  { sender, now }: { readonly sender: string; readonly now: Date },
): Promise<void> {
  const { id } = await tx
    .insertInto('mails')
    .columns(['project_id', 'sender', 'recipient', 'subject', 'text', 'html', 'created_at', 'kind', 'about', 'reply_to'])
    .expression((eb) =>
      eb
        .selectFrom('projects')
        .select((of) => [
          'projects.id',
          sql<string>`${sender}`.as('sender'),
          of.ref('projects.owner_email').as('recipient'),
          sql<string>`${subject}`.as('subject'),
          sql<string>`${text}`.as('text'),
          sql<string>`${html}`.as('html'),
          sql<Date>`${now}::timestamptz`.as('created_at'),
          sql<string>`${kind}`.as('kind'),
          sql<string>`${about}`.as('about'),
          sql<string | null>`${reply_to ?? null}`.as('reply_to'),
        ])
        .where('projects.id', '=', projectId),
    )
    .returning('id')
    .executeTakeFirstOrThrow()
  await startWorkflow(tx, emailStart({ id, project_id: projectId, about: subject }))
}

/** Writes an email to a visitor and starts its sending. The subject is shown in Temporal, so it must hold no secret. */
export async function sendEmailToVisitor(
  tx: Tx,
  { project_id, recipient }: Pick<EmailRow, 'project_id' | 'recipient'>,
  { kind, about, subject, text, html }: Email,
  { sender, now }: { readonly sender: string; readonly now: Date },
): Promise<void> {
  const { id } = await tx
    .insertInto('mails')
    .values({ project_id, sender, recipient, subject, text, html, created_at: now, kind, about })
    .returning('id')
    .executeTakeFirstOrThrow()
  await startWorkflow(tx, emailStart({ id, project_id, about: subject }))
}

/** Writes an email that was handed over already, with what became of it. */
export async function keepHandedOver(
  tx: Tx,
  email: Email & Pick<EmailRow, 'project_id' | 'sender' | 'recipient' | 'created_at'>,
  outcome: EmailOutcome,
  now: Date,
): Promise<void> {
  const { project_id, sender, recipient, created_at, kind, about, subject, text, html } = email
  const sent_at = outcome === 'sent' ? now : null
  await tx
    .insertInto('mails')
    .values({ project_id, sender, recipient, subject, text, html, created_at, kind, about, outcome, sent_at })
    .execute()
}

/** Counts an email that is not written, on the newest email of its kind about the same thing. */
async function countSuppressedEmail(tx: Tx, projectId: string, { kind, about }: EmailTopic): Promise<void> {
  await tx
    .updateTable('mails')
    .set((eb) => ({ suppressed: eb('suppressed', '+', 1) }))
    .where('id', '=', (eb) =>
      eb
        .selectFrom('mails')
        .select('id')
        .where('project_id', '=', projectId)
        .where('kind', '=', kind)
        .where('about', '=', about)
        .orderBy('id', 'desc')
        .limit(1),
    )
    .execute()
}

export function findEmail(db: Db, id: string): Promise<EmailRow | undefined> {
  return db.selectFrom('mails').selectAll().where('id', '=', id).executeTakeFirst()
}

/** The code in such an email is a secret, which is needed no longer than it takes to send it. */
const withoutCode = (column: 'text' | 'html') => sql<string>`case when kind = 'access_code' then '' else ${sql.ref(column)} end`

/** Stores the outcome; false when there is one already. An email with a code keeps its text only without a mail server, for the operator. */
export async function setEmailOutcome(db: Db, id: string, outcome: EmailOutcome, now: Date): Promise<boolean> {
  const changed = await db
    .updateTable('mails')
    .set({ outcome, sent_at: outcome === 'sent' ? now : null })
    .$if(outcome !== 'kept', (query) => query.set({ text: withoutCode('text'), html: withoutCode('html') }))
    .where('id', '=', id)
    .where('outcome', 'is', null)
    .executeTakeFirst()
  return changed.numUpdatedRows > 0n
}

/** The newest emails, newest first, in batches. */
export async function* readEmails(
  db: Db,
  { to, limit }: { readonly to?: string | undefined; readonly limit: number },
): AsyncGenerator<EmailRow[]> {
  const sizes = await db
    .selectFrom('mails')
    .select(['id', sql<number>`${bytesOf('text')} + ${bytesOf('html')}`.as('bytes')])
    .$if(to !== undefined, (query) => query.where('recipient', '=', to ?? ''))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
  yield* readBySize(sizes, (ids) => db.selectFrom('mails').selectAll().where('id', 'in', ids).execute())
}

/** Lists emails that were written before the instant and have no outcome yet, by id. */
export function listWaitingEmails(
  db: Db,
  before: Date,
  { limit, afterId }: { readonly limit: number; readonly afterId?: string | undefined },
): Promise<Pick<EmailRow, 'id' | 'project_id' | 'subject'>[]> {
  return (
    db
      .selectFrom('mails')
      .select(['id', 'project_id', 'subject'])
      .where('outcome', 'is', null)
      // a reply is sent by the workflow of its submission
      .where('submission_id', 'is', null)
      .where('created_at', '<', before)
      .$if(afterId !== undefined, (query) => query.where('id', '>', afterId ?? ''))
      .orderBy('id')
      .limit(limit)
      .execute()
  )
}
