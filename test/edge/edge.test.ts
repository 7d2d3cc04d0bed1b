import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { type IncomingMessage, type RequestListener, request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { edgeLimits, openEdge } from '../../edge/edge.ts'
import { openRouteTable } from '../../edge/routes.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { openDiskCas } from '../../infra/cas/disk.ts'
import { loadConfig } from '../../infra/config.ts'
import { type Db, openDatabase } from '../../infra/db/database.ts'
import { openServer } from '../../infra/listen.ts'
import { freePort } from '../../infra/local/ports.ts'
import { bumpRoutes } from '../../services/feeds/routes.ts'
import { createDatabase } from '../database.ts'
import { ask, baseUrl, log, platformDomain, previewUrl, routeOf, storeFiles } from './test-edge.ts'

const nobody = 'postgres://nobody@127.0.0.1:1/nothing'

let dir: string
let cas: Cas
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-edge-'))
  cas = await openDiskCas(join(dir, 'cas'))
})
afterEach(() => rm(dir, { recursive: true }))

const optionsOf = (databaseUrl: string) => ({
  platformDomain,
  baseUrl,
  previewUrl,
  databaseUrl,
  cas,
  snapshotDir: join(dir, 'routes'),
  log,
})

/** Leaves a snapshot with one site behind. */
async function writeSnapshot(): Promise<void> {
  await using table = await openRouteTable({ platformDomain, snapshotDir: join(dir, 'routes'), log })
  table.apply([routeOf('site', await storeFiles(cas, { 'index.html': 'home' }))], [])
}

/** The site `site.plinth.test` of a new project. */
async function insertSite(db: Db): Promise<{ id: string; project_id: string }> {
  const project = { name: 'p', owner_email: 'o@p.test', plan: 'free' } as const
  const { id: project_id } = await db.insertInto('projects').values(project).returning('id').executeTakeFirstOrThrow()
  const site = { project_id, name: 's', subdomain: 'site' }
  const { id } = await db.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()
  await bumpRoutes(db, { site_id: id })
  return { id, project_id }
}

/** Makes `deploy <seq>` the home page. */
async function activate(db: Db, { id: site_id, project_id }: { id: string; project_id: string }, seq: number): Promise<void> {
  const manifest_sha256 = await storeFiles(cas, { 'index.html': `deploy ${seq}` })
  const how = { seq, source_kind: 'files', activate: true, is_preview: false, manifest_sha256 } as const
  const deploy = await db
    .insertInto('deploys')
    .values({ site_id, project_id, ...how })
    .returning('id')
    .executeTakeFirstOrThrow()
  await db.updateTable('sites').set({ active_deploy_id: deploy.id }).where('id', '=', site_id).execute()
  await bumpRoutes(db, { site_id })
}

async function getOverSocket(socketPath: string, path = '/'): Promise<{ status: number | undefined; body: string }> {
  const outgoing = request({ socketPath, path, headers: { host: `site.${platformDomain}` }, agent: false }).end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  return { status: response.statusCode, body: await text(response) }
}

test('a start without PostgreSQL serves the sites of the snapshot, and 503 for others', async () => {
  await writeSnapshot()
  await using edge = await openEdge({ ...optionsOf(nobody), listen: { port: 0 } })
  const port = edge.port ?? 0
  expect((await ask(port, '/')).body.toString()).toBe('home')
  const unknown = await ask(port, '/', { host: `other.${platformDomain}` })
  expect([unknown.status, unknown.headers['cache-control']]).toEqual([503, 'no-store'])
})

test('S07 V15 V16: a site of the database is served, and follows its deploys and its switch', async () => {
  await using database = await createDatabase()
  await using opened = openDatabase(database.url)
  const { db } = opened
  await using edge = await openEdge({ ...optionsOf(database.url), listen: { port: 0 } })
  const get = async () => {
    const { status, body } = await ask(edge.port ?? 0, '/')
    return `${status} ${body.toString()}`
  }
  const until = (answer: string | RegExp) =>
    vi.waitFor(async () => expect(await get()).toMatch(answer), { timeout: 60_000, interval: 10 })
  await until(/^404 .*There is no site at this address/s)

  const site = await insertSite(db)
  await until(/^404 .*Nothing is published here yet/s)

  for (const seq of [1, 2]) {
    await activate(db, site, seq)
    await until(`200 deploy ${seq}`)
  }

  await db.updateTable('sites').set({ enabled: false }).where('id', '=', site.id).execute()
  await bumpRoutes(db, { site_id: site.id })
  await until(/^503 .*temporarily unavailable/s)
})

describe('the socket', () => {
  test('is made with its folder, and is gone after the end', async () => {
    await writeSnapshot()
    const path = join(dir, 'sockets', 'edge.sock')
    {
      await using _edge = await openEdge({ ...optionsOf(nobody), listen: { path } })
      expect((await stat(join(dir, 'sockets'))).mode & 0o777).toBe(0o700)
      expect(await getOverSocket(path)).toEqual({ status: 200, body: 'home' })
    }
    await expect(stat(path)).rejects.toThrow('ENOENT')
  })

  test('that a killed process left is replaced', async () => {
    await writeSnapshot()
    const path = join(dir, 'edge.sock')
    const script = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`
    await once(spawn(process.execPath, ['-e', script]), 'exit')
    expect((await stat(path)).isSocket()).toBe(true)
    await using _edge = await openEdge({ ...optionsOf(nobody), listen: { path } })
    expect((await getOverSocket(path)).status).toBe(200)
  })

  test('of a process that still serves is left alone', async () => {
    const path = join(dir, 'edge.sock')
    await using _first = await openServer((_req, res) => res.end('first'), { path }, edgeLimits)
    await expect(openServer(() => undefined, { path }, edgeLimits)).rejects.toThrow('another process already serves')
    expect((await getOverSocket(path)).body).toBe('first')
  })

  test('whose place a file has is an error', async () => {
    await writeFile(join(dir, 'file'), '')
    await expect(openServer(() => undefined, { path: join(dir, 'file', 'edge.sock') }, edgeLimits)).rejects.toThrow()
  })
})

test('at the end a running response is finished and idle connections are closed', async () => {
  const arrived = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const path = join(dir, 'edge.sock')
  const listener: RequestListener = (_req, res) => {
    arrived.resolve()
    void release.promise.then(() => res.end('late'))
  }
  const server = await openServer(listener, { path }, edgeLimits)
  const idle = connect(path)
  await once(idle, 'connect')
  const running = getOverSocket(path)
  await arrived.promise
  const closed = server[Symbol.asyncDispose]()
  release.resolve()
  expect(await running).toEqual({ status: 200, body: 'late' })
  await closed
  if (!idle.closed) await once(idle, 'close')
})

test('the process serves on its socket, deploy after deploy, until SIGTERM, then ends by itself', async () => {
  await using database = await createDatabase()
  await using opened = openDatabase(database.url)
  const site = await insertSite(opened.db)
  const env = {
    PLINTH_DATA_DIR: dir,
    PLINTH_STORAGE_URL: pathToFileURL(join(dir, 'cas')).href,
    PLINTH_PLATFORM_DOMAIN: platformDomain,
    PLINTH_DATABASE_URL: database.url,
    PLINTH_SECRET_KEY: Buffer.alloc(32, 'key').toString('base64'),
    PLINTH_CERTIFICATES_PORT: `${await freePort()}`,
  }
  const { sockets } = loadConfig(env)
  const child = spawn(process.execPath, ['edge/main.ts'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const lines = text(child.stdout)
    // past version 10, which would be lower than 9 if versions were compared as text
    for (let seq = 1; seq <= 12; seq++) {
      await activate(opened.db, site, seq)
      const served = async () => expect((await getOverSocket(sockets.edge)).body).toBe(`deploy ${seq}`)
      await vi.waitFor(served, { timeout: 60_000, interval: 10 })
    }
    child.kill('SIGTERM')
    const [code] = await once(child, 'exit')
    expect(code).toBe(0)
    const messages = (await lines)
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).msg)
    expect(messages).toContain('edge started')
    expect(messages).not.toContain('request answered')
  } finally {
    child.kill('SIGKILL')
    await rm(sockets.dir, { recursive: true, force: true })
  }
})

test('without a database address the process says which setting is missing', async () => {
  const child = spawn(process.execPath, ['edge/main.ts'], { env: { PLINTH_DATA_DIR: dir }, stdio: ['ignore', 'ignore', 'pipe'] })
  const message = await text(child.stderr)
  expect(message).toMatch('PLINTH_DATABASE_URL')
  expect(message).not.toMatch('    at ')
})
