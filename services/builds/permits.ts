import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import { permitSignal } from '../../workflows/contract/deploys.ts'
import type { DeployRun } from '../deploys/runs.ts'
import { withProject, withProjectOfDeploy } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { signalWorkflows } from '../workflow-messages.ts'

// A build waits for a permit that PostgreSQL gives. Builds of a site go one after another in the order in which they were accepted, and
// a project has a number of permits. What has no source yet asks for a permit to fetch it, which it gives back with the source, and
// when the repository is away; with its source it asks for a permit to build. Neither kind waits for the other: a repository that does
// not answer keeps no other site from building. A worker fetches few repositories at once, so while another project fetches or waits for it,
// a project gets one permit to fetch. Every function that gives permits needs the project's lock.

/** How many permits of each kind a project has. */
interface Permits {
  readonly builds: number
  /** While no other project has a repository to fetch; then it is one. */
  readonly fetches: number
}

/** So that a repository that does not answer holds up no other site of its project, as long as no other project fetches. */
const fetchesPerProject = 2

const permitsOf = ({ config }: Services): Permits => ({ builds: config.build.perProject, fetches: fetchesPerProject })

/**
 * Gives the free permits of a project to its waiting builds and signals their workflows, besides the one of `asking`, which asks by itself.
 * The caller holds the project's lock.
 */
export async function givePermits(
  tx: Tx,
  services: Services,
  { project_id, now, asking }: { readonly project_id: string; readonly now: Date; readonly asking?: string },
): Promise<void> {
  const granted = await grantTurns(tx, project_id, permitsOf(services), now, asking ?? null)
  await signalWorkflows(tx, granted.filter((deploy) => deploy.deploy_id !== asking).map(permitSignal))
}

/** Gives the permits that nobody uses, of every project: one may have been lost. */
export async function giveFreePermits(services: Services, now: Date): Promise<void> {
  for (const project_id of await listProjectsWithFreeTurns(services.db, permitsOf(services), now)) {
    await withProject(services, project_id, (tx) => givePermits(tx, services, { project_id, now }))
  }
}

/** Asks for the permit of a deploy. Undefined when the run does not own the deploy, or it has ended. May be repeated. */
export function requestPermit(services: Services, run: DeployRun): Promise<TurnState | undefined> {
  return withProjectOfDeploy(services, run.deploy_id, async (tx, { id: project_id }) => {
    await givePermits(tx, services, { project_id, now: services.clock(), asking: run.deploy_id })
    return await findTurn(tx, run)
  })
}

/** A deploy whose build waits or runs. Stored files have their manifest from the start. */
const isUnendedBuild = sql<boolean>`status in ('queued', 'building') and manifest_sha256 is null`
const isFetch = sql<boolean>`source_sha256 is null`
const capOf = ({ builds, fetches }: Permits, kind: RawBuilder<boolean>) =>
  sql<number>`case when ${kind} then ${fetches}::bigint else ${builds}::bigint end`

/**
 * Gives the project's free permits to the builds that wait longest; answers those that got one.
 * @param asking a deploy that asks by itself: its pause before the next fetch is over
 */
async function grantTurns(
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

/** Why a build waits: the builds of its site before it, and how many of its project have what it waits for. */
export interface TurnState {
  readonly has_turn: boolean
  /** It waits to fetch its source, else to build it. */
  readonly is_fetch: boolean
  readonly earlier: number
  /** The number of the first of the earlier ones; null when there is none. */
  readonly first_earlier_seq: number | null
  readonly handed_out: number
}

/** Undefined when the run does not own the deploy, or it has ended. */
async function findTurn(tx: Tx, run: DeployRun): Promise<TurnState | undefined> {
  const { rows } = await sql<TurnState>`
    select
      own.turn_at is not null as has_turn,
      own.source_sha256 is null as is_fetch,
      count(*) filter (where other.site_id = own.site_id and other.seq < own.seq) as earlier,
      min(other.seq) filter (where other.site_id = own.site_id and other.seq < own.seq) as first_earlier_seq,
      count(*) filter (where other.turn_at is not null and other.is_fetch = (own.source_sha256 is null)) as handed_out
    from deploys own
    join (select project_id, site_id, seq, turn_at, ${isFetch} as is_fetch from deploys where ${isUnendedBuild}) other
      using (project_id)
    where own.id = ${run.deploy_id} and own.attempt = ${run.attempt} and own.run_id = ${run.run_id}
      and own.status in ('queued', 'building')
    group by own.id`.execute(tx)
  return rows[0]
}

/** Projects that have a permit free and a build without one: a permit may have been lost. */
async function listProjectsWithFreeTurns(db: Db, permits: Permits, now: Date): Promise<string[]> {
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

/** Unended deploys by what they wait for. */
export function countUnendedDeploys(db: Db) {
  return db
    .selectFrom('deploys')
    .select(['source_kind', 'status'])
    .select((eb) => [
      eb('manifest_sha256', 'is', null).as('is_build'),
      eb('turn_at', 'is not', null).as('has_turn'),
      eb.fn.countAll<number>().as('count'),
      eb.fn.min('created_at').as('oldest'),
    ])
    .where('status', 'in', ['queued', 'building'])
    .groupBy(['source_kind', 'status', 'is_build', 'has_turn'])
    .execute()
}
