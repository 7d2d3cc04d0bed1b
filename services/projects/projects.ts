import { type Expression, type Selectable, sql } from 'kysely'
import { notFound, paymentRequired } from '../../core/errors.ts'
import type { PlanName } from '../../core/plans.ts'
import { readInPages } from '../../infra/db/batches.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Services } from '../services.ts'
import { type SeenObjects, type Tx, transact } from '../transact.ts'

export type ProjectRow = Selectable<DB['projects']>

export function createProject(
  { db }: Services,
  project: { name: string; owner_email: string; plan: PlanName },
): Promise<ProjectRow> {
  return db.insertInto('projects').values(project).returningAll().executeTakeFirstOrThrow()
}

/** All projects, oldest first, in batches. */
export const readProjects = (db: Db) =>
  readInPages<ProjectRow>(({ after, limit }) =>
    db
      .selectFrom('projects')
      .selectAll()
      .$if(after !== undefined, (query) => query.where('id', '>', after?.id ?? ''))
      .orderBy('id')
      .limit(limit)
      .execute(),
  )

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

/** The refusal of what a suspended project may not do. */
export const suspended = ({ suspended_reason }: Pick<ProjectRow, 'suspended_reason'>) =>
  paymentRequired(
    suspended_reason === null
      ? 'the project is suspended; ask the operator of this platform about it'
      : `the project is suspended: ${suspended_reason}`,
    'suspended',
  )

export const noSuchProject = () => notFound('there is no project with this id')

/**
 * A transaction under the project's lock, so that its quotas are counted and its permits granted one request at a time. Every transaction that
 * needs this lock takes it first: the locks of sites and rows come after it.
 * @param seen objects that were stored for it
 * @throws AppError `not_found` when the project was erased
 */
export function withProject<Result>(
  services: Services,
  id: string,
  work: (tx: Tx, project: ProjectRow) => Promise<Result>,
  seen?: SeenObjects,
): Promise<Result> {
  const run = async (tx: Tx) => {
    const project = await lockProject(tx, id)
    if (!project) throw noSuchProject()
    return await work(tx, project)
  }
  return transact(services, run, seen)
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
