import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { conflict, unavailable } from '../../core/errors.ts'
import { transact } from '../../services/transact.ts'
import { activityBorder } from '../../workflows/activity-border.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import { operatorToken, type World, world } from '../world.ts'

let w: World
beforeAll(async () => {
  w = await world({ worker: false })
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  await w.db.deleteFrom('stuck_activities').execute()
})

/** One attempt of an activity. */
async function run(attempt: number, work: () => Promise<unknown>): Promise<unknown> {
  const info = {
    attempt,
    activityId: '3',
    activityType: 'finishBuild',
    workflowExecution: { workflowId: 'deploy:x:1', runId: 'r' },
  }
  const context = { info, cancellationSignal: new AbortController().signal }
  const { inbound } = activityBorder(w)(context as never)
  return await inbound?.execute?.({ args: [], headers: {} }, work)
}
const failing = (attempt: number, error: unknown) => run(attempt, () => Promise.reject(error)).catch((thrown: unknown) => thrown)
const stuck = async () => (await w.call('GET /operator/v1/stuck-activities', { key: operatorToken })).body

/** The error of a statement that PostgreSQL refuses, as an activity gets it. */
const refused = (errcode: string) =>
  transact(w, (tx) => sql.raw(`do $$ begin raise exception 'x' using errcode = '${errcode}'; end $$`).execute(tx)).catch(
    (error: unknown) => error,
  )

describe('a failure', () => {
  test.each([
    ['data that does not fit', () => refused('22P05'), 'database'],
    ['a constraint', () => refused('23514'), 'database'],
    ['a missing table', () => refused('42P01'), 'database'],
    ['a value that is too large for an index', () => refused('54000'), 'database'],
    ['a refusal of the platform', async () => conflict('no'), 'conflict'],
    ['a wrong program', async () => new TypeError('x is not a function'), 'bug'],
  ])('because of %s is final from the third attempt on', async (_what, make, type) => {
    const error = await make()
    expect(await failing(2, error)).toBe(error)
    expect(await failing(3, error)).toMatchObject({ type, nonRetryable: true })
    expect(await failing(30, error)).toMatchObject({ type, nonRetryable: true })
    expect(await stuck()).toEqual([])
  })

  test.each([
    ['PostgreSQL that restarts', () => refused('57P01')],
    ['a deadlock', () => refused('40P01')],
    ['a full disk', () => refused('53100')],
    ['a lock that is held', () => refused('55P03')],
    ['a statement that took too long', () => refused('57014')],
    ['something that is away', async () => unavailable('later')],
    ['a server that does not answer', async () => new TypeError('fetch failed', { cause: new Error('ECONNREFUSED') })],
    ['anything else', async () => new Error('other')],
  ])('because of %s is retried', async (_what, make) => {
    const error = await make()
    expect(await failing(30, error)).toBe(error)
  })
})

describe('an activity that has failed more than ten times', () => {
  const error = new Error('the first line\nthe second')

  test('is shown to the operator with its latest error, until it succeeds', async () => {
    await failing(10, error)
    expect(await stuck()).toEqual([])
    await failing(11, error)
    await failing(12, error)
    const shown = { workflow_id: 'deploy:x:1', activity: 'finishBuild', attempts: 12, error: 'Error: the first line' }
    expect(await stuck()).toEqual([{ ...shown, first_failed_at: expect.any(String), last_failed_at: expect.any(String) }])
    expect((await w.call('GET /metrics', { key: operatorToken })).body).toContain('plinth_stuck_activities 1')
    expect(await run(13, async () => 'done')).toBe('done')
    expect(await stuck()).toEqual([])
  })

  test('is shown until its failure is final', async () => {
    await failing(11, error)
    await failing(12, ApplicationFailure.nonRetryable('no'))
    expect(await stuck()).toEqual([])
  })

  test('is shown until its workflow has ended', async () => {
    await failing(11, error)
    await reconcile(w, w.workflows, new Date(), { stalledAfterMs: 0, dueWithinMs: 0, checkIntervalMs: 1000, retryPauseMs: 1000 })
    expect(await stuck()).toEqual([])
  })

  test('is not shown when that is expected', async () => {
    await failing(11, ApplicationFailure.create({ message: 'waits', category: ApplicationFailureCategory.BENIGN }))
    expect(await stuck()).toEqual([])
  })
})
