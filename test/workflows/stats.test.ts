import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'

let w: World
let connection: Connection
let temporal: Client
beforeAll(async () => {
  w = await world()
  connection = await Connection.connect({ address: w.temporal.address })
  temporal = new Client({ connection, namespace: w.temporal.namespace })
})
afterAll(async () => {
  await connection?.close()
  await w?.[Symbol.asyncDispose]()
})

test('K02: the roll-up forgets the visitors of past days, and says so to operators', async () => {
  const keys = [1, 2, 3].map((n) => ({ day: '2026-01-01', key: Buffer.alloc(12, n) }))
  await w.db.insertInto('traffic_seen').values(keys).execute()
  await w.db.insertInto('visitor_salts').values({ day: '2026-01-01', sealed_salt: 'old' }).execute()
  const handle = await temporal.workflow.start('rollUpStats', { taskQueue: 'control', workflowId: 'roll-up-stats-1' })
  const outcome = 'forgot 3 keys of visitors, rolled up 0 days of sites, deleted 0'
  expect(await handle.result()).toBe(outcome)
  expect((await handle.describe()).memo).toEqual({ outcome })
  const days = (await w.db.selectFrom('visitor_salts').select('day').execute()).map(({ day }) => day)
  expect(days).not.toContain('2026-01-01')
  record(w.temporal, handle.workflowId, 'roll-up-stats')
  await replay(await handle.fetchHistory())
})

describeHistories(/^roll-up-stats.*\.json$/, ['roll-up-stats'])
