import { readFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openEdge } from '../../edge/edge.ts'
import { rootCertificateFile } from '../../infra/caddy/config.ts'
import { openDiskCas } from '../../infra/cas/disk.ts'
import { required } from '../../infra/config.ts'
import { type OpenedDatabase, openDatabase } from '../../infra/db/database.ts'
import { bumpRoutes } from '../../services/feeds/routes.ts'
import { createDatabase } from '../database.ts'
import { openCaddy } from './caddy-edge.ts'
import { ask, log, platformDomain, previewUrl, storeFiles } from './test-edge.ts'

// Custom domains without a public authority, through a real Caddy.

const stack = new AsyncDisposableStack()
const soon = { interval: 100 }
let caddy: Awaited<ReturnType<typeof openCaddy>>
let opened: OpenedDatabase
let project_id: string
let site_id: string

beforeAll(async () => {
  caddy = stack.use(await openCaddy())
  const { config } = caddy
  const database = stack.use(await createDatabase())
  opened = stack.use(openDatabase(database.url))
  const cas = await openDiskCas(join(config.dataDir, 'cas'))
  const project = { name: 'p', owner_email: 'o@p.test', plan: 'pro' } as const
  project_id = (await opened.db.insertInto('projects').values(project).returning('id').executeTakeFirstOrThrow()).id
  const site = { project_id, name: 's', subdomain: 'intranet' }
  site_id = (await opened.db.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()).id
  const manifest_sha256 = await storeFiles(cas, { 'index.html': 'the intranet' })
  const facts = { source_kind: 'files', activate: true, is_preview: false, status: 'active' } as const
  const deploy = { site_id, project_id, seq: 1, manifest_sha256, ...facts }
  const { id } = await opened.db.insertInto('deploys').values(deploy).returning('id').executeTakeFirstOrThrow()
  await opened.db.updateTable('sites').set({ active_deploy_id: id }).where('id', '=', site_id).execute()
  await addDomain('wiki.corp.example', true)
  await addDomain('claimed.corp.example', false)
  const { base, preview } = config.urls
  stack.use(
    await openEdge({
      platformDomain,
      baseUrl: base,
      previewUrl: preview ?? previewUrl,
      databaseUrl: database.url,
      cas,
      snapshotDir: join(config.dataDir, 'edge'),
      listen: { path: config.sockets.edge },
      certificates: {
        secretKey: required(config.secretKey, 'PLINTH_SECRET_KEY'),
        listen: { port: required(config.acme.certificatesPort, 'PLINTH_CERTIFICATES_PORT') },
        isPlatformHost: () => false,
        isLocalAuthority: true,
      },
      log,
    }),
  )
})
afterAll(() => stack.disposeAsync())

async function addDomain(domain: string, verified: boolean): Promise<void> {
  const now = new Date()
  const times = { created_at: now, connecting_since: now, verified_at: verified ? now : null, next_check_at: now }
  await opened.db
    .insertInto('domains')
    .values({ domain, site_id, project_id, verification_token: 'x', ...times })
    .execute()
  await bumpRoutes(opened.db, { site_id })
}

/** What a visitor gets who trusts the local authority only; the error of a handshake that fails. */
async function visit(host: string): Promise<{ body: string; issuer: string } | string> {
  const ca = await readFile(rootCertificateFile(caddy.config))
  const { promise, resolve } = Promise.withResolvers<{ body: string; issuer: string } | string>()
  const options = { host: '127.0.0.1', port: caddy.config.http.httpsPort, servername: host, headers: { host }, ca, agent: false }
  const outgoing = request(options, async (response) => {
    const { issuer } = (response.socket as TLSSocket).getPeerCertificate()
    resolve({ body: await text(response), issuer: String(issuer.CN) })
  })
  outgoing.on('error', ({ message }) => resolve(message)).end()
  return await promise
}

test('E38: a verified domain has https of the local authority at its first visit', async () => {
  const answer = { body: 'the intranet', issuer: expect.stringContaining('Plinth') }
  await expect.poll(() => visit('wiki.corp.example'), soon).toEqual(answer)
})

test('E38: its http is not redirected', async () => {
  const { status, body } = await ask(caddy.port, '/', { host: 'wiki.corp.example' })
  expect([status, body.toString()]).toEqual([200, 'the intranet'])
})

test.each(['claimed.corp.example', 'other.corp.example'])('E38: %s, which is not verified, has none', async (host) => {
  expect(await visit(host)).toMatch(/alert|handshake|disconnected|hang up|reset/i)
})

test('E38: a domain that is verified later has one from then on', async () => {
  await addDomain('later.corp.example', true)
  await expect.poll(() => visit('later.corp.example'), soon).toMatchObject({ body: 'the intranet' })
})
