import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { execa } from 'execa'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createVisits } from '../../infra/crypto/visits.ts'
import { openDatabase } from '../../infra/db/database.ts'
import { reachableFolder } from '../../infra/local/place.ts'
import { freePort } from '../../infra/local/ports.ts'
import { runningPostgresUrl } from '../../infra/local/postgres.ts'
import { ask } from '../edge/test-edge.ts'
import { ok, type Platform, report, type Site, startPlatform } from './platform.ts'

// Check 36, by the commands of README.md.

const root = resolve(import.meta.dirname, '../..')
const siteCount = 3

let dir: string
let platform: Platform | undefined
/** Of both databases, so that edges of the old installation find the restored one. */
let settings: { readonly PLINTH_POSTGRES_PORT: string }
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-backup-'))
  settings = { PLINTH_POSTGRES_PORT: String(await freePort()) }
  platform = await startPlatform({ folder: dir, settings })
})
afterAll(async () => {
  await platform?.[Symbol.asyncDispose]()
  await rm(dir, { recursive: true, force: true })
})

const contentOf = (site: Site, version: number) => `${site.host}, version ${version}`
const filesOf = (site: Site, version: number) =>
  Array.from({ length: 20 }, (_, i) => ({
    path: i === 0 ? 'index.html' : `${i}.txt`,
    content: `${contentOf(site, version)}, file ${i}`,
  }))

async function deploy(running: Platform, site: Site, version: number): Promise<string> {
  const json = { files: filesOf(site, version) }
  return (await ok(running.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: site.key, json }))).id
}

const run = (script: string, args: readonly string[], dataDir: string) =>
  execa('npm', ['run', '--silent', script, '--', ...args], { cwd: root, env: { PLINTH_DATA_DIR: dataDir } })

/** Two edges with snapshots of their own, which run on while the platform is replaced. */
async function startOldEdges({ config }: Platform): Promise<readonly number[] & AsyncDisposable> {
  const { platformDomain, base: baseUrl, preview: previewUrl } = config.urls
  const databaseUrl = await databaseOf(config.dataDir)
  const options = JSON.stringify({ platformDomain, baseUrl, previewUrl, databaseUrl })
  const key = (await readFile(join(config.dataDir, 'secret-key'), 'utf8')).trim()
  await using opened = new AsyncDisposableStack()
  const ports: number[] = []
  for (const name of ['edge-1', 'edge-2']) {
    const child = fork(join(import.meta.dirname, 'edge-process.ts'), [options, config.storage.url, join(dir, name), key])
    opened.defer(() => void child.kill('SIGKILL'))
    ports.push(((await once(child, 'message')) as [number])[0])
  }
  const stack = opened.move()
  return Object.assign(ports, { [Symbol.asyncDispose]: () => stack.disposeAsync() })
}

async function databaseOf(dataDir: string): Promise<string> {
  const url = await runningPostgresUrl(join(await reachableFolder(dataDir), 'postgres'))
  if (url === undefined) throw new Error('PostgreSQL does not run')
  return url
}

/** Lets an address in, and answers its id and the headers of its visit. */
async function visitor(running: Platform, site: Site, email: string) {
  await ok(running.call(`POST /api/v1/sites/${site.id}/access/emails`, { key: site.key, json: { email } }))
  await using database = openDatabase(await databaseOf(running.config.dataDir))
  const ofSite = database.db.selectFrom('access_locks').where('access_locks.site_id', '=', site.id)
  const { epoch, id: subject } = await ofSite
    .innerJoin('access_emails', 'access_emails.site_id', 'access_locks.site_id')
    .select(['access_locks.epoch', 'access_emails.id'])
    .where('access_emails.email', '=', email)
    .executeTakeFirstOrThrow()
  const key = await readFile(join(running.config.dataDir, 'secret-key'), 'utf8')
  const until = new Date(Date.now() + 3_600_000)
  const place = { site_id: site.id, host: site.host.replace(/:\d+$/, ''), epoch }
  const visit = createVisits(Buffer.from(key, 'base64')).issue(place, { subject, generation: 0, consent: 0, until })
  return { subject, headers: { cookie: `svc_s=${visit}` } }
}

/** Waits until each edge answers the visitor with the status. Answers how many milliseconds that took. */
async function answered(ports: readonly number[], { host }: Site, headers: Record<string, string>, status: number) {
  const startedAt = performance.now()
  const statuses = async () => await Promise.all(ports.map(async (port) => (await ask(port, '/', { host, headers })).status))
  await expect.poll(statuses, { timeout: 60_000, interval: 10 }).toEqual(ports.map(() => status))
  return Math.round(performance.now() - startedAt)
}

test('36 E36: a backup taken during deploys brings back every acknowledged deploy and every active file, and edges that ran before let nobody in who is out', async () => {
  const before = platform as Platform
  const sites = await Promise.all(Array.from({ length: siteCount }, (_, n) => before.emptySite(`backup-${n}`)))
  for (const site of sites) await before.reaches(site, await deploy(before, site, 0))
  const closed = await before.emptySite('backup-closed')
  await before.reaches(closed, await deploy(before, closed, 0))
  await ok(before.call(`POST /api/v1/sites/${closed.id}/access/email-mode`, { key: closed.key, json: {} }))
  await using oldEdges = await startOldEdges(before)
  const ada = await visitor(before, closed, 'ada@example.com')
  await answered(oldEdges, closed, ada.headers, 200)
  const over = new AbortController()
  const deploys = sites.map(() => [] as string[])
  const deploying = sites.map(async (site, n) => {
    for (let version = 1; !over.signal.aborted; version++) {
      deploys[n]?.push(await deploy(before, site, version))
      await pause(200)
    }
  })
  while (deploys.some((made) => made.length < 3)) await pause(20)
  const acknowledged = deploys.map((made) => made.length)
  const backup = join(dir, 'backup')
  await run('backup', [backup], before.config.dataDir)
  const later = deploys.map((made) => made.length)
  over.abort()
  await Promise.all(deploying)
  // many more versions of its route than the backup has
  for (let i = 0; i < 20; i++) {
    await ok(before.call(`PATCH /api/v1/sites/${closed.id}`, { key: closed.key, json: { enabled: i % 2 === 1 } }))
  }
  await answered(oldEdges, closed, ada.headers, 200)
  await before[Symbol.asyncDispose]()
  platform = undefined

  const startedAt = performance.now()
  const restored = join(dir, 'restored')
  await run('restore', [backup], join(restored, 'data'))
  await using after = await startPlatform({ folder: restored, settings })
  const signedOut = await answered(oldEdges, closed, ada.headers, 401)
  const eve = await visitor(after, closed, 'eve@example.com')
  const letIn = await answered(oldEdges, closed, eve.headers, 200)
  await ok(after.call(`DELETE /api/v1/sites/${closed.id}/access/emails/${eve.subject}`, { key: closed.key }))
  const shutOut = await answered(oldEdges, closed, eve.headers, 401)
  const took = `${signedOut} ms until visitors are signed out, ${letIn} until a new one is in, ${shutOut} until out again`
  report('E36', `two edges of before the restore: ${took}`, '5000 ms')
  const versionOf = async (site: Site) =>
    Number(/version (\d+)/.exec((await after.call('GET /', { host: site.host })).body as string)?.[1])
  for (const [n, site] of sites.entries()) {
    const list = (await ok(after.call(`GET /api/v1/sites/${site.id}/deploys?limit=200`, { key: site.key }))) as { id: string }[]
    const ids = list.map(({ id }) => id)
    // what was acknowledged before the backup began is there, and all of it ends
    expect(deploys[n]?.slice(0, acknowledged[n]).filter((id) => !ids.includes(id))).toEqual([])
    const ended = ['active', 'superseded', 'failed']
    for (const id of ids) expect((await after.reaches(site, id, ended)).status).not.toBe('failed')
    const newest = ids.length - 1
    await expect.poll(() => versionOf(site), { timeout: 60_000 }).toBe(newest)
    for (const { path, content } of filesOf(site, newest)) {
      const served = await after.call(`GET /${path === 'index.html' ? '' : path}`, { host: site.host })
      expect([path, served.status, served.body]).toEqual([path, 200, content])
    }
  }
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  report(
    '36',
    `restored, started and all ${siteCount * 20} active files compared in ${seconds} s; ${later.join(', ')} deploys during it`,
    '300 s',
  )
  expect(performance.now() - startedAt).toBeLessThan(300_000)
}, 900_000)
