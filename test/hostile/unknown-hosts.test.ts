import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { gatePaths } from '../../core/visits.ts'
import { inParallel } from '../../infra/cas/files.ts'
import { type ClosedSite, makeClosedSite } from '../api/closed-site.ts'
import { newAddress } from '../api/form-site.ts'
import { type CountingDatabase, createCountingDatabase } from '../counting-database.ts'
import { ask } from '../edge/test-edge.ts'
import { type TestProject, type World, world } from '../world.ts'

const unknownHosts = 5000
const atOnce = 200

let database: CountingDatabase
let w: World
let site: ClosedSite
let edgePort: number
beforeAll(async () => {
  database = await createCountingDatabase()
  w = await world({ database, worker: false, edge: true, hostLookUpGapMs: 1000 })
  const owner: TestProject = await w.project('enterprise')
  site = await makeClosedSite(w, owner)
  edgePort = Number(new URL(w.config.urls.preview).port)
  await vi.waitFor(async () => expect((await w.visit(site.subdomain)).status).toBe(401), 10_000)
})
afterAll(() => w?.[Symbol.asyncDispose]())

/** What the processes do by themselves, without any request: the feeds of the edge, the relay of workflows, and the housekeeping of sessions. */
const anyText = /./
const findHosts = /as host from sites/
const findSite = /find_site_at/

test('45: 5,000 unknown hosts reach PostgreSQL at most once a second in all, and a known one is answered beside them', async () => {
  const executions = () => ({
    all: database.executions(anyText),
    hosts: database.executions(findHosts),
    sites: database.executions(findSite),
  })
  const before = executions()
  const startedAt = performance.now()
  const apiPort = Number(new URL(w.base).port)
  const statuses = new Map<string, number>()
  const count = (what: string, status: number) => statuses.set(`${what} ${status}`, (statuses.get(`${what} ${status}`) ?? 0) + 1)
  let visits = 0
  await inParallel(atOnce, Array(unknownHosts).keys(), async (i) => {
    const host = i % 2 ? `unknown-${i}.${w.config.urls.platformDomain}` : `unknown-${i}.example`
    const address = newAddress()
    const answers = [
      ask(apiPort, gatePaths.logout, { host, headers: { 'x-forwarded-for': address } }),
      ask(edgePort, '/', { host, headers: { 'x-forwarded-for': address } }),
    ]
    const [login, visit] = await Promise.all(answers)
    count('api', login?.status ?? 0)
    count('edge', visit?.status ?? 0)
    expect(await w.certificateOf(host)).toBeUndefined()
    if (i % 100 !== 0) return
    visits += 1
    count('known', (await ask(apiPort, gatePaths.logout, { host: site.host })).status)
  })
  const seconds = (performance.now() - startedAt) / 1000
  const after = executions()
  const hostLookUps = after.hosts - before.hosts
  const siteLookUps = after.sites - before.sites
  console.table([{ unknownHosts, seconds, hostLookUps, siteLookUps, 'of known ones': visits, all: after.all - before.all }])
  expect(Object.fromEntries(statuses)).toEqual({ 'api 404': unknownHosts, 'edge 404': unknownHosts, 'known 200': visits })
  expect(hostLookUps).toBeGreaterThan(0)
  expect(hostLookUps).toBeLessThanOrEqual(seconds + 2)
  expect(siteLookUps).toBe(visits)
})

test('45: a host that was unknown is answered as soon as a site has it', async () => {
  const host = 'later.example'
  const ask404 = () => ask(Number(new URL(w.base).port), gatePaths.logout, { host })
  expect((await ask404()).status).toBe(404)
  const at = new Date()
  const { id: site_id, project_id } = await w.db
    .selectFrom('sites')
    .select(['id', 'project_id'])
    .where('id', '=', site.id)
    .executeTakeFirstOrThrow()
  await w.db
    .insertInto('domains')
    .values({ project_id, site_id, domain: host, verification_token: 'x', verified_at: at, created_at: at })
    .execute()
  expect((await ask404()).status).toBe(200)
})
