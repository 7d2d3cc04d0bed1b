import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createVisits } from '../../infra/crypto/visits.ts'
import { readIncarnation, renewIncarnation } from '../../infra/db/incarnation.ts'
import { endVisitsAfterRestore, markRestored } from '../../infra/local/restored.ts'
import { type CopiableDatabase, createDatabase } from '../database.ts'
import { openTwoEdges } from '../hostile/two-edges.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { secretKey, type TestProject, type World, world } from '../world.ts'

// Edges run on while their database becomes an older one, so what they know has higher versions than what is true.

let w: World
let database: CopiableDatabase
let project: TestProject
let dir: string
const stack = new AsyncDisposableStack()
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-incarnation-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  database = await createDatabase()
  w = stack.use(await world({ database }))
  project = await w.project('enterprise')
})
afterAll(() => stack.disposeAsync())

interface Site {
  readonly id: string
  readonly subdomain: string
}

const call = (method: string, path: string, json?: object) =>
  w.call(`${method} /api/v1/sites/${path}`, { key: project.key, ...(json && { json }) })

async function closedSite(): Promise<Site> {
  const site: Site = await makeSite(w, project)
  await deployFiles(w, project, site.id, [page('first')])
  expect((await call('POST', `${site.id}/access/email-mode`, {})).status).toBe(200)
  return site
}

/** Lets an address in, and answers its id and the headers of its visit. */
async function visitor({ id, subdomain }: Site, email: string) {
  expect((await call('POST', `${id}/access/emails`, { email })).status).toBe(200)
  const found = w.db.selectFrom('access_emails').select('id').where('site_id', '=', id).where('email', '=', email)
  const { id: subject } = await found.executeTakeFirstOrThrow()
  const { epoch } = await w.db.selectFrom('access_locks').select('epoch').where('site_id', '=', id).executeTakeFirstOrThrow()
  const place = { site_id: id, host: `${subdomain}.${w.config.urls.platformDomain}`, epoch }
  const until = new Date(Date.now() + 3_600_000)
  const visit = createVisits(secretKey).issue(place, { subject, generation: 0, consent: 0, until })
  return { subject, headers: { cookie: `svc_s=${visit}` } }
}

/** As the first start after `npm run restore`. */
async function startRestored(): Promise<void> {
  await markRestored(dir)
  await endVisitsAfterRestore(dir, database.url)
}

interface Answer {
  readonly status: number
  readonly body: Buffer
}
const shows =
  (text: string) =>
  ({ status, body }: Answer) =>
    status === 200 && body.includes(text)
const isShutOut = ({ status }: Answer) => status === 401

test('E36: after a backup is restored, edges that ran before show nothing later, and visitors who are removed stay out', async () => {
  await using edges = await openTwoEdges(w)
  const site = await closedSite()
  const ada = await visitor(site, 'ada@example.com')
  const putBack = await database.backUp()
  await deployFiles(w, project, site.id, [page('second')])
  const later = await makeSite(w, project)
  await deployFiles(w, project, later.id, [page('later')])
  for (let i = 0; i < 5; i++) await call('PATCH', site.id, { enabled: i % 2 === 1 })
  await call('PATCH', site.id, { enabled: true })
  await edges.shown(site.subdomain, shows('second'), ada.headers)
  await edges.shown(later.subdomain, shows('later'))

  await putBack()
  await startRestored()
  await edges.shown(site.subdomain, isShutOut, ada.headers)
  const eve = await visitor(site, 'eve@example.com')
  await edges.shown(site.subdomain, shows('first'), eve.headers)
  expect((await call('DELETE', `${site.id}/access/emails/${eve.subject}`)).status).toBe(200)
  await edges.shown(site.subdomain, isShutOut, eve.headers)
  await edges.shown(later.subdomain, ({ status }) => status === 404)
})

describe('the same database with the rows of a backup', () => {
  /** Puts the site back to its first deploy, at the version that it has now. */
  async function goBack({ id }: Site): Promise<void> {
    const first = w.db.selectFrom('deploys').select('id').where('site_id', '=', id).orderBy('seq').limit(1)
    await w.db.updateTable('sites').set({ active_deploy_id: first }).where('id', '=', id).execute()
  }

  async function openSite(): Promise<Site> {
    const site: Site = await makeSite(w, project)
    for (const text of ['first', 'second']) await deployFiles(w, project, site.id, [page(text)])
    return site
  }

  test('is noticed at once by edges that are connected, although versions are equal', async () => {
    await using edges = await openTwoEdges(w)
    const [open, closed] = [await openSite(), await closedSite()]
    const ada = await visitor(closed, 'ada@example.com')
    await edges.shown(open.subdomain, shows('second'))
    await edges.shown(closed.subdomain, shows('first'), ada.headers)
    await goBack(open)
    // the first start gives the site the version that the edges know
    await w.db
      .updateTable('sites')
      .set((eb) => ({ version: eb('version', '-', 1) }))
      .where('id', '=', closed.id)
      .execute()
    await startRestored()
    await edges.shown(open.subdomain, shows('first'))
    await edges.shown(closed.subdomain, isShutOut, ada.headers)
  })

  test('is noticed by an edge that starts with a snapshot from before', async () => {
    const site = await openSite()
    {
      await using edges = await openTwoEdges(w)
      await edges.shown(site.subdomain, shows('second'))
    }
    await goBack(site)
    await startRestored()
    {
      await using edges = await openTwoEdges(w)
      for (const answer of await edges.askBoth(site.subdomain)) expect(answer.body.toString()).toContain('first')
    }
    // which is the state of the snapshot by now
    await goBack(site)
    await using edges = await openTwoEdges(w)
    for (const answer of await edges.askBoth(site.subdomain)) expect(answer.body.toString()).toContain('first')
  })
})

describe('the incarnation', () => {
  test('stays the same over connections, and is another one with each restore', async () => {
    const first = await readIncarnation(w.db)
    await sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`.execute(w.db)
    await expect.poll(() => readIncarnation(w.db).catch(() => undefined)).toBe(first)
    const seen = new Set([first])
    for (let restore = 0; restore < 3; restore++) {
      await w.db.transaction().execute(renewIncarnation)
      seen.add(await readIncarnation(w.db))
    }
    expect(seen.size).toBe(4)
  })

  test('is another one in a copy of the database, though its rows are the same', async () => {
    const before = await readIncarnation(w.db)
    const putBack = await database.backUp()
    await putBack()
    await expect.poll(() => readIncarnation(w.db).catch(() => before)).not.toBe(before)
  })
})
