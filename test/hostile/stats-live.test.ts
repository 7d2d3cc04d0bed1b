import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openEvents } from '../api/event-stream.ts'
import { makeSite } from '../make.ts'
import { type World, world } from '../world.ts'
import { type KillablePostgres, startKillablePostgres } from './killable-postgres.ts'

// A live view over crashes of PostgreSQL.

const stack = new AsyncDisposableStack()
let postgres: KillablePostgres
let w: World
beforeAll(async () => {
  postgres = stack.use(await startKillablePostgres())
  const { url } = postgres
  // the server ends with its only database
  const forbidConnections = () => Promise.reject(new Error('not here'))
  const database = { url, forbidConnections, [Symbol.asyncDispose]: () => Promise.resolve() }
  w = stack.use(await world({ worker: false, database, liveTiming: { pollMs: 50, recheckMs: 100, maxAgeMs: 3_600_000 } }))
})
afterAll(() => stack.disposeAsync())

test('E38: live views go on after PostgreSQL was killed under them, and those that begin while it is away are refused', async () => {
  const owner = await w.project('free')
  const { id } = await makeSite(w, owner)
  const open = () => openEvents(`${w.base}/api/v1/sites/${id}/stats/live`, { authorization: `Bearer ${owner.key}` })
  const visit = () =>
    w.db
      .insertInto('live_visitors')
      .values({ site_id: id, visitor: randomBytes(12), seen_at: w.clock() })
      .execute()
  const streams = await Promise.all([open(), open(), open()])
  const nobody = { event: 'live', data: { visitors: 0, paths: [] } }
  for (const stream of streams) expect(await stream.next()).toMatchObject(nobody)
  for (let crash = 1; crash <= 3; crash++) {
    const back = postgres.crash(2000)
    const refused: number[] = []
    const asking = (async () => {
      for (
        let isBack = false;
        !isBack;
        isBack = await Promise.race([
          back.then(() => true),
          new Promise<false>((resolve) => setTimeout(() => resolve(false), 200)),
        ])
      ) {
        const stream = await open()
        refused.push(stream.response.status)
        stream.leave()
      }
    })()
    await Promise.all([back, asking])
    expect(refused.filter((status) => ![200, 503].includes(status))).toEqual([])
    expect(refused).toContain(503)
    // the tables of the live view are not logged, so that a crash empties them
    await visit()
    for (const stream of streams) {
      let event = await stream.next()
      if (event?.data.visitors === 0) event = await stream.next()
      expect(event).toMatchObject({ event: 'live', data: { visitors: 1 } })
    }
  }
  const again = await open()
  expect(await again.next()).toMatchObject({ event: 'live', data: { visitors: 1 } })
  for (const stream of [...streams, again]) stream.leave()
})
