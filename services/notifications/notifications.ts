import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Email } from '../../core/emails.ts'
import { maxFormNotifications, maxNotifications, type NotificationKind, notificationTexts } from '../../core/notifications.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { queueEmailToOwner } from '../emails/emails.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'

export type NotificationRow = Selectable<DB['notifications']>

interface NewNotification {
  readonly kind: NotificationKind
  readonly title: string
  readonly message: string
  readonly site_id: string | null
  readonly deploy_id?: string
}

/** Writes a notification in the transaction of its cause. Of a project only the newest are kept, so that no caller can fill the table. */
export async function insertNotification(
  tx: Tx,
  project_id: string,
  { kind, site_id, deploy_id, ...texts }: NewNotification,
  now: Date,
): Promise<void> {
  const row = { project_id, kind, site_id, deploy_id: deploy_id ?? null, ...notificationTexts(texts), created_at: now }
  await tx.insertInto('notifications').values(row).execute()
  if (kind === 'form_submissions') await deleteOldest(tx, project_id, sql`and kind = ${kind}`, maxFormNotifications)
  await deleteOldest(tx, project_id, sql``, maxNotifications)
}

async function deleteOldest(tx: Tx, projectId: string, condition: RawBuilder<unknown>, kept: number): Promise<void> {
  await sql`
    delete from notifications where id = any (array(
      select id from notifications where project_id = ${projectId} ${condition}
      order by id desc offset ${kept} for update skip locked))`.execute(tx)
}

/** Notifies the owner of a project about one of its domains, by email and by a notification, in the transaction of the cause. */
export async function notifyOwner(
  tx: Tx,
  { config, clock }: Services,
  about: { readonly project_id: string; readonly site_id: string },
  email: Email & { readonly kind: NotificationKind },
): Promise<void> {
  const now = clock()
  const { kind, subject: title, text: message } = email
  await insertNotification(tx, about.project_id, { kind, title, message, site_id: about.site_id }, now)
  await queueEmailToOwner(tx, about.project_id, email, { sender: config.mail.from, now })
}

interface Page {
  readonly unread: boolean
  readonly limit: number
  readonly offset: number
}

/** Lists notifications of the project, newest first. */
export function listNotifications(db: Db, projectId: string, { unread, limit, offset }: Page): Promise<NotificationRow[]> {
  return db
    .selectFrom('notifications')
    .selectAll()
    .where('project_id', '=', projectId)
    .$if(unread, (query) => query.where('read_at', 'is', null))
    .orderBy('id', 'desc')
    .limit(limit)
    .offset(offset)
    .execute()
}

export async function countUnread(db: Db, projectId: string): Promise<number> {
  const { count } = await db
    .selectFrom('notifications')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('project_id', '=', projectId)
    .where('read_at', 'is', null)
    .executeTakeFirstOrThrow()
  return count
}

/** Marks notifications of the project as read; without ids, all of them. Others, and those that are read, stay as they are. */
export async function markRead({ db, clock }: Services, projectId: string, ids: readonly string[] | undefined): Promise<void> {
  await db
    .updateTable('notifications')
    .set({ read_at: clock() })
    .where('project_id', '=', projectId)
    .where('read_at', 'is', null)
    .$if(ids !== undefined, (query) => query.where('id', 'in', [...(ids ?? [])]))
    .execute()
}
