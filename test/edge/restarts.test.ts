import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openEdge } from '../../edge/edge.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import { killEdge } from '../hostile/killed-edge.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { secretKey, type TestProject, type World, world } from '../world.ts'
import { log } from './test-edge.ts'

// An edge starts with a snapshot that lacks the last changes.

let w: World
let project: TestProject
let dir: string
const stack = new AsyncDisposableStack()
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-restarts-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  w = stack.use(await world())
  project = await w.project('enterprise')
})
afterAll(() => stack.disposeAsync())

test('E36: an edge that is killed and starts again shows no older page, and none of a site that was closed or removed before', async () => {
  const { visits, older, open, removed } = await killEdge(w, project, 2)
  expect(visits).toBeGreaterThan(100)
  expect([older, open, removed]).toEqual([0, 0, 0])
}, 300_000)

describe('visits of an edge that starts', () => {
  let names = 0
  const optionsOf = (databaseUrl: string, snapshotDir: string) => {
    const { platformDomain, base: baseUrl, preview: previewUrl } = w.config.urls
    const certificates = { secretKey, listen: { port: 0 }, isPlatformHost: () => false, isLocalAuthority: false }
    const listen = { path: join(dir, `${names++}.sock`) }
    return { platformDomain, baseUrl, previewUrl, databaseUrl, cas: w.cas, snapshotDir, certificates, listen, log }
  }

  /** A site whose snapshot lacks its second deploy. */
  async function outdatedSite() {
    const snapshotDir = join(dir, `snapshot-${names++}`)
    const { id, subdomain } = await makeSite(w, project)
    await deployFiles(w, project, id, [page('first')])
    {
      await using _edge = await openEdge(optionsOf(w.database.url, snapshotDir))
    }
    await deployFiles(w, project, id, [page('second')])
    return { id, snapshotDir, host: `${subdomain}.${w.config.urls.platformDomain}` }
  }

  /** Starts an edge and visits it as soon as it takes connections. */
  async function visitStarting(databaseUrl: string, { snapshotDir, host }: { snapshotDir: string; host: string }) {
    const options = optionsOf(databaseUrl, snapshotDir)
    const starting = openEdge(options)
    const startedAt = performance.now()
    const takesConnections = async () => {
      const probe = connect(options.listen.path)
      return await once(probe, 'connect')
        .then(
          () => true,
          () => false,
        )
        .finally(() => probe.destroy())
    }
    await waitUntil('the socket', takesConnections, { timeoutMs: 60_000 })
    const outgoing = request({ socketPath: options.listen.path, headers: { host }, agent: false }).end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    const answer = { status: response.statusCode, body: await text(response), ms: performance.now() - startedAt }
    await using _edge = await starting
    return answer
  }

  test('wait until it has the latest deploy, however long PostgreSQL takes for each of its answers', async () => {
    const site = await outdatedSite()
    await using slow = await openProxy(w.database.url, 100)
    const { body, ms } = await visitStarting(slow.url, site)
    expect(body).toContain('second')
    expect(ms).toBeGreaterThan(1000)
  })

  test('are answered from the snapshot when PostgreSQL accepts connections and says nothing for a second', async () => {
    const site = await outdatedSite()
    await using silent = await openProxy(w.database.url, Number.POSITIVE_INFINITY)
    const { body, ms } = await visitStarting(silent.url, site)
    expect(body).toContain('first')
    expect(ms).toBeGreaterThan(900)
  })

  test('do not see a site that was removed for good', async () => {
    const site = await outdatedSite()
    await w.db.transaction().execute(async (tx) => {
      // rows that refer to it stay
      await sql`set local session_replication_role = replica`.execute(tx)
      await tx.deleteFrom('sites').where('id', '=', site.id).execute()
    })
    expect((await visitStarting(w.database.url, site)).status).toBe(404)
  })
})

/** A way to the database on which each answer takes so many milliseconds longer. */
async function openProxy(databaseUrl: string, delayMs: number) {
  const target = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const upstream = connect(Number(target.port), target.hostname)
    for (const one of [socket, upstream]) {
      sockets.add(one)
      one.on('error', () => undefined)
    }
    socket.pipe(upstream).on('close', () => socket.destroy())
    socket.on('close', () => upstream.destroy())
    if (Number.isFinite(delayMs)) upstream.on('data', (chunk) => void pause(delayMs).then(() => socket.write(chunk)))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(databaseUrl)
  const address = server.address()
  url.hostname = '127.0.0.1'
  url.port = String(typeof address === 'object' ? address?.port : '')
  return {
    url: url.href,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
