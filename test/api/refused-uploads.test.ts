import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readdir, rename, utimes, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { uploadPeriodMs } from '../../core/limits.ts'
import { defaultPlans } from '../../core/plans.ts'
import { removeAbandonedUploads } from '../../services/storage/sweep.ts'
import { tarGz } from '../infra/archives.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

const MB = 1024 * 1024

let w: World
let attacker: TestProject
let site: any
beforeAll(async () => {
  const free = { ...defaultPlans.free, deploys_per_hour: 1000, storage_bytes: 2 * MB }
  w = await world({ plans: { ...defaultPlans, free } })
  attacker = await w.project('free')
  site = await makeSite(w, attacker)
})
afterAll(() => w?.[Symbol.asyncDispose]())

const hashOf = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex')
async function storedFiles(): Promise<string[]> {
  const entries = await readdir(join(w.dir, 'cas'), { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}
const usage = async (project = attacker) =>
  (await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })).body.usage.storage_bytes
const uploads = () => w.db.selectFrom('uploads').selectAll().execute()
const key = () => attacker.key
const octets = 'application/octet-stream'
const randomFiles = (count: number, bytes: number) =>
  Array.from({ length: count }, (_, i) => ({
    path: `${i}.bin`,
    content: randomBytes(bytes).toString('base64'),
    encoding: 'base64',
  }))
const sendFiles = (files: object[]) => w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: key(), json: { files } })
const largeArchive = () => tarGz([{ name: 'index.html', data: randomBytes(3 * MB) }])
const hexText = (bytes: number) => randomBytes(bytes / 2).toString('hex')
const statusOfTool = async (name: string, args: object) => (await w.tool(name, args, key())).structuredContent.status
const sendArchive = (bytes: Buffer) =>
  w.call(`POST /api/v1/sites/${site.id}/deploys`, { key: key(), bytes, type: 'application/gzip' })

describe('a refused request leaves no file and no byte of usage', () => {
  test.each<[string, number, () => Promise<{ status: number }>]>([
    ['files over the storage quota', 409, () => sendFiles([page('over'), ...randomFiles(100, 30_000)])],
    [
      'long texts over the storage quota',
      409,
      () =>
        sendFiles([page('over'), ...[1, 2, 3].map((n) => ({ path: `${n}.txt`, content: randomBytes(MB / 2).toString('hex') }))]),
    ],
    [
      'files beside a reference to a blob that the project does not have',
      400,
      () => sendFiles([page('x'), ...randomFiles(100, 100), { path: 'y', sha256: 'a'.repeat(64) }]),
    ],
    [
      'a long text that is no base64',
      400,
      () =>
        sendFiles([page('x'), ...randomFiles(100, 100), { path: 'y', content: `${'A'.repeat(20_000)}!`, encoding: 'base64' }]),
    ],
    ['an archive of bytes that are none', 400, () => sendArchive(randomBytes(100_000))],
    ['an archive over the storage quota', 409, () => sendArchive(largeArchive())],
    [
      'a blob of another hash',
      400,
      () => w.call(`PUT /api/v1/blobs/${'b'.repeat(64)}`, { key: key(), bytes: randomBytes(50_000), type: octets }),
    ],
    [
      'a blob over the storage quota',
      409,
      () => {
        const bytes = randomBytes(3 * MB)
        return w.call(`PUT /api/v1/blobs/${hashOf(bytes)}`, { key: key(), bytes, type: octets })
      },
    ],
  ])('%s', async (_what, status, send) => {
    const before = [await storedFiles(), await usage()]
    for (let i = 0; i < 3; i++) expect((await send()).status).toBe(status)
    expect([await storedFiles(), await usage()]).toEqual(before)
    expect(await uploads()).toEqual([])
  })

  test.each<[string, () => Promise<number>]>([
    ['an archive', async () => (await sendArchive(largeArchive())).status],
    [
      'an archive in base64',
      () => statusOfTool('deploy_site', { site_id: site.id, source_base64: largeArchive().toString('base64') }),
    ],
    ['long texts', async () => (await sendFiles([page('x'), { path: 'y.txt', content: hexText(3 * MB) }])).status],
    ['long base64', async () => (await sendFiles([page('x'), ...randomFiles(3, MB)])).status],
    ['long texts of a tool', () => statusOfTool('deploy_files', { site_id: site.id, files: [page('x'), ...randomFiles(3, MB)] })],
  ])('%s over the storage quota: refused before anything is stored', async (_what, send) => {
    const incoming = join(w.dir, 'cas', 'incoming')
    await rename(incoming, `${incoming}-away`)
    try {
      // what is written now fails otherwise
      expect(await send()).toBe(409)
    } finally {
      await rename(`${incoming}-away`, incoming)
    }
  })

  test('long texts that the project has already add nothing to its storage', async () => {
    const project = await w.project('free')
    const { id } = await makeSite(w, project)
    const files = [page('x'), { path: 'y.txt', content: hexText(1.5 * MB) }]
    const send = () => w.call(`POST /api/v1/sites/${id}/deploy-files`, { key: project.key, json: { files } })
    expect([(await send()).status, (await send()).status]).toEqual([200, 200])
  })

  test('requests that race for the last deploys of the hour leave only what was accepted', async () => {
    const quota = { ...defaultPlans.free, deploys_per_hour: 2 }
    await using few = await world({ plans: { ...defaultPlans, free: quota }, worker: false })
    const project = await few.project('free')
    const { id } = await makeSite(few, project)
    const puts = Array.from({ length: 10 }, (_, i) => {
      const json = { files: [page(`race ${i}`)] }
      return few.call(`POST /api/v1/sites/${id}/deploy-files`, { key: project.key, json })
    })
    const statuses = (await Promise.all(puts)).map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(2)
    const hashes: string[] = []
    for await (const batch of few.cas.list()) hashes.push(...batch)
    // a page and a manifest of each
    expect(hashes).toHaveLength(4)
    expect(await readdir(join(few.dir, 'cas', 'incoming'))).toEqual([])
  })
})

describe('bytes on their way', () => {
  test('count for the project until the request is over, and others that do not fit beside them are refused', async () => {
    const before = await usage()
    const large = randomBytes(1.5 * MB)
    const { hostname, port } = new URL(w.base)
    const headers = { authorization: `Bearer ${key()}`, 'content-type': octets, 'content-length': large.length }
    const outgoing = request({ hostname, port, method: 'PUT', path: `/api/v1/blobs/${hashOf(large)}`, headers })
    outgoing.on('error', () => undefined)
    outgoing.write(large.subarray(0, 1000))
    await expect.poll(() => usage()).toBe(before + large.length)
    const other = randomBytes(MB)
    const put = () => w.call(`PUT /api/v1/blobs/${hashOf(other)}`, { key: key(), bytes: other, type: octets })
    expect((await put()).status).toBe(409)
    outgoing.destroy()
    await new Promise((resolve) => outgoing.once('close', resolve))
    await expect.poll(() => usage()).toBe(before)
    expect((await put()).status).toBe(200)
    expect(await usage()).toBe(before + other.length)
  })

  test('that nobody has announced count as they arrive', async () => {
    const project = await w.project('pro')
    const { hostname, port } = new URL(w.base)
    const headers = { authorization: `Bearer ${project.key}`, 'content-type': octets }
    const outgoing = request({ hostname, port, method: 'PUT', path: `/api/v1/blobs/${'c'.repeat(64)}`, headers })
    outgoing.on('error', () => undefined)
    outgoing.write(randomBytes(3 * MB))
    await expect.poll(() => usage(project)).toBeGreaterThanOrEqual(3 * MB)
    outgoing.destroy()
    await expect.poll(() => usage(project)).toBe(0)
  })

  test('end after some minutes when their process was killed, with the files that it had written', async () => {
    const before = await storedFiles()
    const left = join(w.dir, 'cas', 'incoming', 'of-a-killed-process')
    await mkdir(left)
    await writeFile(join(left, 'half'), 'half')
    const started_at = new Date(Date.now() - uploadPeriodMs - 60_000)
    await utimes(left, started_at, started_at)
    const project = await w.project('pro')
    await w.db.insertInto('uploads').values({ project_id: project.id, bytes: 5000, started_at }).execute()
    expect(await usage(project)).toBe(5000)
    await removeAbandonedUploads(w, new Date())
    expect([await usage(project), await storedFiles()]).toEqual([0, before])
  })
})

test('what was accepted stays when the same bytes are refused elsewhere', async () => {
  const content = `<title>shared</title>${randomBytes(1000).toString('hex')}`
  await deployFiles(w, attacker, site.id, [{ path: 'index.html', content }])
  const refusing = await sendFiles([
    { path: 'index.html', content },
    { path: 'y', sha256: 'a'.repeat(64) },
  ])
  expect(refusing.status).toBe(400)
  await removeAbandonedUploads(w, new Date())
  expect(await w.cas.stat(hashOf(content))).toBeDefined()
})
