import type { Selectable } from 'kysely'
import { conflict, notFound } from '../../core/errors.ts'
import { maxWebhooksPerProject, type WebhookEvent } from '../../core/webhooks.ts'
import { seal } from '../../infra/crypto/seal.ts'
import { makeWebhookSecret } from '../../infra/crypto/webhook-signatures.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { giveUpWaiting } from './deliveries.ts'

export type WebhookRow = Selectable<DB['webhooks']>

export const noSuchWebhook = () => notFound('the project has no webhook with this id; list_webhooks shows them all')

/** Lists the webhooks of the project, oldest first. */
export function listWebhooks(db: Db, projectId: string): Promise<WebhookRow[]> {
  return db.selectFrom('webhooks').selectAll().where('project_id', '=', projectId).orderBy('id').execute()
}

/** Undefined when the project has no such webhook. */
export function findWebhook(db: Db, projectId: string, id: string): Promise<WebhookRow | undefined> {
  return db.selectFrom('webhooks').selectAll().where('project_id', '=', projectId).where('id', '=', id).executeTakeFirst()
}

interface NewWebhook {
  readonly url: string
  readonly events: readonly WebhookEvent[]
  /** The site whose events it is called for; null for all. */
  readonly site_id: string | null
}

/**
 * Creates a webhook. Its secret is returned only here, and kept sealed.
 * @throws AppError `conflict` when the project has too many
 */
export function createWebhook(
  services: Services,
  project_id: string,
  { url, events, site_id }: NewWebhook,
): Promise<WebhookRow & { readonly secret: string }> {
  const { keyring, clock, log } = services
  return withProject(services, project_id, async (tx) => {
    if ((await listWebhooks(tx, project_id)).length >= maxWebhooksPerProject) throw tooMany()
    const secret = makeWebhookSecret()
    const values = { project_id, site_id, url, events: [...events], secret_sealed: '', created_at: clock() }
    const { id } = await tx.insertInto('webhooks').values(values).returning('id').executeTakeFirstOrThrow()
    const secret_sealed = seal(keyring, secret, secretOf(id))
    const row = await tx
      .updateTable('webhooks')
      .set({ secret_sealed })
      .where('id', '=', id)
      .returningAll()
      .executeTakeFirstOrThrow()
    tx.afterCommit(() => log.info({ project_id, webhook_id: id }, 'webhook created'))
    return { ...row, secret }
  })
}

/** Where the secret of a webhook is sealed. */
export const secretOf = (id: string) => ({ table: 'webhooks', id, column: 'secret_sealed' })

const tooMany = () => conflict(`a project has at most ${maxWebhooksPerProject} webhooks; delete one first`, 'quota_webhooks')

interface WebhookChange {
  readonly url?: string | undefined
  readonly events?: readonly WebhookEvent[] | undefined
  readonly enabled?: boolean | undefined
}

/** Changes the given members. Disabling ends the deliveries that wait; enabling and another URL forget the failures. @throws AppError `not_found` */
export function updateWebhook(
  services: Services,
  { id, project_id }: Pick<WebhookRow, 'id' | 'project_id'>,
  { url, events, enabled }: WebhookChange,
): Promise<WebhookRow> {
  return transact(services, async (tx) => {
    const before = await lockWebhook(tx, id)
    if (!before) throw noSuchWebhook()
    const isNew = (url !== undefined && url !== before.url) || (enabled === true && !before.enabled)
    const row = await tx
      .updateTable('webhooks')
      .set({
        url: url ?? before.url,
        events: [...(events ?? before.events)],
        enabled: enabled ?? before.enabled,
        disabled_reason: enabled === undefined ? before.disabled_reason : null,
        failing_since: isNew ? null : before.failing_since,
      })
      .where('id', '=', id)
      .returningAll()
      .executeTakeFirstOrThrow()
    if (before.enabled && !row.enabled) await giveUpWaiting(tx, id, services.clock())
    tx.afterCommit(() => services.log.info({ project_id, webhook_id: id, enabled: row.enabled }, 'webhook updated'))
    return row
  })
}

/** Takes the lock of a webhook, which comes before those of its deliveries. */
export function lockWebhook(tx: Tx, id: string): Promise<WebhookRow | undefined> {
  return tx.selectFrom('webhooks').selectAll().where('id', '=', id).forNoKeyUpdate().executeTakeFirst()
}

/** Deletes a webhook with its deliveries. Does nothing when it is gone. */
export async function deleteWebhook(
  { db, log }: Services,
  { id, project_id }: Pick<WebhookRow, 'id' | 'project_id'>,
): Promise<void> {
  await db.deleteFrom('webhooks').where('project_id', '=', project_id).where('id', '=', id).execute()
  log.info({ project_id, webhook_id: id }, 'webhook deleted')
}
