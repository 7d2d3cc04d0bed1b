import { sql } from 'kysely'
import { maxMessageRefusals, messagePauseMs } from '../core/message-retries.ts'
import type { Db } from '../infra/db/database.ts'
import { jsonb } from '../infra/db/jsonb.ts'
import type { RegisteredSignal, RegisteredStart } from '../workflows/contract/workflows.ts'
import type { Services } from './services.ts'
import { type Tx, transact } from './transact.ts'

// The messages to Temporal that their transactions have committed: starts of workflows, and signals. A relay sends them, and deletes what
// Temporal has accepted. A message that Temporal cannot accept is sent again after growing pauses, behind those that were never sent, and in the
// end it is dead: kept for the operator, who can have it sent again. A signal waits for the start of its workflow while that is alive; without
// one it is sent, and is lost, which is harmless: it says "look again", and a workflow looks when it starts.

/** Writes the start of a workflow in the transaction of its cause; the relay starts it after the commit. Repeating an id changes nothing. */
export async function startWorkflow(tx: Tx, start: RegisteredStart): Promise<void> {
  await tx
    .insertInto('workflow_starts')
    .values({ workflow_id: start.workflow_id, message: jsonb<unknown>(start) })
    .onConflict((conflict) => conflict.column('workflow_id').where('signal', 'is', null).doNothing())
    .execute()
  tx.afterCommit(tx.wakeRelay)
}

/** Writes signals to workflows in the transaction of their cause; the relay sends each after the commit, perhaps twice. */
export async function signalWorkflows(tx: Tx, signals: readonly RegisteredSignal[]): Promise<void> {
  if (signals.length === 0) return
  await tx
    .insertInto('workflow_starts')
    .values(signals.map((one) => ({ workflow_id: one.workflow_id, signal: one.signal, message: jsonb<unknown>(one) })))
    .execute()
  tx.afterCommit(tx.wakeRelay)
}

export interface LockedMessage {
  readonly id: string
  readonly workflow_id: string
  readonly message: unknown
  /** How often Temporal has refused it. */
  readonly attempts: number
}

/** Locks up to `limit` messages that are due and that no other relay holds: first those that were never sent, the oldest first. */
export async function lockWorkflowMessages(tx: Db, limit: number): Promise<readonly LockedMessage[]> {
  return await tx
    .selectFrom('workflow_starts')
    .select(['id', 'workflow_id', 'message', 'attempts'])
    .where('dead_at', 'is', null)
    .where('next_attempt_at', '<=', sql<Date>`now()`)
    .where((eb) =>
      eb.or([
        eb('signal', 'is', null),
        eb.not(
          eb.exists(
            eb
              .selectFrom('workflow_starts as start')
              .select('start.id')
              .whereRef('start.workflow_id', '=', 'workflow_starts.workflow_id')
              .where('start.signal', 'is', null)
              .where('start.dead_at', 'is', null),
          ),
        ),
      ]),
    )
    .orderBy(hasFailed)
    .orderBy('next_attempt_at')
    .limit(limit)
    .forUpdate()
    .skipLocked()
    .execute()
}

const hasFailed = sql<boolean>`(last_error is not null)`

export async function deleteWorkflowMessages(tx: Db, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await tx.deleteFrom('workflow_starts').where('id', 'in', ids).execute()
}

/** A message that was not accepted. */
export interface FailedMessage extends Pick<LockedMessage, 'id' | 'attempts'> {
  /** Why. It is shown to the operator. */
  readonly error: string
  /** Whether Temporal has refused the message itself, so that it may never accept it. False while Temporal is away. */
  readonly refused: boolean
}

/** Postpones messages that were not accepted. Returns the ids of those that are dead now. */
export async function postponeMessages(tx: Db, failed: readonly FailedMessage[]): Promise<string[]> {
  if (failed.length === 0) return []
  const rows = failed.map(({ id, attempts, error, refused }) => {
    const refusals = attempts + (refused ? 1 : 0)
    return { id, refusals, error, pauseMs: messagePauseMs(refused ? refusals : 0, Math.random()) }
  })
  const column = <Name extends keyof (typeof rows)[number]>(name: Name) => rows.map((row) => row[name])
  const updated = await sql<{ id: string; dead: boolean }>`
    update workflow_starts set
      attempts = failed.refusals,
      last_error = failed.error,
      next_attempt_at = clock_timestamp() + failed.pause_ms * interval '1 millisecond',
      dead_at = case when failed.refusals >= ${maxMessageRefusals} then clock_timestamp() end
    from unnest(${column('id')}::uuid[], ${column('refusals')}::int[], ${column('error')}::text[], ${column('pauseMs')}::float8[])
      as failed (id, refusals, error, pause_ms)
    where workflow_starts.id = failed.id
    returning workflow_starts.id, dead_at is not null as dead`.execute(tx)
  const dead = updated.rows.filter((row) => row.dead).map((row) => row.id)
  // of the dead signals of a workflow, one is enough to send again
  if (dead.length > 0) {
    await sql`
      delete from workflow_starts as earlier using workflow_starts as later
      where later.id = any(${dead}::uuid[]) and earlier.workflow_id = later.workflow_id and earlier.id < later.id
        and earlier.signal = later.signal and earlier.dead_at is not null`.execute(tx)
  }
  return dead
}

/** The workflows among these whose start has not been accepted: it waits for the relay, or it is dead. */
export async function unsentStarts(db: Db, workflowIds: readonly string[]): Promise<Map<string, 'waiting' | 'dead'>> {
  if (workflowIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('workflow_starts')
    .select(['workflow_id', 'dead_at'])
    .where('workflow_id', 'in', workflowIds)
    .where(sql<boolean>`(signal is null or message ? 'start')`)
    // one that waits comes last and counts
    .orderBy('dead_at')
    .execute()
  return new Map(rows.map(({ workflow_id, dead_at }) => [workflow_id, dead_at ? 'dead' : 'waiting']))
}

/** The number of messages that wait for the relay, with the age of the oldest, and the number of dead ones. */
export function countMessages(db: Db): Promise<{ waiting: number; oldest: Date | null; dead: number }> {
  return db
    .selectFrom('workflow_starts')
    .select((eb) => [
      eb.fn.countAll<number>().filterWhere('dead_at', 'is', null).as('waiting'),
      eb.fn.min('created_at').filterWhere('dead_at', 'is', null).as('oldest'),
      eb.fn.countAll<number>().filterWhere('dead_at', 'is not', null).as('dead'),
    ])
    .executeTakeFirstOrThrow()
}

/** The number of dead messages. */
export async function countDeadMessages(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('workflow_starts')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('dead_at', 'is not', null)
    .executeTakeFirstOrThrow()
  return count
}

/** Lists messages that Temporal has not accepted at the first attempt; the dead ones first, then those that have failed most often. */
export function listFailedMessages(db: Db, { limit, dead }: { readonly limit: number; readonly dead?: boolean | undefined }) {
  return db
    .selectFrom('workflow_starts')
    .select(['id', 'workflow_id', 'signal', 'attempts', 'last_error', 'created_at', 'next_attempt_at', 'dead_at'])
    .where(hasFailed)
    .$if(dead !== undefined, (query) => query.where('dead_at', dead ? 'is not' : 'is', null))
    .orderBy('dead_at', (order) => order.desc().nullsLast())
    .orderBy('attempts', 'desc')
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Has dead messages sent again, as if they were new: one, or all. Returns how many. */
export function retryDeadMessages(services: Pick<Services, 'db' | 'relay' | 'log'>, id: string | undefined): Promise<number> {
  return transact(services, async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable('workflow_starts')
      .set({ attempts: 0, last_error: null, next_attempt_at: sql<Date>`now()`, dead_at: null })
      .where('dead_at', 'is not', null)
      .$if(id !== undefined, (query) => query.where('id', '=', id ?? ''))
      .executeTakeFirstOrThrow()
    const messages = Number(numUpdatedRows)
    tx.afterCommit(tx.wakeRelay)
    tx.afterCommit(() => services.log.info({ messages }, 'dead workflow messages sent again'))
    return messages
  })
}
