import { type RawBuilder, sql } from 'kysely'
import type { BuildWait } from '../../core/deploy-waits.ts'
import type { Db } from '../../infra/db/database.ts'
import { isDatabaseAway } from '../../infra/db/errors.ts'
import { permitSignal } from '../../workflows/contract/deploys.ts'
import type { DeployRun } from '../deploys/runs.ts'
import { withProject, withProjectOfDeploy } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { signalWorkflows } from '../workflow-messages.ts'

// PostgreSQL grants the permits of builds (the column `turn_at`). Builds of a site run one after another in the order in which they were
// accepted, and a project has a number of permits. A deploy without its source requests a permit to fetch, which it returns with the source
// or when the repository is away; with its source it requests a permit to build. Neither kind waits for the other, so a repository that does
// not answer keeps no other site from building. A worker fetches few repositories at once, so while another project fetches or waits for it,
// a project gets one permit to fetch. Every function that grants permits needs the project's lock.

/** How many permits of each kind a project has. */
interface Permits {
  readonly builds: number
  /** The number while no other project has a repository to fetch; otherwise it is one. */
  readonly fetches: number
}

/** Two, so that a repository that does not answer holds up no other site of its project while no other project fetches. */
const fetchesPerProject = 2

const permitsOf = ({ config }: Services): Permits => ({ builds: config.build.perProject, fetches: fetchesPerProject })

/**
 * Grants the free permits of a project to its waiting builds and signals their workflows, except that of the deploy `asking`.
 * The caller holds the project's lock.
 */
export async function grantFreePermits(
  tx: Tx,
  services: Services,
  { project_id, now, asking }: { readonly project_id: string; readonly now: Date; readonly asking?: string },
): Promise<void> {
  const granted = await grantPermits(tx, project_id, permitsOf(services), now, asking ?? null)
  await signalWorkflows(tx, granted.filter((deploy) => deploy.deploy_id !== asking).map(permitSignal))
}

/** Grants the free permits of every project, because one may have been lost. */
export async function grantAllFreePermits(services: Services, now: Date): Promise<void> {
  const failures: unknown[] = []
  for (const project_id of await listProjectsWithFreePermits(services.db, permitsOf(services), now)) {
    try {
      await withProject(services, project_id, (tx) => grantFreePermits(tx, services, { project_id, now }))
    } catch (error) {
      if (isDatabaseAway(error)) throw error
      // the permits of other projects do not wait for it
      failures.push(error)
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, 'permits of some projects were not granted')
}

/** Requests the permit of a deploy. Undefined when the run does not own the deploy, or it has ended. May be repeated. */
export function requestPermit(services: Services, run: DeployRun): Promise<BuildWait | undefined> {
  return withProjectOfDeploy(services, run.deploy_id, async (tx, { id: project_id }) => {
    await grantFreePermits(tx, services, { project_id, now: services.clock(), asking: run.deploy_id })
    return await findPermit(tx, run)
  })
}

/** Whether the build of a deploy waits or runs. Stored files have their manifest from the start. */
const isUnendedBuild = sql<boolean>`status in ('queued', 'building') and manifest_sha256 is null`
const isFetch = sql<boolean>`source_sha256 is null`
const capOf = ({ builds, fetches }: Permits, kind: RawBuilder<boolean>) =>
  sql<number>`case when ${kind} then ${fetches}::bigint else ${builds}::bigint end`

/**
 * Grants the project's free permits to the builds that have waited longest; returns those builds.
 * @param asking the deploy that requests a permit: its pause before the next fetch is over
 */
async function grantPermits(
  tx: Tx,
  projectId: string,
  permits: Permits,
  now: Date,
  asking: string | null,
): Promise<{ deploy_id: string; attempt: number }[]> {
  const { rows } = await sql<{ deploy_id: string; attempt: number }>`
    with others as (
      select from deploys where project_id <> ${projectId} and ${isUnendedBuild} and ${isFetch}
        and (turn_at is not null or fetch_after is null or fetch_after <= ${now})
    ), unended as (
      select id, site_id, seq, turn_at, fetch_after, created_at, ${isFetch} as is_fetch
      from deploys where project_id = ${projectId} and ${isUnendedBuild}
    ), first_of_site as (
      select distinct on (site_id) * from unended order by site_id, seq
    ), waiting as (
      select id, is_fetch, row_number() over (partition by is_fetch order by created_at, id) as place
      from first_of_site where turn_at is null and (fetch_after is null or fetch_after <= ${now} or id = ${asking}::uuid)
    )
    update deploys set turn_at = ${now}, fetch_after = null
    where id in (
      select id from waiting
      where place <= case when is_fetch and exists (select from others) then 1 else ${capOf(permits, sql`waiting.is_fetch`)} end
        - (select count(*) from unended where turn_at is not null and unended.is_fetch = waiting.is_fetch)
    )
    returning id as deploy_id, attempt`.execute(tx)
  return rows
}

/** Builds of a project that have not ended, with what each waits for. */
const waitsOf = (projectId: RawBuilder<string>) => sql`
  select id, attempt, run_id, run_id is not null as is_claimed, is_fetch, turn_at is not null as has_permit, fetch_after,
    row_number() over of_site - 1 as earlier,
    nullif(first_value(seq) over of_site, seq) as first_earlier_seq
  from (select *, ${isFetch} as is_fetch from deploys where project_id = ${projectId} and ${isUnendedBuild}) as unended
  window of_site as (partition by site_id order by seq)`

/** Undefined when the run does not own the deploy, or the deploy has ended. */
async function findPermit(tx: Tx, run: DeployRun): Promise<BuildWait | undefined> {
  const project = sql<string>`(select project_id from deploys where id = ${run.deploy_id})`
  const { rows } = await sql<BuildWait>`
    select is_claimed, has_permit, is_fetch, fetch_after, earlier, first_earlier_seq from (${waitsOf(project)}) as waits
    where id = ${run.deploy_id} and attempt = ${run.attempt} and run_id = ${run.run_id}`.execute(tx)
  return rows[0]
}

/** What each of these deploys waits for, by its id; deploys that have ended or need no build are left out. */
export async function listWaits(db: Db, projectId: string, ids: readonly string[]): Promise<Map<string, BuildWait>> {
  if (ids.length === 0) return new Map()
  const { rows } = await sql<BuildWait & { readonly id: string }>`
    select id, is_claimed, has_permit, is_fetch, fetch_after, earlier, first_earlier_seq from (${waitsOf(sql`${projectId}`)}) as waits
    where id = any(${ids}::uuid[])`.execute(db)
  return new Map(rows.map(({ id, ...wait }) => [id, wait]))
}

/** Lists the projects with a free permit and a build that may have it: a permit may have been lost. */
async function listProjectsWithFreePermits(db: Db, permits: Permits, now: Date): Promise<string[]> {
  const { rows } = await sql<{ project_id: string }>`
    select distinct project_id from deploys where ${isUnendedBuild}
    group by project_id, ${isFetch}
    having count(turn_at) < ${capOf(permits, isFetch)}
      and bool_or(turn_at is null and (fetch_after is null or fetch_after <= ${now}) and not exists (
        select from deploys earlier
        where earlier.project_id = deploys.project_id and earlier.site_id = deploys.site_id and earlier.seq < deploys.seq
          and earlier.status in ('queued', 'building') and earlier.manifest_sha256 is null))`.execute(db)
  return rows.map((row) => row.project_id)
}

/** Counts the deploys that have not ended, by their state. */
export function countUnendedDeploys(db: Db) {
  return db
    .selectFrom('deploys')
    .select(['source_kind', 'status'])
    .select((eb) => [
      eb('manifest_sha256', 'is', null).as('is_build'),
      eb('turn_at', 'is not', null).as('has_permit'),
      eb.fn.countAll<number>().as('count'),
      eb.fn.min('created_at').as('oldest'),
    ])
    .where('status', 'in', ['queued', 'building'])
    .groupBy(['source_kind', 'status', 'is_build', 'has_permit'])
    .execute()
}
