import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defaultPlans } from '../../core/plans.ts'
import { removeAbandonedUploads } from '../../services/storage/sweep.ts'
import { type MadeEntry, tarGz } from '../infra/archives.ts'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { refuseReady } from './refuse-ready.ts'

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

const MB = 1024 * 1024
let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ runner: true, plans: { ...defaultPlans, free: { ...defaultPlans.free, storage_bytes: 3 * MB } } })
  owner = await w.project('start')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const files = (tree: Record<string, string>): Buffer =>
  tarGz(Object.entries(tree).map(([name, body]): MadeEntry => ({ name, data: body })))

async function send(project: TestProject, siteId: string, tree: Record<string, string>, query = ''): Promise<any> {
  const request = `POST /api/v1/sites/${siteId}/deploys${query}`
  return (await w.call(request, { key: project.key, bytes: files(tree), type: 'application/gzip' })).body
}
const minutes = async (project: TestProject) =>
  (await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })).body.usage.build_minutes_this_month

async function cancelDeploy(id: string): Promise<void> {
  const connection = await Connection.connect({ address: w.temporal.address })
  await new Client({ connection, namespace: w.temporal.namespace }).workflow.getHandle(`deploy:${id}:1`).cancel()
  await connection.close()
}

const built = (script: string) => ({
  'package.json': JSON.stringify({ name: 'x', version: '1.0.0', scripts: { build: script } }),
})

test('B01 B02 B05 B07 X01 D25: a project is built on Node 20, goes live, and its minutes are counted', async () => {
  const site = await makeSite(w, owner)
  const before = await minutes(owner)
  const accepted = await send(owner, site.id, built('mkdir dist && node -p process.version > dist/index.html'))
  expect(accepted).toMatchObject({ status: 'queued', build_mode: null })
  const deploy = await w.ended(accepted.id, owner.key)
  expect(deploy).toMatchObject({ status: 'active', build_mode: 'build', file_count: 1, error: null, source_kind: 'archive' })
  expect(deploy.build_seconds).toBeGreaterThanOrEqual(1)
  expect(await minutes(owner)).toBe(before + Math.ceil(deploy.build_seconds / 60))
  expect((await w.call(`GET /api/v1/sites/${site.id}/manifest`, { key: owner.key })).body).toEqual([])
})

test('what a refused or failed build has stored leaves at once; its archive stays until its files are deleted', async () => {
  const project = await w.project('free')
  const site = await makeSite(w, project)
  const kept = await w.ended((await send(project, site.id, { 'index.html': 'kept '.repeat(MB / 3) })).id, project.key)
  expect(kept.status).toBe('active')
  const stored = async () => {
    await removeAbandonedUploads(w, new Date())
    const hashes: string[] = []
    for await (const batch of w.cas.list()) hashes.push(...batch)
    return hashes.sort()
  }
  const before = await stored()
  const over = await send(project, site.id, { 'index.html': 'over '.repeat(MB / 3) })
  expect(await w.ended(over.id, project.key)).toMatchObject({ status: 'failed', error: expect.stringContaining('quota') })
  const broken = await send(project, site.id, built('exit 3'))
  expect(await w.ended(broken.id, project.key)).toMatchObject({ status: 'failed' })
  expect(await stored()).toHaveLength(before.length + 2)
  for (const { id } of [over, broken]) await w.call(`DELETE /api/v1/deploys/${id}`, { key: project.key })
  expect(await stored()).toEqual(before)
})

test('an archive counts against the storage until its deploy has succeeded, and then what it has become', async () => {
  const project = await w.project('free')
  const [site, other] = [await makeSite(w, project), await makeSite(w, project)]
  const noise = () => randomBytes(1.2 * MB).toString('latin1')
  const slow = await send(project, site.id, { ...built('sleep 60'), noise: noise() })
  const second = await send(project, site.id, { 'index.html': 'x', noise: noise() })
  expect([slow.status, second.status]).toEqual(['queued', 'queued'])
  const stored = async () =>
    (await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })).body.usage.storage_bytes
  expect(await stored()).toBeGreaterThan(2.4 * MB)
  const refused = await w.call(`POST /api/v1/sites/${other.id}/deploys`, {
    key: project.key,
    bytes: files({ 'index.html': noise() }),
    type: 'application/gzip',
  })
  expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining('storage')])

  await cancelDeploy(slow.id)
  expect((await w.ended(slow.id, project.key)).status).toBe('failed')
  const { status, total_bytes } = await w.ended(second.id, project.key)
  expect(status).toBe('active')
  // the archive of the cancelled deploy has made room
  expect(await stored()).toBe(total_bytes)
})

test('B06 X01 X05: a build that fails keeps the live deploy and tells why, and counts minutes too', async () => {
  const site = await makeSite(w, owner)
  const live = await w.ended((await send(owner, site.id, { 'index.html': 'live' })).id, owner.key)
  const before = await minutes(owner)
  const accepted = await send(owner, site.id, built('echo the roof is missing && exit 3'))
  const deploy = await w.ended(accepted.id, owner.key)
  expect(deploy).toMatchObject({ status: 'failed', build_mode: 'build', error: expect.stringContaining('the roof is missing') })
  expect(await minutes(owner)).toBeGreaterThan(before)
  expect((await w.call(`GET /api/v1/sites/${site.id}`, { key: owner.key })).body.active_deploy_id).toBe(live.id)
})

test('B04 B07 V13 V14: files without a package.json are published as they are, without minutes', async () => {
  const project = await w.project('start')
  const site = await makeSite(w, project)
  const accepted = await send(project, site.id, { 'index.html': 'x', '.env': 'SECRET=1', '__svc/a': 'x', 'a/b.txt': 'b' })
  const deploy = await w.ended(accepted.id, project.key)
  expect(deploy).toMatchObject({ status: 'active', build_mode: 'static', build_seconds: null, file_count: 2 })
  expect(deploy.skipped_paths.sort()).toEqual(['.env', '__svc/a'])
  expect(await minutes(project)).toBe(0)
  const usage = await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })
  expect(usage.body.usage.storage_bytes).toBe(2)
})

test('B04 B06: files without a package.json and without an index.html fail with a message', async () => {
  const site = await makeSite(w, owner)
  const deploy = await w.ended((await send(owner, site.id, { 'a.txt': 'x' })).id, owner.key)
  expect(deploy).toMatchObject({ status: 'failed', error: expect.stringContaining('index.html') })
})

test('a build that the operator cancels in Temporal ends failed within seconds, and its processes are gone', async () => {
  const site = await makeSite(w, owner)
  const { id } = await send(owner, site.id, built('sleep 31.4159'))
  const sleeping = () => readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && commandOf(pid).includes('31.4159'))
  while (sleeping().length === 0) await pause(50)
  await cancelDeploy(id)
  const deploy = await w.ended(id, owner.key)
  expect(deploy).toMatchObject({ status: 'failed', error: expect.stringContaining('cancelled') })
  while (sleeping().length > 0) await pause(50)
})

test('D03: an archive that is built without publishing ends ready', async () => {
  const site = await makeSite(w, owner)
  const deploy = await w.ended((await send(owner, site.id, { 'index.html': 'x' }, '?activate=false')).id, owner.key)
  expect(deploy).toMatchObject({ status: 'ready', is_preview: true })
  expect((await w.call(`POST /api/v1/deploys/${deploy.id}/activate`, { key: owner.key })).body.status).toBe('active')
})

test('D04 E7: an archive that inflates beyond the storage quota fails with the text of the quota', async () => {
  const project = await w.project('free')
  const site = await makeSite(w, project)
  const deploy = await w.ended(
    (await send(project, site.id, { 'index.html': 'x', 'big.txt': 'a'.repeat(4 * MB) })).id,
    project.key,
  )
  expect(deploy).toMatchObject({ status: 'failed', error: expect.stringContaining('Free') })
})

test('D04 E7: an archive that fits alone, but not beside what is stored, fails with the text of the quota', async () => {
  const project = await w.project('free')
  const site = await makeSite(w, project)
  const tree = (letter: string) => ({ 'index.html': 'x', 'big.txt': letter.repeat(2 * MB) })
  expect((await w.ended((await send(project, site.id, tree('a'))).id, project.key)).status).toBe('active')
  const deploy = await w.ended((await send(project, site.id, tree('b'))).id, project.key)
  expect(deploy).toMatchObject({ status: 'failed', error: expect.stringContaining('Free') })
})

test('B06: a package.json in UTF-16 fails with a text that says so, and the next deploy of the site is built', async () => {
  const site = await makeSite(w, owner)
  const json = JSON.stringify({ name: 'x', version: '1.0.0', scripts: { build: 'true' } })
  const utf16 = tarGz([{ name: 'package.json', data: Buffer.from(`\uFEFF${json}`, 'utf16le') }])
  const request = `POST /api/v1/sites/${site.id}/deploys`
  const { body } = await w.call(request, { key: owner.key, bytes: utf16, type: 'application/gzip' })
  const ended = await w.ended(body.id, owner.key)
  expect([ended.status, ended.error]).toEqual(['failed', expect.stringContaining('package.json is not in UTF-8')])
  const next = await send(owner, site.id, { 'index.html': 'next' })
  expect((await w.ended(next.id, owner.key)).status).toBe('active')
})

test('a build whose result PostgreSQL refuses fails, and its permit goes to the next deploy of the site', async () => {
  const site = await makeSite(w, owner)
  await using _refused = await refuseReady(w, site.id)
  const [first, second] = [
    await send(owner, site.id, { 'index.html': '1' }),
    await send(owner, site.id, { 'readme.txt': 'has no index.html' }),
  ]
  const ended = await w.ended(first.id, owner.key)
  const error = 'a step of the platform failed (PostgreSQL refused it, SQLSTATE 22P05); deploy again'
  expect([ended.status, ended.error]).toEqual(['failed', expect.stringContaining(error)])
  expect((await w.ended(second.id, owner.key)).error).toContain('no index.html')
})

test('B06: a build whose output has NULs fails with its last lines, without the NULs', async () => {
  const site = await makeSite(w, owner)
  const { id } = await send(owner, site.id, built(`printf 'a\\000b\\n'; exit 1`))
  const ended = await w.ended(id, owner.key)
  expect([ended.status, ended.error.includes('\0')]).toEqual(['failed', false])
})
