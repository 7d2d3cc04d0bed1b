import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, statfs, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { claimDataDir } from '../../infra/local/data-dir.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import { tarGz } from '../infra/archives.ts'
import { ok, type Platform, report, type Site, startPlatform } from './platform.ts'
import { readObjects } from './stored-objects.ts'

// Check 22. The storage, and the snapshots of the edge, lie on small volumes of their own, which a file fills.

const volumes = [
  ['cas', '32m'],
  ['edge', '1m'],
] as const
const MiB = 1024 * 1024

let dir: string
let platform: Platform | undefined
let site: Site
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-full-'))
  await (await claimDataDir(join(dir, 'data')))[Symbol.asyncDispose]()
  for (const [name, size] of volumes) {
    await mkdir(volumeOf(name), { recursive: true })
    await execa('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=0711`, 'tmpfs', volumeOf(name)])
  }
  platform = await startPlatform({ folder: dir })
  site = await platform.emptySite('cas-full')
})
afterAll(async () => {
  await platform?.[Symbol.asyncDispose]()
  for (const [name] of volumes) await execa('umount', ['--lazy', volumeOf(name)])
  await rm(dir, { recursive: true, force: true })
})

const volumeOf = (name: string) => join(dir, 'data', name)
const fillerOf = (name: string) => join(volumeOf(name), 'filler')
const visit = async (path = '/') => (await (platform as Platform).call(`GET ${path}`, { host: site.host })).body

/** Leaves so many bytes free. */
async function fill(name: string, freeBytes = 0): Promise<void> {
  const { bavail, bsize } = await statfs(volumeOf(name))
  await writeFile(fillerOf(name), Buffer.alloc(Math.max(0, bavail * bsize - freeBytes)))
}

async function publish(content: string): Promise<void> {
  const running = platform as Platform
  const json = { files: [{ path: 'index.html', content }] }
  await ok(running.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: site.key, json }))
  await waitUntil(content, async () => (await visit()) === content, { timeoutMs: 30_000 })
}

/** What lies in the storage under a name that is not that of its bytes, and what writes have left. */
async function halfWritten(): Promise<string[]> {
  const { wrong } = await readObjects(volumeOf('cas'))
  return [...wrong, ...(await readdir(join(volumeOf('cas'), 'incoming')))]
}

test('22: with the disk of the storage full uploads are refused with a message, sites are served, and freed space brings everything back', async () => {
  const running = platform as Platform
  const { key, id } = site
  await publish('before')
  const bytes = randomBytes(2 * MiB)
  const archive = (...files: { name: string; data: string | Buffer }[]) => ({
    key,
    bytes: tarGz(files),
    type: 'application/gzip',
  })
  const blob = `PUT /api/v1/blobs/${createHash('sha256').update(bytes).digest('hex')}`
  const large = { path: 'large.bin', content: bytes.toString('base64'), encoding: 'base64' }
  const uploads = () => [
    running.call(blob, { key, bytes }),
    running.call(`POST /api/v1/sites/${id}/deploy-files`, {
      key,
      json: { files: [{ path: 'index.html', content: 'x' }, large] },
    }),
    running.call(
      `POST /api/v1/sites/${id}/deploys`,
      archive({ name: 'index.html', data: 'x' }, { name: 'large.bin', data: bytes }),
    ),
  ]
  await fill('cas', MiB)
  await fill('edge')
  const refused = await Promise.all(uploads())
  for (const { status, body } of refused) expect([status, Object.keys(body)]).toEqual([503, ['message']])
  expect(await halfWritten()).toEqual([])
  expect(await visit()).toBe('before')
  // a page fits, and is served although the edge can write no snapshot
  await publish('between')

  // the source fits, and what the build makes of it does not
  const script =
    "fs.mkdirSync('dist');fs.writeFileSync('dist/index.html','built');fs.writeFileSync('dist/large.bin',crypto.randomBytes(4<<20))"
  const scripts = { build: `node -e "${script}"` }
  const source = archive({ name: 'package.json', data: JSON.stringify({ name: 'x', version: '1.0.0', scripts }) })
  const build = await ok(running.call(`POST /api/v1/sites/${id}/deploys`, source))
  const failed = await running.reaches(site, build.id)
  expect([failed.status, failed.error]).toEqual(['failed', expect.stringContaining('storage is full')])
  expect(await halfWritten()).toEqual([])
  expect(await visit()).toBe('between')

  for (const [name] of volumes) await rm(fillerOf(name))
  const freedAt = performance.now()
  for (const answer of await Promise.all(uploads())) await ok(Promise.resolve(answer))
  const again = await ok(running.call(`POST /api/v1/sites/${id}/deploys`, source))
  expect((await running.reaches(site, again.id, ['active', 'failed'])).status).toBe('active')
  await waitUntil('the edge', async () => (await visit()) === 'built', { timeoutMs: 30_000 })
  const seconds = ((performance.now() - freedAt) / 1000).toFixed(1)
  report(
    '22',
    `answers ${refused.map(({ status }) => status).join(', ')}, nothing half written, back ${seconds} s after space was freed`,
    '503, 0',
  )
})
