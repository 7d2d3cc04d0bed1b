import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { type KyselyPlugin, sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFreshness } from '../../services/feeds/freshness.ts'
import { openTwoEdges, type TwoEdges } from '../hostile/two-edges.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

let w: World
let project: TestProject
const stack = new AsyncDisposableStack()
beforeAll(async () => {
  w = stack.use(await world({ env: { PLINTH_ALLOW_PRIVATE_WEBHOOKS: 'true' } }))
  project = await w.project('enterprise')
})
afterAll(() => stack.disposeAsync())

interface TwoSided {
  readonly id: string
  readonly subdomain: string
  /** The ids of two deploys, whose pages are `side 0` and `side 1`; the second is live. */
  readonly sides: readonly string[]
}

async function twoSidedSite(): Promise<TwoSided> {
  const { id, subdomain } = await makeSite(w, project)
  const sides: string[] = []
  for (const content of ['side 0', 'side 1']) sides.push((await deployFiles(w, project, id, [page(content)])).id)
  return { id, subdomain, sides }
}

async function activate({ sides }: TwoSided, side: number): Promise<void> {
  const { status, body } = await w.call(`POST /api/v1/deploys/${sides[side]}/activate`, { key: project.key })
  expect([status, body.status]).toEqual([200, 'active'])
}

/** Activates a side and answers after how many milliseconds the answer came. */
async function timed(site: TwoSided, side: number): Promise<number> {
  const startedAt = performance.now()
  await activate(site, side)
  return performance.now() - startedAt
}

/** An activation nobody has waited for, as another process may have made it. */
async function activateQuietly({ id, sides }: TwoSided, side: number): Promise<void> {
  await w.db.transaction().execute(async (tx) => {
    const at = new Date()
    await tx.updateTable('deploys').set({ status: 'superseded' }).where('site_id', '=', id).execute()
    const live = { status: 'active', activated_at: at } as const
    await tx
      .updateTable('deploys')
      .set(live)
      .where('id', '=', sides[side] ?? '')
      .execute()
    const changed = sql`active_deploy_id = ${sides[side]}, version = version + 1, route_changed_at = clock_timestamp()`
    await sql`update sites set ${changed} where id = ${id}`.execute(tx)
    await sql`select pg_notify('routes', ${id}::text || ':')`.execute(tx)
  })
}

/** Holds up the edges: their next read ends after so many milliseconds, or later. Returns once it is certain. */
async function holdUpEdges(ms: number): Promise<{ readonly over: Promise<void> }> {
  const held = Promise.withResolvers<void>()
  const over = w.db.transaction().execute(async (tx) => {
    await sql`lock table delivery_pages in access exclusive mode`.execute(tx)
    held.resolve()
    await pause(ms)
  })
  await Promise.race([held.promise, over])
  return { over }
}

/** A second process as far as waiting goes, which counts its statements. A single one means that it has not waited. */
function countedFreshness() {
  const counted = { statements: 0 }
  const counter: KyselyPlugin = {
    transformQuery({ node }) {
      counted.statements += 1
      return node
    },
    transformResult: ({ result }) => Promise.resolve(result),
  }
  return Object.assign(counted, createFreshness({ ...w, db: w.db.withPlugin(counter) }))
}

/** How many statements a reader of the deploy needs right after its activation. */
async function statementsAfter(site: TwoSided, side: number): Promise<number> {
  const freshness = countedFreshness()
  await activateQuietly(site, side)
  await freshness.untilServed([{ ...justActivated(site, side), activated_at: new Date() }])
  return freshness.statements
}

const justActivated = ({ id, sides }: TwoSided, side: number) =>
  ({ id: sides[side] ?? '', site_id: id, status: 'active', activated_at: new Date() }) as const

describe('while two edges run', () => {
  let edges: TwoEdges
  beforeAll(async () => {
    edges = await openTwoEdges(w)
  })
  afterAll(() => edges[Symbol.asyncDispose]())

  const shown = async ({ subdomain }: TwoSided) =>
    (await edges.askBoth(subdomain)).map(({ body }) => /side \d/.exec(body.toString())?.[0])

  test('10: after the answer of each of a hundred activations, both edges serve the new page at the first request', async () => {
    const site = await twoSidedSite()
    for (let i = 0; i < 100; i++) {
      await activate(site, i % 2)
      expect(await shown(site)).toEqual([`side ${i % 2}`, `side ${i % 2}`])
    }
  })

  test('10: the answer of an activation waits for edges that are behind', async () => {
    const site = await twoSidedSite()
    const { over } = await holdUpEdges(400)
    expect(await timed(site, 0)).toBeGreaterThan(300)
    expect(await shown(site)).toEqual(['side 0', 'side 0'])
    await over
  })

  const readings: [string, (site: TwoSided) => Promise<unknown>][] = [
    ['a deploy', async ({ sides }) => (await w.call(`GET /api/v1/deploys/${sides[0]}`, { key: project.key })).body.status],
    [
      'the list of deploys',
      async ({ id, sides }) => {
        const { body } = await w.call(`GET /api/v1/sites/${id}/deploys`, { key: project.key })
        return body.find((one: { id: string }) => one.id === sides[0]).status
      },
    ],
    [
      'a deploy with a tool',
      async ({ sides }) => (await w.tool('get_deploy_status', { deploy_id: sides[0] }, project.key)).structuredContent.status,
    ],
    ['a log', async ({ sides }) => (await w.call(`GET /api/v1/deploys/${sides[0]}/logs`, { key: project.key })).body.status],
    [
      'the events of a log',
      async ({ sides }) => {
        const headers = { authorization: `Bearer ${project.key}` }
        const events = await fetch(`${w.base}/api/v1/deploys/${sides[0]}/logs?follow=true`, { headers })
        return /"status":"(\w+)"/.exec(await events.text())?.[1]
      },
    ],
  ]
  test.each(readings)('10: who reads that %s is active gets its page from edges that were behind', async (_what, read) => {
    const site = await twoSidedSite()
    const { over } = await holdUpEdges(400)
    await activateQuietly(site, 0)
    expect(await read(site)).toBe('active')
    expect(await shown(site)).toEqual(['side 0', 'side 0'])
    await over
  })

  test('10: a thousand readers of a deploy share the statements that look what the edges serve', async () => {
    const site = await twoSidedSite()
    const freshness = countedFreshness()
    const { over } = await holdUpEdges(400)
    await activateQuietly(site, 0)
    const deploy = justActivated(site, 0)
    await Promise.all(Array.from({ length: 1000 }, () => freshness.untilServed([deploy])))
    expect(await shown(site)).toEqual(['side 0', 'side 0'])
    expect(freshness.statements).toBeGreaterThan(1)
    expect(freshness.statements).toBeLessThan(100)
    await over
  })

  test('10: who has left waits no longer', async () => {
    const site = await twoSidedSite()
    const { over } = await holdUpEdges(700)
    await activateQuietly(site, 0)
    const deploy = justActivated(site, 0)
    const ended: string[] = []
    const stays = w.freshness.untilServed([deploy]).then(() => ended.push('stays'))
    const leaves = w.freshness.untilServed([deploy], () => AbortSignal.timeout(20)).then(() => ended.push('leaves'))
    await Promise.all([stays, leaves, over])
    expect(ended).toEqual(['leaves', 'stays'])
  })

  test('10: a webhook that says active is called when both edges serve the page', async () => {
    const site = await makeSite(w, project)
    const arrivals: { pages: boolean[] }[] = []
    const server = createServer(async (incoming, response) => {
      const { data } = JSON.parse(await text(incoming))
      const answers = await edges.askBoth(site.subdomain)
      if (data.site_id === site.id) arrivals.push({ pages: answers.map(({ body }) => body.includes(wanted)) })
      response.end()
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const json = { url, events: ['deploy.succeeded'], site_id: site.id }
    expect((await w.call('POST /api/v1/webhooks', { key: project.key, json })).status).toBe(200)
    let wanted = ''
    for (const content of ['first', 'second', 'third']) {
      wanted = content
      const before = arrivals.length
      const { over } = await holdUpEdges(500)
      await w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: project.key, json: { files: [page(content)] } })
      await expect.poll(() => arrivals.length).toBe(before + 1)
      expect(arrivals.at(-1)).toEqual({ pages: [true, true] })
      await over
    }
    server.closeAllConnections()
    server.close()
  })

  test('10: an edge that was killed is waited for while it counts as live, and no longer', async () => {
    const site = await twoSidedSite()
    const killed = { id: crypto.randomUUID() }
    await w.db
      .insertInto('edges')
      .values({ ...killed, seen_at: new Date() })
      .execute()
    expect(await timed(site, 0)).toBeGreaterThan(900)
    const tenSecondsAgo = new Date(Date.now() - 10_000)
    await w.db.updateTable('edges').set({ seen_at: tenSecondsAgo }).where('id', '=', killed.id).execute()
    await activate(site, 1)
    expect(await shown(site)).toEqual(['side 1', 'side 1'])
    await w.db.deleteFrom('edges').where('id', '=', killed.id).execute()
  })

  test('10: edges that PostgreSQL does not let acknowledge serve new deploys all the same, and nobody waits', async () => {
    const site = await twoSidedSite()
    await sql`alter table edge_acks rename to edge_acks_away`.execute(w.db)
    try {
      for (const side of [0, 1, 0]) {
        expect(await statementsAfter(site, side)).toBe(1)
        await expect.poll(() => shown(site)).toEqual([`side ${side}`, `side ${side}`])
      }
    } finally {
      await sql`alter table edge_acks_away rename to edge_acks`.execute(w.db)
    }
    for (const side of [1, 0, 1]) {
      await activate(site, side)
      expect(await shown(site)).toEqual([`side ${side}`, `side ${side}`])
    }
  })

  test('10: a deploy that was activated more than a second ago is read without asking what the edges serve', async () => {
    const site = await twoSidedSite()
    const freshness = countedFreshness()
    await freshness.untilServed([{ ...justActivated(site, 1), activated_at: new Date(Date.now() - 1001) }])
    expect(freshness.statements).toBe(0)
  })
})

test('10: without an edge nobody waits, and edges that have stopped leave nothing behind', async () => {
  expect(await w.db.selectFrom('edges').selectAll().execute()).toEqual([])
  expect(await w.db.selectFrom('edge_acks').selectAll().execute()).toEqual([])
  const site = await twoSidedSite()
  for (const side of [0, 1, 0, 1]) expect(await statementsAfter(site, side)).toBe(1)
})
