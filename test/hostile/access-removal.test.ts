import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { required } from '../../infra/config.ts'
import { createVisits } from '../../infra/crypto/visits.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import type { TestProject, World } from '../world.ts'
import { type KillablePostgres, startKillablePostgres } from './killable-postgres.ts'
import { report } from './platform.ts'
import { p99, type TwoEdges, worldOfTwoEdges } from './two-edges.ts'

const removals = 100
const interrupted = 20
const crashes = 12
/** How long PostgreSQL is away, in turn, besides the time that its start takes. */
const awayMs = [0, 500, 2000]
/** The target is a second; the next poll is five seconds away. */
const longestMs = 1500

let w: World
let project: TestProject
let edges: TwoEdges
let postgres: KillablePostgres
const stack = new AsyncDisposableStack()
beforeAll(async () => {
  postgres = stack.use(await startKillablePostgres())
  const { url } = postgres
  // the server ends with its only database
  const database = {
    url,
    forbidConnections: () => Promise.reject(new Error('not here')),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
  ;({ w, project, edges } = stack.use(await worldOfTwoEdges({ database })))
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

const isInside = ({ status, body }: { readonly status: number; readonly body: Buffer }) =>
  status === 200 && body.includes('inside')

/** A visitor whom both edges let in. */
async function insider(site: ClosedSite, email: string) {
  const visitor = await visit(site, email)
  await edges.shown(site.subdomain, isInside, { cookie: visitor.cookie })
  return visitor
}

const removeVisitor = (site: ClosedSite, subject: string) => call('DELETE', `${site.id}/access/emails/${subject}`)

/** How many milliseconds after the answer both edges have shut the visitor out. */
async function removed(site: ClosedSite, email: string, before: () => Promise<unknown>): Promise<number> {
  const { subject, cookie } = await insider(site, email)
  await before()
  expect((await removeVisitor(site, subject)).status).toBe(200)
  return await edges.shown(site.subdomain, isShutOut, { cookie })
}

const isShutOut = ({ status }: { readonly status: number }) => status === 401

test('E07: who is removed from the list is shut out by both edges at once', async () => {
  const site = await closedSite()
  const took: number[] = []
  for (let i = 0; i < removals; i++) took.push(await removed(site, `visitor-${i}@example.com`, () => Promise.resolve()))
  report('E07', `p99 ${p99(took)} ms after the answer, ${removals} removals, two edges`, '1000 ms')
  expect(p99(took)).toBeLessThan(longestMs)
})

/** Ends the connections over which the edges hear of changes. */
const cut = () =>
  sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'plinth edge routes'`.execute(w.db)

test('E07: also when the edges have just lost PostgreSQL', async () => {
  const site = await closedSite()
  const took: number[] = []
  for (let i = 0; i < interrupted; i++) took.push(await removed(site, `visitor-${i}@example.com`, cut))
  report('E07', `p99 ${p99(took)} ms after the answer, ${interrupted} removals with lost connections, two edges`, '1000 ms')
  expect(p99(took)).toBeLessThan(longestMs)
})

test('E07: when PostgreSQL is killed right after the answer, the removal is not lost, and holds within a second of its return', async () => {
  const site = await closedSite()
  const took: number[] = []
  let heard = 0
  for (let i = 0; i < crashes; i++) {
    const { subject, cookie } = await insider(site, `visitor-${i}@example.com`)
    // of every second removal the edges cannot hear before PostgreSQL is away
    if (i % 2 === 1) await cut()
    expect((await removeVisitor(site, subject)).status).toBe(200)
    const watches = edges.watch(site.subdomain, { cookie })
    const backAt = await postgres.crash(awayMs[i % awayMs.length] ?? 0)
    for (const { statuses, changedAt } of await watches.until(401)) {
      // until then the edge goes by the locks that it knows, for ten minutes at most (addendum E36)
      expect(statuses).toEqual(statuses.length === 1 ? [401] : [200, 401])
      if (changedAt < backAt) heard += 1
      took.push(Math.max(0, changedAt - backAt))
    }
  }
  const figure = `p99 ${p99(took)} ms after PostgreSQL is back, ${crashes} removals with a crash after the answer, two edges`
  report('E07', `${figure}; ${heard} of ${2 * crashes} times the edge had heard of it before`, '1000 ms')
  expect(p99(took)).toBeLessThan(longestMs)
})

test('E07: a removal that is answered as soon as PostgreSQL is back holds at once', async () => {
  const site = await closedSite()
  const took: number[] = []
  const refusals = new Set<number>()
  for (let i = 0; i < crashes; i++) {
    const { subject, cookie } = await insider(site, `visitor-${i}@example.com`)
    const crash = postgres.crash(awayMs[i % awayMs.length] ?? 0)
    // while PostgreSQL is away, nobody is removed, and no answer says so
    for (;;) {
      const { status } = await removeVisitor(site, subject)
      if (status === 200) break
      refusals.add(status)
      await pause(10)
    }
    took.push(await edges.shown(site.subdomain, isShutOut, { cookie }))
    await crash
  }
  report('E07', `p99 ${p99(took)} ms after the answer, ${crashes} removals just after a crash, two edges`, '1000 ms')
  expect([...refusals]).toEqual([503])
  expect(p99(took)).toBeLessThan(longestMs)
})
