import { type Insertable, type Selectable, sql } from 'kysely'
import type { Forge } from '../../core/git-events.ts'
import type { PlanName } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import { jsonb } from '../../infra/db/jsonb.ts'
import type { DB, LastDelivery, LastReport } from '../../infra/db/schema.ts'
import type { Tx } from '../transact.ts'

export type GitConnectionRow = Selectable<DB['git_connections']>

/** Undefined when no repository is connected to the site. */
export function findConnection(db: Db, siteId: string): Promise<GitConnectionRow | undefined> {
  return db.selectFrom('git_connections').selectAll().where('site_id', '=', siteId).executeTakeFirst()
}

/** The settings of a connection that its owner chooses. */
export type ConnectionSettings = Omit<
  Insertable<DB['git_connections']>,
  | 'webhook_secret_sealed'
  | 'webhook_created_at'
  | 'forge'
  | 'last_delivery'
  | 'last_report'
  | 'deploy_hook_sha256'
  | 'deploy_hook_created_at'
  | 'deploy_hook_used_at'
  | 'created_at'
  | 'updated_at'
>

/** Connects the repository, or changes the connection; its webhook and its deploy hook stay. */
export function saveConnection(tx: Tx, settings: ConnectionSettings, now: Date): Promise<GitConnectionRow> {
  return tx
    .insertInto('git_connections')
    .values({ ...settings, created_at: now, updated_at: now })
    .onConflict((conflict) =>
      conflict
        .column('site_id')
        .doUpdateSet({ ...settings, updated_at: now })
        .where('git_connections.project_id', '=', settings.project_id),
    )
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Deletes the connection; false when there was none. */
export async function deleteConnection(tx: Tx, projectId: string, siteId: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('git_connections')
    .where('project_id', '=', projectId)
    .where('site_id', '=', siteId)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

/** Forgets everything exchanged with the forge: approvals, comments, reports. */
export async function forgetForge(tx: Tx, siteId: string): Promise<void> {
  await tx
    .updateTable('git_connections')
    .set({ forge: null, last_delivery: null, last_report: null })
    .where('site_id', '=', siteId)
    .execute()
  await tx
    .updateTable('git_previews')
    .set((eb) => ({ approved: eb.not('from_fork'), pull_request: null, comment_id: null, commented: null }))
    .where('site_id', '=', siteId)
    .execute()
  await tx.deleteFrom('git_reports').where('site_id', '=', siteId).execute()
}

const ofConnection = (db: Db, projectId: string, siteId: string) =>
  db.updateTable('git_connections').where('project_id', '=', projectId).where('site_id', '=', siteId)

/** Replaces the webhook's secret; false when no repository is connected. */
export async function setWebhookSecret(
  db: Db,
  projectId: string,
  siteId: string,
  webhook: { readonly sealed: string; readonly now: Date },
): Promise<boolean> {
  const { numUpdatedRows } = await ofConnection(db, projectId, siteId)
    .set({ webhook_secret_sealed: webhook.sealed, webhook_created_at: webhook.now })
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Replaces the deploy hook, or removes it for null; false when no repository is connected. */
export async function setDeployHook(
  db: Db,
  projectId: string,
  siteId: string,
  hook: { readonly sha256: string; readonly now: Date } | null,
): Promise<boolean> {
  const { numUpdatedRows } = await ofConnection(db, projectId, siteId)
    .set({
      deploy_hook_sha256: hook?.sha256 ?? null,
      deploy_hook_created_at: hook?.now ?? null,
      deploy_hook_used_at: null,
    })
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Stores the result of the latest report to the forge. */
export async function setLastReport(db: Db, siteId: string, report: LastReport): Promise<void> {
  await db
    .updateTable('git_connections')
    .set({ last_report: jsonb(report) })
    .where('site_id', '=', siteId)
    .execute()
}

/** A connection for webhooks, which come without a key. */
export type HookedConnection = GitConnectionRow & { readonly site_name: string; readonly plan: PlanName }

/** Excludes sites in the trash, whose hooks do not work. */
const hooked = (db: Db) =>
  db
    .selectFrom('git_connections')
    .innerJoin('sites', 'sites.id', 'git_connections.site_id')
    .innerJoin('projects', 'projects.id', 'git_connections.project_id')
    .selectAll('git_connections')
    .select(['sites.name as site_name', 'projects.plan'])
    .where('sites.deletion_scheduled_at', 'is', null)

export function findHookedConnection(db: Db, siteId: string): Promise<HookedConnection | undefined> {
  return hooked(db).where('git_connections.site_id', '=', siteId).executeTakeFirst()
}

export function findConnectionOfDeployHook(db: Db, sha256: string): Promise<HookedConnection | undefined> {
  return hooked(db).where('git_connections.deploy_hook_sha256', '=', sha256).executeTakeFirst()
}

/** False when the hook was replaced or removed in the meantime. */
export async function touchDeployHook(tx: Tx, sha256: string, now: Date): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('git_connections')
    .set({ deploy_hook_used_at: now })
    .where('deploy_hook_sha256', '=', sha256)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/**
 * Records the result of a delivery with a valid signature. A script that delivers beside a forge does not change the forge that gets reports.
 */
export async function saveDelivery(db: Db, siteId: string, delivery: LastDelivery): Promise<void> {
  await db
    .updateTable('git_connections')
    .set((eb) => ({
      last_delivery: jsonb(delivery),
      forge: delivery.forge === 'generic' ? sql<Forge>`coalesce(${eb.ref('forge')}, 'generic')` : delivery.forge,
    }))
    .where('site_id', '=', siteId)
    .execute()
}

/** Records a delivery without a valid signature, unless one was recorded since `before`. */
export async function saveRefusedDelivery(db: Db, siteId: string, delivery: LastDelivery, before: Date): Promise<void> {
  await db
    .updateTable('git_connections')
    .set({ last_delivery: jsonb(delivery) })
    .where('site_id', '=', siteId)
    .where((eb) =>
      eb.or([eb('last_delivery', 'is', null), eb(sql<Date>`(${eb.ref('last_delivery')} ->> 'at')::timestamptz`, '<=', before)]),
    )
    .execute()
}

/** False when the site has already had this delivery. Waits for another transaction that is handling it. */
export async function claimDelivery(
  tx: Tx,
  delivery: { readonly site_id: string; readonly delivery_id: string },
  now: Date,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('git_deliveries')
    .values({ ...delivery, received_at: now })
    .onConflict((conflict) => conflict.columns(['site_id', 'delivery_id']).doNothing())
    .executeTakeFirst()
  return (numInsertedOrUpdatedRows ?? 0n) > 0n
}
