import { type Expression, type Selectable, sql, type Updateable } from 'kysely'
import { paymentRequired } from '../../core/errors.ts'
import type { PlanName } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'

export type ProjectRow = Selectable<DB['projects']>

export function createProject(
  { db }: Services,
  project: { name: string; owner_email: string; plan: PlanName },
): Promise<ProjectRow> {
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

export const suspended = () =>
  paymentRequired('the project is suspended for non-payment; pay the bill, then try again', 'suspended')

/**
 * A transaction under the project's lock, so that its quotas are counted and its permits granted one request at a time. Every transaction that
 * needs this lock takes it first: the locks of sites and rows come after it.
 */
export function withProject<Result>(
  services: Services,
  id: string,
  work: (tx: Tx, project: ProjectRow) => Promise<Result>,
): Promise<Result> {
  return transact(services, async (tx) => {
    const project = await lockProject(tx, id)
    if (!project) throw new Error(`there is no project ${id}`)
    return await work(tx, project)
  })
}

/** As {@link withProject}, for the project that owns the deploy; undefined when the deploy is gone with its site. */
export function withProjectOfDeploy<Result>(
  services: Services,
  deployId: string,
  work: (tx: Tx, project: ProjectRow) => Promise<Result>,
): Promise<Result | undefined> {
  return transact(services, async (tx) => {
    const project = await lockProject(tx, sql<string>`(select project_id from deploys where id = ${deployId})`)
    return project && (await work(tx, project))
  })
}

function lockProject(tx: Tx, id: string | Expression<string>): Promise<ProjectRow | undefined> {
  return tx.selectFrom('projects').selectAll().where('id', '=', id).forNoKeyUpdate().executeTakeFirst()
}

/** Changes a project; the edge is notified of a changed suspension with the commit. */
export function updateProject(
  services: Services,
  id: string,
  change: { plan?: PlanName | undefined; suspended?: boolean | undefined; form_balance_add?: number | undefined },
): Promise<ProjectRow> {
  return withProject(services, id, async (tx, before) => {
    const set: Updateable<DB['projects']> = {
      plan: change.plan ?? before.plan,
      suspended: change.suspended ?? before.suspended,
      form_balance: before.form_balance + (change.form_balance_add ?? 0),
    }
    const after = await tx.updateTable('projects').set(set).where('id', '=', id).returningAll().executeTakeFirstOrThrow()
    if (after.suspended !== before.suspended) await bumpRoutes(tx, { project_id: id })
    const { plan, suspended } = after
    tx.afterCommit(() => services.log.info({ project_id: id, plan, suspended }, 'project updated'))
    return after
  })
}
