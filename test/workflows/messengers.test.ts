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

const register = (workflowId: string): Promise<unknown> =>
  temporal.workflow.execute('registerMessengers', { taskQueue: 'control', workflowId })

test('E37: the platform tells each messenger where its webhook is, with secrets that stay the same', async () => {
  expect(await register('register-messengers-1')).toBe('telegram calls its webhook, max calls its webhook')
  record(w.temporal, 'register-messengers-1', 'register-messengers')
  await replay(await temporal.workflow.getHandle('register-messengers-1').fetchHistory())
  const { telegram, max } = w
  const { base } = w.config.urls
  expect([telegram.webhook?.url, max.webhook?.url]).toEqual([
    expect.stringMatching(new RegExp(`^${base}/hooks/telegram/[\\w-]{43}$`)),
    expect.stringMatching(new RegExp(`^${base}/hooks/max/[\\w-]{43}$`)),
  ])
  const secrets = [telegram, max].flatMap(({ webhook }) => [webhook?.secret, webhook?.url.split('/').at(-1)])
  expect(new Set(secrets).size).toBe(4)
  const before = [telegram.webhook, max.webhook]
  await register('register-messengers-2')
  expect([telegram.webhook, max.webhook]).toEqual(before)
})

test('E37: a messenger that is away keeps the other one from nothing', async () => {
  w.telegram.fault = 'broken'
  w.max.webhook = undefined
  expect(await register('register-messengers-3')).toBe('telegram did not take its webhook, max calls its webhook')
  expect(w.max.webhook).toBeDefined()
})

describeHistories(/^register-messengers.*\.json$/, ['register-messengers'])
