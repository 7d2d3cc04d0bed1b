import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type DatabaseClock, openDatabaseClock } from '../../infra/db/clock.ts'
import { databaseTime, type OpenedDatabase, openDatabase } from '../../infra/db/database.ts'
import { isDatabaseAway } from '../../infra/db/errors.ts'
import { createDatabase, type TestDatabase } from '../database.ts'

const hourMs = 3_600_000
const warn = vi.fn()

let database: TestDatabase
let opened: OpenedDatabase
beforeEach(async () => {
  database = await createDatabase()
  opened = openDatabase(database.url)
})
afterEach(async () => {
  vi.useRealTimers()
  warn.mockReset()
  await opened[Symbol.asyncDispose]()
  await database[Symbol.asyncDispose]()
})

const shift = (ms: number) => vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms })
const behindMs = async ({ clock }: DatabaseClock) => {
  const told = clock().getTime()
  return (await databaseTime(opened.db)).getTime() - told
}

test.each([25 * hourMs, -25 * hourMs])(
  '27: the time is that of PostgreSQL when the clock of the process is %i ms ahead',
  async (aheadMs) => {
    shift(aheadMs)
    await using clock = await openDatabaseClock(opened.db, { warn })
    expect(await behindMs(clock)).toBeGreaterThanOrEqual(0)
    expect(await behindMs(clock)).toBeLessThan(5000)
    expect(Math.abs((clock.skewMs() ?? 0) - aheadMs)).toBeLessThan(5000)
    expect(warn).toHaveBeenCalledOnce()
  },
)

test('27: the time goes on as before when the clock of the machine is set', async () => {
  await using clock = await openDatabaseClock(opened.db, { warn })
  shift(25 * hourMs)
  expect(Math.abs(await behindMs(clock))).toBeLessThan(5000)
})

test('27: while PostgreSQL has never answered there is no time, as if a query had failed', async () => {
  await database.forbidConnections(true)
  await using clock = await openDatabaseClock(opened.db, { warn })
  const told = () => {
    try {
      return clock.clock()
    } catch (error) {
      return error
    }
  }
  expect(isDatabaseAway(told())).toBe(true)
  await database.forbidConnections(false)
  await expect.poll(told).toBeInstanceOf(Date)
})
