import type { Selectable, Updateable } from 'kysely'
import type { PlanName } from '../../core/plans.ts'
import type { Db, Tx } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'

export type ProjectRow = Selectable<DB['projects']>

export function insertProject(db: Db, project: { name: string; owner_email: string; plan: PlanName }): Promise<ProjectRow> {
  return db.insertInto('projects').values(project).returningAll().executeTakeFirstOrThrow()
}

/** Oldest first. */
export function listProjects(db: Db): Promise<ProjectRow[]> {
  return db.selectFrom('projects').selectAll().orderBy('id').execute()
}

export function findProject(db: Db, id: string): Promise<ProjectRow | undefined> {
  return db.selectFrom('projects').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Undefined when there is no such site. */
export async function findPlanOfSite(db: Db, siteId: string): Promise<PlanName | undefined> {
  const row = await db
    .selectFrom('projects')
    .innerJoin('sites', 'sites.project_id', 'projects.id')
    .select('projects.plan')
    .where('sites.id', '=', siteId)
    .executeTakeFirst()
  return row?.plan
}

/** Takes the project's lock until the transaction ends, so that its quotas are counted one request at a time. */
export function lockProject(tx: Tx, id: string): Promise<ProjectRow> {
  return tx.selectFrom('projects').selectAll().where('id', '=', id).forNoKeyUpdate().executeTakeFirstOrThrow()
}

/** As {@link lockProject}, for the project that owns the deploy; undefined when the deploy is gone with its site. */
export function lockProjectOfDeploy(tx: Tx, deployId: string): Promise<ProjectRow | undefined> {
  return tx
    .selectFrom('projects')
    .selectAll()
    .where('id', '=', (eb) => eb.selectFrom('deploys').select('project_id').where('id', '=', deployId))
    .forNoKeyUpdate()
    .executeTakeFirst()
}

/** Undefined when there is no such project. A change of the suspension reaches the edge with the commit. */
export async function updateProject(
  tx: Tx,
  id: string,
  change: { plan?: PlanName | undefined; suspended?: boolean | undefined; form_balance_add?: number | undefined },
): Promise<ProjectRow | undefined> {
  const before = await tx.selectFrom('projects').selectAll().where('id', '=', id).forNoKeyUpdate().executeTakeFirst()
  if (!before) return undefined
  const set: Updateable<DB['projects']> = {
    plan: change.plan ?? before.plan,
    suspended: change.suspended ?? before.suspended,
    form_balance: before.form_balance + (change.form_balance_add ?? 0),
  }
  const after = await tx.updateTable('projects').set(set).where('id', '=', id).returningAll().executeTakeFirstOrThrow()
  if (after.suspended !== before.suspended) await bumpRoutes(tx, { project_id: id })
  return after
}
