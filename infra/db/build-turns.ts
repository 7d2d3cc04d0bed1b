import { sql } from 'kysely'
import type { Db, Tx } from './database.ts'
import type { DeployRun } from './deploy-runs.ts'

// A build's turn: PostgreSQL hands it to the build queue. Builds of a site go one after another in the order in which they were
// accepted, and a project has a number of them handed out at once. Every function that gives turns needs the project's lock.

/** A deploy whose build waits or runs. Stored files have their manifest from the start, the source of a git deploy comes with its turn. */
const isUnendedBuild = sql<boolean>`status in ('queued', 'building') and manifest_sha256 is null`

/** Gives the project's free turns to the builds that wait longest; answers those that got one. */
export async function grantTurns(
  tx: Tx,
  projectId: string,
  cap: number,
  now: Date,
): Promise<{ deploy_id: string; attempt: number }[]> {
  const { rows } = await sql<{ deploy_id: string; attempt: number }>`
    with unended as (
      select id, site_id, seq, turn_at, created_at from deploys where project_id = ${projectId} and ${isUnendedBuild}
    ), first_of_site as (
      select distinct on (site_id) id, turn_at, created_at from unended order by site_id, seq
    )
    update deploys set turn_at = ${now}
    where id in (
      select id from first_of_site where turn_at is null order by created_at, id
      limit greatest(0, ${cap} - (select count(*) from unended where turn_at is not null))
    )
    returning id as deploy_id, attempt`.execute(tx)
  return rows
}

/** Why a build waits: the builds of its site before it, and how many of its project are handed out. */
export interface TurnState {
  readonly has_turn: boolean
  readonly earlier: number
  /** The number of the first of the earlier ones; null when there is none. */
  readonly first_earlier_seq: number | null
  readonly handed_out: number
}

/** Undefined when the run does not own the deploy, or it has ended. */
export async function findTurn(tx: Tx, run: DeployRun): Promise<TurnState | undefined> {
  const { rows } = await sql<TurnState>`
    select
      own.turn_at is not null as has_turn,
      count(*) filter (where other.site_id = own.site_id and other.seq < own.seq) as earlier,
      min(other.seq) filter (where other.site_id = own.site_id and other.seq < own.seq) as first_earlier_seq,
      count(*) filter (where other.turn_at is not null) as handed_out
    from deploys own
    join (select project_id, site_id, seq, turn_at from deploys where ${isUnendedBuild}) other using (project_id)
    where own.id = ${run.deploy_id} and own.attempt = ${run.attempt} and own.run_id = ${run.run_id}
      and own.status in ('queued', 'building')
    group by own.id`.execute(tx)
  return rows[0]
}

/** Projects that have a turn free and a build without one: a turn may have been lost. */
export async function listProjectsWithFreeTurns(db: Db, cap: number): Promise<string[]> {
  const { rows } = await sql<{ project_id: string }>`
    select project_id from deploys where ${isUnendedBuild}
    group by project_id
    having count(turn_at) < ${cap}
      and bool_or(turn_at is null and not exists (
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
