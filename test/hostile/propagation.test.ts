import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Logger } from '../../infra/log.ts'
import { activateDeploy } from '../../services/deploys/activate.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import type { TestProject, World } from '../world.ts'
import { report } from './platform.ts'
import { p99, quantile, type TwoEdges, worldOfTwoEdges } from './two-edges.ts'

const changes = 200
const unannounced = 20
/** The target is 300 ms; a poll is five seconds away, so this bound tells a notification from a poll on a slow machine as well. */
const longestMs = 1500
const pollMs = 5000

let w: World
let project: TestProject
let edges: TwoEdges
const stack = new AsyncDisposableStack()
beforeAll(async () => {
  ;({ w, project, edges } = stack.use(await worldOfTwoEdges()))
})
afterAll(() => stack.disposeAsync())

test('10: an activation is served by both edges at once', async () => {
  const { id, subdomain } = await makeSite(w, project)
  const sides = []
  for (const content of ['side 0', 'side 1']) sides.push((await deployFiles(w, project, id, [page(content)])).id)
  const took: number[] = []
  for (let i = 0; i < changes; i++) {
    const committed = Promise.withResolvers<void>()
    // the first line of the log after the commit
    const log: Logger = Object.create(w.log, { info: { value: () => committed.resolve() } })
    const activation = activateDeploy({ ...w, log }, sides[i % 2] ?? '')
    await Promise.race([committed.promise, activation])
    took.push(await edges.shown(subdomain, ({ body }) => body.includes(`side ${i % 2}`)))
    await activation
  }
  const figure = `p50 ${quantile(took, 0.5)} ms, p99 ${p99(took)} ms after the commit, ${changes} activations, two edges`
  report('10', figure, '300 ms')
  expect(p99(took)).toBeLessThan(longestMs)
})

test('10: a change whose notification was lost is served by both edges after the next poll', async () => {
  const sites: { id: string; subdomain: string }[] = []
  for (let i = 0; i < unannounced; i++) sites.push(await makeSite(w, project))
  const took = await Promise.all(
    sites.map(async ({ id, subdomain }, i) => {
      // at different times before the next poll
      await pause((i * pollMs) / unannounced)
      const silent = sql`version = version + 1, route_changed_at = clock_timestamp()`
      await sql`update sites set enabled = false, ${silent} where id = ${id}`.execute(w.db)
      return await edges.shown(subdomain, ({ status }) => status === 503)
    }),
  )
  report('10', `p99 ${p99(took)} ms without a notification, ${unannounced} changes, two edges`, '5300 ms')
  expect(p99(took)).toBeLessThan(pollMs + longestMs)
})
