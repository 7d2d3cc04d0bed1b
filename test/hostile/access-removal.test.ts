import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { required } from '../../infra/config.ts'
import { createVisits } from '../../infra/crypto/visits.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { report } from './platform.ts'
import { openTwoEdges, p99, type TwoEdges } from './two-edges.ts'

const removals = 100
const interrupted = 20
/** The target is a second; the next poll is five seconds away. */
const longestMs = 1500

let w: World
let project: TestProject
let edges: TwoEdges
const stack = new AsyncDisposableStack()
beforeAll(async () => {
  w = stack.use(await world())
  project = await w.project('enterprise')
  edges = stack.use(await openTwoEdges(w))
})
afterAll(() => stack.disposeAsync())

const call = (method: string, path: string, json?: object) =>
  w.call(`${method} /api/v1/sites/${path}`, { key: project.key, ...(json && { json }) })

interface ClosedSite {
  readonly id: string
  readonly subdomain: string
}

async function closedSite(): Promise<ClosedSite> {
  const site = await makeSite(w, project)
  await deployFiles(w, project, site.id, [page('inside')])
  expect((await call('POST', `${site.id}/access/email-mode`, {})).status).toBe(200)
  return site
}

/** Lets an address in, and answers its id and the cookie of its visit. */
async function visit({ id, subdomain }: ClosedSite, email: string) {
  expect((await call('POST', `${id}/access/emails`, { email })).status).toBe(200)
  const find = w.db.selectFrom('access_emails').select('id').where('site_id', '=', id).where('email', '=', email)
  const { id: subject } = await find.executeTakeFirstOrThrow()
  const lock = w.db.selectFrom('access_locks').select('epoch').where('site_id', '=', id)
  const { epoch } = await lock.executeTakeFirstOrThrow()
  const host = `${subdomain}.${w.config.urls.platformDomain}`
  const until = new Date(Date.now() + 3_600_000)
  const visits = createVisits(required(w.config.secretKey, 'PLINTH_SECRET_KEY'))
  return { subject, cookie: `svc_s=${visits.issue({ site_id: id, host, epoch }, { subject, generation: 0, consent: 0, until })}` }
}

/** How many milliseconds after the answer both edges have shut the visitor out. */
async function removed(site: ClosedSite, email: string, before: () => Promise<unknown>): Promise<number> {
  const { subject, cookie } = await visit(site, email)
  const isInside = ({ status, body }: { readonly status: number; readonly body: Buffer }) =>
    status === 200 && body.includes('inside')
  await edges.shown(site.subdomain, isInside, { cookie })
  await before()
  expect((await call('DELETE', `${site.id}/access/emails/${subject}`)).status).toBe(200)
  return await edges.shown(site.subdomain, ({ status }) => status === 401, { cookie })
}

test('E07: who is removed from the list is shut out by both edges at once', async () => {
  const site = await closedSite()
  const took: number[] = []
  for (let i = 0; i < removals; i++) took.push(await removed(site, `visitor-${i}@example.com`, () => Promise.resolve()))
  report('E07', `p99 ${p99(took)} ms after the answer, ${removals} removals, two edges`, '1000 ms')
  expect(p99(took)).toBeLessThan(longestMs)
})

test('E07: also when the edges have just lost PostgreSQL', async () => {
  const site = await closedSite()
  const cut = () =>
    sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'plinth edge routes'`.execute(w.db)
  const took: number[] = []
  for (let i = 0; i < interrupted; i++) took.push(await removed(site, `visitor-${i}@example.com`, cut))
  report('E07', `p99 ${p99(took)} ms after the answer, ${interrupted} removals with lost connections, two edges`, '1000 ms')
  expect(p99(took)).toBeLessThan(longestMs)
})
