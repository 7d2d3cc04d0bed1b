import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defaultPlans } from '../../core/plans.ts'
import { applyRetentionEverywhere } from '../../services/deploys/retention.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

const dayMs = 86_400_000
const plans = {
  ...defaultPlans,
  free: { ...defaultPlans.free, inactive_deploys: 0, deploys_per_hour: null },
  start: { ...defaultPlans.start, inactive_deploys: 2, deploys_per_hour: null },
}

let w: World
let project: TestProject
beforeAll(async () => {
  w = await world({ plans, edge: true })
  project = await w.project('start')
})
afterAll(() => w[Symbol.asyncDispose]())

const call = (method: string, path: string, owner = project) => w.call(`${method} /api/v1/${path}`, { key: owner.key })
const deploys = async (siteId: string, owner = project): Promise<any[]> =>
  (await call('GET', `sites/${siteId}/deploys`, owner)).body.toReversed()
/** `-` for a deploy without files, in the order in which they were made. */
const shown = async (siteId: string, owner = project) =>
  (await deploys(siteId, owner)).map((deploy) => (deploy.artifacts_purged ? '-' : deploy.status)).join(' ')
const ends = (siteId: string, expected: string, owner = project) => expect.poll(() => shown(siteId, owner)).toBe(expected)
const link = async (id: string) => (await call('POST', `deploys/${id}/preview`)).body.url
const activate = (id: string) => call('POST', `deploys/${id}/activate`)

/** Deploys that are built and not published, oldest first. */
async function unpublished(siteId: string, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < count; n++) ids.push((await deployFiles(w, project, siteId, [page(`${siteId} ${n}`)], false)).id)
  return ids
}

test('X09 B05: after one deploy more than the plan keeps, the oldest loses its files and keeps its record', async () => {
  const site = await makeSite(w, project)
  const usage = async () => (await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })).body.usage
  const before = (await usage()).storage_bytes
  for (let n = 1; n <= 4; n++) await deployFiles(w, project, site.id, [page('x'.repeat(n * 1000))])
  await ends(site.id, '- superseded superseded active')
  const [oldest, second] = await deploys(site.id)
  expect(oldest).toMatchObject({ status: 'superseded', file_count: 1, error: null })
  const kept = [2, 3, 4].map((n) => Buffer.byteLength(page('x'.repeat(n * 1000)).content))
  expect((await usage()).storage_bytes - before).toBe(kept.reduce((sum, bytes) => sum + bytes, 0))
  const refused = await activate(oldest.id)
  expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining('deleted')])
  expect((await activate(second.id)).status).toBe(200)
})

test('X09: activate_deploy applies it before it answers, and what was live last is kept longest', async () => {
  const site = await makeSite(w, project)
  const [a = '', b = '', , d = ''] = await unpublished(site.id, 4)
  expect((await activate(a)).status).toBe(200)
  expect(await shown(site.id)).toBe('active - ready ready')
  expect((await activate(b)).status).toBe(409)
  expect((await activate(d)).status).toBe(200)
  expect(await shown(site.id)).toBe('superseded - ready active')
})

test('X09 X04: activating the live deploy again takes nothing that is within the plan', async () => {
  const site = await makeSite(w, project)
  const [a = ''] = await unpublished(site.id, 3)
  await activate(a)
  await activate(a)
  expect(await shown(site.id)).toBe('active ready ready')
})

test('X09: a plan that keeps none leaves the live deploy alone, and an unlimited one keeps all', async () => {
  for (const [plan, expected] of [
    ['free', '- - active'],
    ['enterprise', 'superseded superseded active'],
  ] as const) {
    const owner = await w.project(plan)
    const site = await makeSite(w, owner)
    for (const text of ['one', 'two', 'three']) await deployFiles(w, owner, site.id, [page(text)])
    await ends(site.id, expected, owner)
  }
})

test('X09 E27: deploys with a link are kept besides, for 30 days', async () => {
  const site = await makeSite(w, project)
  const ids = await unpublished(site.id, 5)
  const [first = '', second = ''] = ids
  const url = await link(first)
  await activate(second)
  expect(await shown(site.id)).toBe('ready active - ready ready')
  expect((await w.open(url)).status).toBe(200)

  w.advance(29 * dayMs)
  await activate(second)
  expect(await shown(site.id)).toBe('ready active - ready ready')
  w.advance(dayMs)
  await activate(second)
  expect(await shown(site.id)).toBe('- active - ready ready')
  await expect.poll(async () => (await w.open(url)).status).toBe(404)
})

test('E27: a link that is 30 days old ends also when nothing is activated, and its deploy counts again', async () => {
  const site = await makeSite(w, project)
  const [a = '', b = '', c = ''] = await unpublished(site.id, 3)
  const urls = [await link(a), await link(c)]
  const young = await makeSite(w, project)
  const [other = ''] = await unpublished(young.id, 1)
  const clock = (days: number) => () => new Date(Date.now() + shift + days * dayMs)
  // the tests before have moved the world's clock
  const shift = Date.parse((await deploys(site.id))[0].created_at) - Date.now()
  expect(await applyRetentionEverywhere({ ...w, clock: clock(29) })).toBe(0)
  expect(await shown(site.id)).toBe('ready ready ready')

  w.advance(20 * dayMs)
  const kept = await link(other)
  expect(await applyRetentionEverywhere({ ...w, clock: clock(30.1) })).toBe(1)
  expect(await shown(site.id)).toBe('- ready ready')
  expect((await deploys(site.id)).map((deploy) => deploy.preview_url)).toEqual([null, null, null])
  for (const url of urls) await expect.poll(async () => (await w.open(url)).status).toBe(404)
  expect((await w.open(kept)).status).toBe(200)
  expect((await call('GET', `deploys/${b}`)).body.status).toBe('ready')
})

test('X09: a deploy that is about to go live by itself is neither counted nor taken', async () => {
  const site = await makeSite(w, project)
  const [waiting = '', , , last = ''] = await unpublished(site.id, 4)
  await w.db.updateTable('deploys').set({ activate: true }).where('id', '=', waiting).execute()
  await activate(last)
  expect(await shown(site.id)).toBe('ready ready ready active')
})

test('X07 X08 X09: while the storage cannot be read nothing is flagged: 503 for a deletion, and an activation succeeds', async () => {
  const site = await makeSite(w, project)
  const [a = '', , , d = ''] = await unpublished(site.id, 4)
  const row = await w.db.selectFrom('deploys').select('manifest_sha256').where('id', '=', a).executeTakeFirstOrThrow()
  const object = await w.cas.open(row.manifest_sha256 ?? '')
  const manifest = (await object?.bytes()) ?? Buffer.alloc(0)
  const sha256 = row.manifest_sha256 ?? ''
  await rm(join(w.dir, 'cas', 'objects', sha256.slice(0, 2), sha256.slice(2)))

  expect((await activate(d)).body).toMatchObject({ ok: true, status: 'active' })
  const refused = await call('DELETE', `deploys/${a}`)
  expect([refused.status, refused.body.message]).toEqual([503, expect.stringContaining('storage')])
  expect(await shown(site.id)).toBe('ready ready ready active')

  await w.cas.put(manifest)
  await activate(d)
  expect(await shown(site.id)).toBe('- ready ready active')
})

test('X09 P01: a link that is issued while old deploys are taken keeps its deploy, or is refused', async () => {
  const site = await makeSite(w, project)
  for (let round = 0; round < 5; round++) {
    const [a = '', b = '', , , e = ''] = await unpublished(site.id, 5)
    const [first, second] = await Promise.all(
      [a, b, e].map((id) => call('POST', `deploys/${id}/${id === e ? 'activate' : 'preview'}`)),
    )
    for (const answer of [first, second]) {
      const id = answer === first ? a : b
      const deploy = (await call('GET', `deploys/${id}`)).body
      expect([answer?.status, deploy.preview_url]).toEqual(deploy.artifacts_purged ? [409, null] : [200, answer?.body.url])
      if (!deploy.artifacts_purged) expect((await w.open(deploy.preview_url)).status).toBe(200)
    }
  }
})
