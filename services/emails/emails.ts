import { type Selectable, sql } from 'kysely'
import { maxMailsAboutOneThing } from '../../core/limits.ts'
import type { Letter, MailTopic } from '../../core/mails.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB, MailOutcome } from '../../infra/db/schema.ts'
import { mailStart } from '../../workflows/contract/emails.ts'
import { takeAllowance } from '../projects/allowances.ts'
import type { Tx } from '../transact.ts'
import { startWorkflow } from '../workflow-messages.ts'

export type MailRow = Selectable<DB['mails']>

const hourMs = 3_600_000

/**
 * Writes an email to the owner of a project and the start of its sending, in the transaction of its cause. Of many emails about the same
 * thing only the first few are written: no caller makes the platform flood an owner.
 */
export async function queueMailToOwner(
  tx: Tx,
  projectId: string,
  letter: Letter,
  options: { readonly sender: string; readonly now: Date },
): Promise<void> {
  const { kind, about } = letter
  const allowance = { project_id: projectId, kind: `mail:${kind}:${about}`, limit: maxMailsAboutOneThing, periodMs: hourMs }
  if (await takeAllowance(tx, allowance, options.now)) return await countSuppressedMail(tx, projectId, letter)
  const { id } = await insertMailToOwner(tx, projectId, letter, options)
  await startWorkflow(tx, mailStart({ id, project_id: projectId, about: letter.subject }))
}

async function insertMailToOwner(
  tx: Tx,
  projectId: string,
  { kind, about, subject, text, html }: Letter,
  { sender, now }: { readonly sender: string; readonly now: Date },
): Promise<{ id: string }> {
  return await tx
    .insertInto('mails')
    .columns(['project_id', 'sender', 'recipient', 'subject', 'text', 'html', 'created_at', 'kind', 'about'])
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
        ])
        .where('projects.id', '=', projectId),
    )
    .returning('id')
    .executeTakeFirstOrThrow()
}

/** Counts a mail that is not written on the newest one of its kind about the same thing. */
async function countSuppressedMail(tx: Tx, projectId: string, { kind, about }: MailTopic): Promise<void> {
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

export function findMail(db: Db, id: string): Promise<MailRow | undefined> {
  return db.selectFrom('mails').selectAll().where('id', '=', id).executeTakeFirst()
}

/** False when its outcome is known already. */
export async function setMailOutcome(db: Db, id: string, outcome: MailOutcome, now: Date): Promise<boolean> {
  const changed = await db
    .updateTable('mails')
    .set({ outcome, sent_at: outcome === 'sent' ? now : null })
    .where('id', '=', id)
    .where('outcome', 'is', null)
    .executeTakeFirst()
  return changed.numUpdatedRows > 0n
}

/** Newest first. */
export function listMails(db: Db, { to, limit }: { to?: string | undefined; limit: number }): Promise<MailRow[]> {
  return db
    .selectFrom('mails')
    .selectAll()
    .$if(to !== undefined, (query) => query.where('recipient', '=', to ?? ''))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}

/** Mails that were written before and of which nothing has become yet. */
export function listWaitingMails(db: Db, before: Date, limit: number): Promise<Pick<MailRow, 'id' | 'project_id' | 'subject'>[]> {
  return db
    .selectFrom('mails')
    .select(['id', 'project_id', 'subject'])
    .where('outcome', 'is', null)
    .where('created_at', '<', before)
    .orderBy('created_at')
    .limit(limit)
    .execute()
}
