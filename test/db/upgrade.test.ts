import fs, { mkdtemp, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path, { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { sql } from 'kysely'
import { FileMigrationProvider, Migrator } from 'kysely/migration'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sweepGraceMs } from '../../core/limits.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { openDiskCas } from '../../infra/cas/disk.ts'
import { storeManifest } from '../../infra/cas/manifests.ts'
import { createPreviewTokens, hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import { makeKey } from '../../infra/crypto/project-keys.ts'
import { type Db, openDatabase } from '../../infra/db/database.ts'
import { migrate } from '../../infra/db/migrate.ts'
import { sweepObjects } from '../../services/storage/sweep.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import { createDatabase } from '../database.ts'
import { deployFiles, page, randomName } from '../make.ts'
import { operatorToken, secretKey, type World, world } from '../world.ts'

// An installation as migration 0011 left it, with rows of every kind that later migrations change, is brought to the newest schema.

const dayMs = 86_400_000
const ago = (days: number) => new Date(Date.now() - days * dayMs)
const migrationFolder = join(import.meta.dirname, '../../infra/db/migrations')

interface Tenant {
  readonly id: string
  readonly key: string
  readonly site_id: string
  readonly subdomain: string
}

let w: World
let folder: string
let cas: Cas
let owner: Tenant
let other: Tenant
let previewer: Tenant
let deploys: { live: string; former: string; purged: string; archive: string; git: string }
let previews: { deploy: string; ended: string; branch: string; closed: string; shown: string }
const objects = new Map<string, string>()
const hashOf = (text: string) => objects.get(text) ?? ''
const isStored = async (text: string) => (await cas.stat(hashOf(text))) !== undefined

/** Stores an object as long ago as the sweeper needs it to be. */
async function store(text: string): Promise<string> {
  const { sha256 } = await cas.put(Buffer.from(text))
  objects.set(text, sha256)
  await utimes(join(folder, 'objects', sha256.slice(0, 2), sha256.slice(2)), ago(3), ago(3))
  return sha256
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'plinth-upgrade-'))
  cas = await openDiskCas(folder)
  const database = await createDatabase()
  {
    await using opened = openDatabase(database.url)
    const { db } = opened
    await sql`drop schema public cascade`.execute(db)
    await sql`create schema public`.execute(db)
    const provider = new FileMigrationProvider({ fs, path, migrationFolder })
    const { error } = await new Migrator({ db, provider }).migrateTo('0011_git')
    if (error) throw error
    await fill(db)
    await migrate(db)
  }
  w = await world({ database, edge: true, env: { PLINTH_STORAGE_URL: pathToFileURL(folder).href } })
})
afterAll(async () => {
  await w?.[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

/** The types of the tables are those of today, so rows are given as they were. */
async function insert(db: Db, table: string, row: Record<string, unknown>): Promise<string> {
  const columns = sql.join(Object.keys(row).map((name) => sql.ref(name)))
  const { rows } = await sql<{ id: string }>`
    insert into ${sql.table(table)} (${columns}) values (${sql.join(Object.values(row))}) returning *`.execute(db)
  return rows[0]?.id ?? ''
}

async function insertTenant(db: Db, plan: string): Promise<Tenant> {
  const id = await insert(db, 'projects', { name: plan, owner_email: 'owner@example.com', plan })
  const { key, ...secret } = makeKey()
  await insert(db, 'keys', { ...secret, project_id: id, name: 'full', scope: 'full' })
  const subdomain = randomName()
  const site_id = await insert(db, 'sites', { project_id: id, name: 'A site', subdomain, last_deploy_seq: 5 })
  await insert(db, 'subdomains', { subdomain, site_id, project_id: id, kind: 'current', held_until: null })
  return { id, key, site_id, subdomain }
}

async function fill(db: Db): Promise<void> {
  owner = await insertTenant(db, 'pro')
  other = await insertTenant(db, 'pro')
  const [liveText, formerText] = ['<!doctype html><title>live</title>', '<!doctype html><title>former</title>']
  for (const text of ['shared', 'staged', 'given up', 'given up lately', 'needed elsewhere', 'archive']) await store(text)
  const manifestOf = async (text: string) => {
    const files = [
      { path: 'index.html', sha256: await store(text), size: text.length },
      { path: 'shared.txt', sha256: hashOf('shared'), size: 6 },
    ]
    return { manifest_sha256: await storeManifest({ add: cas.put }, files), file_count: 2, total_bytes: text.length + 6 }
  }
  const { id: project_id, site_id } = owner
  const common = { site_id, project_id, source_kind: 'files', activate: true, is_preview: false, created_at: ago(5) }
  const ended = { ...common, build_mode: 'copy', finished_at: ago(5), activated_at: ago(5) }
  const [liveFiles, formerFiles] = [await manifestOf(liveText), await manifestOf(formerText)]
  const purged_manifest = await store('a manifest that was given up')
  deploys = {
    purged: await insert(db, 'deploys', {
      ...ended,
      seq: 1,
      status: 'superseded',
      artifacts_purged: true,
      manifest_sha256: purged_manifest,
    }),
    former: await insert(db, 'deploys', { ...ended, ...formerFiles, seq: 2, status: 'superseded' }),
    live: await insert(db, 'deploys', { ...ended, ...liveFiles, seq: 3, status: 'active' }),
    archive: await insert(db, 'deploys', {
      ...common,
      source_kind: 'archive',
      activate: false,
      is_preview: true,
      seq: 4,
      source_sha256: hashOf('archive'),
      source_bytes: 1000,
    }),
    // as it held a turn while it fetched
    git: await insert(db, 'deploys', {
      ...common,
      site_id: other.site_id,
      project_id: other.id,
      source_kind: 'git',
      seq: 5,
      turn_at: ago(1),
    }),
  }
  await sql`update sites set active_deploy_id = ${deploys.live} where id = ${site_id}`.execute(db)

  const blob = (text: string, count: number, more: Record<string, unknown> = {}) =>
    insert(db, 'blobs', { project_id, sha256: hashOf(text), size: text.length, deploys: count, ...more })
  await blob(liveText, 1)
  await blob(formerText, 1)
  await blob('shared', 2)
  await blob('staged', 0, { staged: true, touched_at: ago(0.1) })
  await blob('given up', 0, { touched_at: ago(2) })
  await blob('given up lately', 0, { touched_at: ago(0.1) })
  await blob('a manifest that was given up', 0, { size: 0, touched_at: ago(2) })
  await blob('needed elsewhere', 0, { touched_at: ago(2) })
  await blob('needed elsewhere', 1, { project_id: other.id })

  for (const [domain, days] of [
    ['old.example.com', 8],
    ['new.example.com', 6],
  ] as const) {
    const row = { project_id, site_id, domain, verification_token: 'x', created_at: ago(days), connecting_since: ago(days) }
    await insert(db, 'domains', row)
  }
  await fillPreviews(db, formerFiles)
  const mail = { project_id, sender: 'a@example.com', recipient: 'owner@example.com', subject: 'Before', text: 'x', html: 'x' }
  await insert(db, 'mails', { ...mail, created_at: ago(1), outcome: 'kept' })
}

const tokenOf = createPreviewTokens(secretKey)

/** Links of deploys and of branches: live ones, ended ones, and a branch that never had one. */
async function fillPreviews(db: Db, files: object): Promise<void> {
  previewer = await insertTenant(db, 'pro')
  const { id: project_id, site_id } = previewer
  const branch = (ref: string, more: object) => {
    const row = { site_id, project_id, ref, fetch_ref: `refs/heads/${ref}`, branch: ref, from_fork: false, approved: true }
    return insert(db, 'git_previews', { ...row, updated_at: ago(1), ...more })
  }
  const deploy = (seq: number, more: object = {}) => {
    const row = { site_id, project_id, source_kind: 'files', build_mode: 'copy', activate: false, is_preview: true }
    return insert(db, 'deploys', { ...row, ...files, seq, status: 'ready', created_at: ago(1), finished_at: ago(1), ...more })
  }
  const open = await branch('open', { generation: 2 })
  previews = {
    deploy: await deploy(1),
    ended: await deploy(2),
    branch: open,
    shown: await deploy(3, { source_kind: 'git', git_preview_id: open }),
    closed: await branch('closed', { generation: 4, closed_at: ago(1) }),
  }
  await branch('waiting', { approved: false })
  const linked = { token_sha256: hashPreviewToken(tokenOf(previews.deploy, 3)), issued_at: ago(1), generation: 3 }
  await insert(db, 'previews', { deploy_id: previews.deploy, site_id, ...linked })
  await insert(db, 'previews', { deploy_id: previews.ended, site_id, generation: 2 })
  await sql`
    update git_previews set deploy_id = ${previews.shown}, token_sha256 = ${hashPreviewToken(tokenOf(open, 2))}
    where id = ${open}`.execute(db)
}

const call = (tenant: Tenant, endpoint: string, json?: object) => w.call(endpoint, { key: tenant.key, json })
const storageOf = async ({ id }: Tenant) =>
  (await w.call(`GET /operator/v1/projects/${id}`, { key: operatorToken })).body.usage.storage_bytes

test('keys, sites, deploys and emails are there, and the live deploy is served', async () => {
  expect((await call(owner, 'GET /api/v1/sites')).body.map((site: any) => site.id)).toEqual([owner.site_id])
  const listed = (await call(owner, `GET /api/v1/sites/${owner.site_id}/deploys`)).body
  expect(listed.map(({ id, status, artifacts_purged }: any) => [id, status, artifacts_purged])).toEqual([
    [deploys.archive, 'queued', false],
    [deploys.live, 'active', false],
    [deploys.former, 'superseded', false],
    [deploys.purged, 'superseded', true],
  ])
  await expect.poll(async () => (await w.visit(owner.subdomain)).body).toContain('live')
  const mails = (await w.call('GET /operator/v1/mails', { key: operatorToken })).body
  expect(mails.map((mail: any) => mail.subject)).toEqual(['Before'])
})

test('the storage counts what deploys need, what was uploaded, and the archive that waits', async () => {
  const live = '<!doctype html><title>live</title>'.length
  const former = '<!doctype html><title>former</title>'.length
  expect(await storageOf(owner)).toBe(live + former + 'shared'.length + 'staged'.length + 1000)
  expect(await storageOf(other)).toBe('needed elsewhere'.length)
})

test('what was given up long enough ago is swept, and nothing else', async () => {
  await sweepObjects(w, { before: new Date(Date.now() - sweepGraceMs), progress: () => undefined, maxShare: 0 })
  const all = [...objects.keys()]
  const kept = await Promise.all(all.map(isStored))
  expect(all.filter((_, i) => !kept[i])).toEqual(['given up', 'a manifest that was given up'])
  expect((await w.visit(owner.subdomain, '/shared.txt')).body).toBe('shared')
})

test('an unproven domain is as old a claim as its row', async () => {
  const add = async (domain: string) => (await call(other, `POST /api/v1/sites/${other.site_id}/domains`, { domain })).status
  expect([await add('old.example.com'), await add('new.example.com')]).toEqual([200, 409])
})

test('the link of a deploy opens as before, and is the same when it is asked for again', async () => {
  const token = tokenOf(previews.deploy, 3)
  const issued = (await call(previewer, `POST /api/v1/deploys/${previews.deploy}/preview`)).body
  expect([issued.token, Date.parse(issued.created_at)]).toEqual([token, expect.closeTo(ago(1).getTime(), -6)])
  expect((await w.open(issued.url)).body).toContain('former')
})

test('a link of a deploy that has ended begins with its next generation', async () => {
  const issued = (await call(previewer, `POST /api/v1/deploys/${previews.ended}/preview`)).body
  expect(issued.token).toBe(tokenOf(previews.ended, 2))
})

test('the link of a branch opens as before', async () => {
  const listed = (await call(previewer, `GET /api/v1/sites/${previewer.site_id}/git/previews`)).body
  const shown = listed.find(({ id }: any) => id === previews.branch)
  expect(shown).toMatchObject({
    state: 'ready',
    deploy_id: previews.shown,
    url: expect.stringContaining(tokenOf(previews.branch, 2)),
  })
  expect((await w.open(shown.url)).body).toContain('former')
})

test('every link keeps its generation, and a branch that had none has none', async () => {
  const rows = await w.db.selectFrom('preview_links').selectAll().where('site_id', '=', previewer.site_id).execute()
  const kept = new Map(rows.map((row) => [row.id, [row.git_preview_id, row.deploy_id, row.generation]]))
  expect(kept).toEqual(
    new Map([
      [previews.deploy, [null, previews.deploy, 3]],
      [previews.ended, [null, previews.ended, 2]],
      [previews.branch, [previews.branch, previews.shown, 2]],
      [previews.closed, [previews.closed, null, 4]],
    ]),
  )
})

test('an earlier deploy is activated, a new one goes live, and one that held a turn to fetch ends', async () => {
  const rolledBack = await call(owner, `POST /api/v1/deploys/${deploys.former}/activate`)
  expect([rolledBack.status, rolledBack.body.previous_deploy_id]).toEqual([200, deploys.live])
  await expect.poll(async () => (await w.visit(owner.subdomain)).body).toContain('former')
  await deployFiles(w, other, other.site_id, [page('after the upgrade')])
  await expect.poll(async () => (await w.visit(other.subdomain)).body).toContain('after the upgrade')

  const options = { stalledAfterMs: 0, dueWithinMs: 0, checkIntervalMs: 10_000, retryPauseMs: 60_000 }
  await reconcile(w, w.workflows, new Date(), options)
  expect((await w.ended(deploys.git, other.key)).error).toContain('disconnected')
})
