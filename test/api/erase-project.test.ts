import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { finishErasures } from '../../services/removal/erase-project.ts'
import { purgeSite } from '../../services/removal/purge-site.ts'
import { deployFiles, insertBlobs, makeSite, openPreview, page, randomName } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
beforeAll(async () => {
  w = await world({ edge: true, ownTemporal: true })
})
afterAll(() => w[Symbol.asyncDispose]())

const erase = (project: TestProject, query = '?confirm=true') =>
  w.call(`DELETE /operator/v1/projects/${project.id}${query}`, { key: operatorToken })
const stateOf = (project: TestProject) => w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })
const isGone = (project: TestProject) => expect.poll(async () => (await stateOf(project)).status).toBe(404)

/** The tables that have rows of the project. */
async function tablesWith(project: TestProject): Promise<string[]> {
  const { rows: tables } = await sql<{ table_name: string }>`
    select table_name from information_schema.columns where table_schema = 'public' and column_name = 'project_id'`.execute(w.db)
  const found: string[] = []
  for (const { table_name } of tables) {
    const { rows } = await sql`select from ${sql.table(table_name)} where project_id = ${project.id} limit 1`.execute(w.db)
    if (rows.length > 0) found.push(table_name)
  }
  return found.sort()
}

/** A project with something in every table that projects have rows in. */
async function richProject(): Promise<{ project: TestProject; site: { id: string; subdomain: string } }> {
  const project = await w.project('enterprise')
  const { key } = project
  const site = await makeSite(w, project)
  await deployFiles(w, project, site.id, [page('live')])
  const ready = await deployFiles(w, project, site.id, [page('preview')], false)
  await w.call(`POST /api/v1/deploys/${ready.id}/preview-url`, { key })
  const domain = await w.call(`POST /api/v1/sites/${site.id}/domains`, { key, json: { domain: `${randomName()}.example.com` } })
  await w.call(`DELETE /api/v1/domains/${domain.body.id}`, { key })
  await w.call(`POST /api/v1/sites/${site.id}/domains`, { key, json: { domain: `${randomName()}.example.com` } })
  const json = { repo_url: 'https://github.com/ada/notes.git', token: 'token-of-ada' }
  await w.call(`PUT /api/v1/sites/${site.id}/git`, { key, json })
  await openPreview(w, project, site.id)
  await w.call(`POST /api/v1/sites/${site.id}/subdomain-change`, { key, json: { subdomain: randomName('other') } })
  const staged = Buffer.from(randomName('blob'))
  const hash = Buffer.from(await crypto.subtle.digest('SHA-256', staged)).toString('hex')
  await w.call(`PUT /api/v1/blobs/${hash}`, { key, bytes: staged, type: 'application/octet-stream' })
  await w.db.insertInto('build_minutes').values({ project_id: project.id, month: '2026-01-01', minutes: 1 }).execute()
  await w.db.insertInto('uploads').values({ project_id: project.id, bytes: 1, started_at: new Date() }).execute()
  return { project, site }
}

test('E38: a project is erased only with confirm=true', async () => {
  const project = await w.project()
  for (const query of ['', '?confirm=false']) {
    const { status, headers } = await erase(project, query)
    expect([status, headers.get('plinth-error')]).toEqual([400, 'confirmation_required'])
  }
  expect((await stateOf(project)).status).toBe(200)
})

test('E38: a project without sites is gone at once, and a second time it is not found', async () => {
  const project = await w.project()
  expect((await erase(project)).body).toEqual({ ok: true })
  expect((await stateOf(project)).status).toBe(404)
  expect((await erase(project)).status).toBe(404)
})

test('E38: everything that a project owns goes with it, and its names stay reserved', async () => {
  const { project, site } = await richProject()
  const tables = await tablesWith(project)
  expect(tables).toEqual(
    expect.arrayContaining(['blobs', 'deploys', 'domains', 'git_connections', 'keys', 'mails', 'sites', 'uploads']),
  )
  await erase(project)
  await isGone(project)
  expect(await tablesWith(project)).toEqual(['subdomains'])
  expect((await w.visit(site.subdomain)).status).toBe(404)
  const other = await w.project()
  const taken = await w.call('POST /api/v1/sites', { key: other.key, json: { name: 'x', subdomain: site.subdomain } })
  expect(taken.status).toBe(409)
})

test('E38: the keys stop working and the sites stop answering with the answer', async () => {
  const project = await w.project()
  const site = await makeSite(w, project)
  await deployFiles(w, project, site.id, [page('live')])
  await expect.poll(async () => (await w.visit(site.subdomain)).status).toBe(200)
  await erase(project)
  expect((await w.call('GET /api/v1/whoami', { key: project.key })).status).toBe(401)
  await expect.poll(async () => (await w.visit(site.subdomain)).status).not.toBe(200)
})

test('E38: sites that are in the trash are removed without waiting for their time', async () => {
  const project = await w.project()
  const site = await makeSite(w, project)
  await w.call(`DELETE /api/v1/sites/${site.id}`, { key: project.key })
  await erase(project)
  await isGone(project)
})

test('E38: a project that is being erased can neither be resumed nor get a key', async () => {
  const project = await w.project()
  const site = await makeSite(w, project)
  // as if its removal had begun and were stuck
  await w.db.updateTable('sites').set({ purging: true }).where('id', '=', site.id).execute()
  await erase(project)
  const { status, body } = await stateOf(project)
  expect([status, body.erasing, body.suspended]).toEqual([200, true, true])
  const route = `operator/v1/projects/${project.id}`
  expect((await w.call(`PATCH /${route}`, { key: operatorToken, json: { suspended: false } })).status).toBe(409)
  const json = { name: 'late', scope: 'full' }
  expect((await w.call(`POST /${route}/keys`, { key: operatorToken, json })).status).toBe(409)
  expect((await erase(project)).body).toEqual({ ok: true })
})

test('E38: an erasure that begins while Temporal is away, and loses its history, is completed', async () => {
  const project = await w.project()
  const site = await makeSite(w, project)
  await deployFiles(w, project, site.id, [page('live')])
  await w.killTemporal()
  expect((await erase(project)).body).toEqual({ ok: true })
  await w.startTemporal({ forget: true })
  await isGone(project)
})

describe('a busy project', () => {
  const rows = 20_000
  const largestStep = 1000

  let quiet: World
  beforeAll(async () => {
    // the test does what a worker would
    quiet = await world({ worker: false })
    await sql`create table allowed_steps (steps integer not null)`.execute(quiet.db)
    for (const table of ['mails', 'webhook_events', 'notifications', 'deploys', 'blobs']) await watchDeletes(table)
  })
  afterAll(() => quiet?.[Symbol.asyncDispose]())

  const eraseQuietly = (project: TestProject) =>
    quiet.call(`DELETE /operator/v1/projects/${project.id}?confirm=true`, { key: operatorToken })
  const found = (project: TestProject) => quiet.db.selectFrom('projects').select('erasing').where('id', '=', project.id).execute()

  /** Statements that delete more rows at once fail, and after so many steps every one does, as if its process were killed. */
  async function watchDeletes(table: string): Promise<void> {
    await sql`
      create or replace function watch_deletes() returns trigger language plpgsql as $$ begin
        if (select count(*) from gone) > ${sql.lit(largestStep)} then raise exception 'a statement deleted too many rows'; end if;
        if (select count(*) from gone) > 0 then update allowed_steps set steps = steps - 1; end if;
        if exists (select from allowed_steps where steps < 0) then raise exception 'killed'; end if;
        return null;
      end $$`.execute(quiet.db)
    await sql`
      create trigger watched after delete on ${sql.table(table)} referencing old table as gone
      for each statement execute function watch_deletes()`.execute(quiet.db)
  }
  const allowSteps = async (steps: number) => {
    await sql`delete from allowed_steps`.execute(quiet.db)
    await sql`insert into allowed_steps values (${steps})`.execute(quiet.db)
  }

  async function fill(project: TestProject, siteId: string): Promise<void> {
    const many = sql`from generate_series(1, ${sql.lit(rows)}) as n`
    const { id } = project
    await sql`insert into mails (project_id, kind, about, sender, recipient, subject, text, html, created_at)
      select ${id}, 'x', 'x', 'x', 'x@example.com', 'x', 'x', 'x', now() ${many}`.execute(quiet.db)
    await sql`insert into webhook_events (project_id, type, data, created_at) select ${id}, 'x', '{}', now() ${many}`.execute(
      quiet.db,
    )
    await sql`insert into notifications (project_id, kind, title, message, created_at)
      select ${id}, 'deploy.failed', 'x', 'x', now() ${many}`.execute(quiet.db)
    await sql`insert into deploys (site_id, project_id, seq, source_kind, status, activate, is_preview, artifacts_purged)
      select ${siteId}, ${id}, 1000 + n, 'archive', 'failed', true, false, true ${many}`.execute(quiet.db)
    const blobs = Array.from({ length: 2500 }, (_, n) => ({
      sha256: n.toString(16).padStart(64, '0'),
      size: 1,
      deploys: 0,
      staged: true,
    }))
    await insertBlobs(quiet, project, blobs)
  }

  test('E38: is erased in steps of a thousand rows, and goes on where its process was killed', async () => {
    const project = await quiet.project('enterprise')
    const site = await makeSite(quiet, project)
    await fill(project, site.id)
    expect((await eraseQuietly(project)).status).toBe(200)
    const row = await quiet.db.selectFrom('sites').selectAll().where('id', '=', site.id).executeTakeFirstOrThrow()
    const trashing = { site_id: site.id, purge_at: row.deletion_scheduled_at ?? new Date() }
    const purge = () => purgeSite(quiet, trashing, () => undefined)
    for (const steps of [5, 30]) {
      await allowSteps(steps)
      await expect(purge()).rejects.toThrow('killed')
      expect(await found(project)).toEqual([{ erasing: true }])
    }
    await allowSteps(10_000)
    expect(await purge()).toBe('purged')
    await finishErasures(quiet)
    expect(await found(project)).toEqual([])
  })

  test('E38: without sites, it is erased by any worker when its process was killed', async () => {
    const project = await quiet.project()
    await sql`insert into mails (project_id, kind, about, sender, recipient, subject, text, html, created_at)
      select ${project.id}, 'x', 'x', 'x', 'x@example.com', 'x', 'x', 'x', now() from generate_series(1, 5000)`.execute(quiet.db)
    await allowSteps(2)
    expect((await eraseQuietly(project)).status).toBe(500)
    expect(await found(project)).toEqual([{ erasing: true }])
    await allowSteps(10_000)
    await finishErasures(quiet)
    expect(await found(project)).toEqual([])
  })
})
