import { X509Certificate } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { openCertificateTable } from '../../edge/certificates.ts'
import { openEdge } from '../../edge/edge.ts'
import { createHandler, type HandlerOptions } from '../../edge/handler.ts'
import { acmeAccount } from '../../infra/acme/account.ts'
import { certificatePaths } from '../../infra/caddy/certificate-getter.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { openDiskCas } from '../../infra/cas/disk.ts'
import { openKeyring, seal } from '../../infra/crypto/seal.ts'
import { type Db, openDatabase } from '../../infra/db/database.ts'
import { renewIncarnation } from '../../infra/db/incarnation.ts'
import { openServer } from '../../infra/listen.ts'
import { notifyCertificate } from '../../services/feeds/certificates.ts'
import { bumpRoutes } from '../../services/feeds/routes.ts'
import { createDatabase } from '../database.ts'
import { selfSigned } from '../infra/self-signed.ts'
import { ask, baseUrl, log, openTestEdge, platformDomain, previewUrl, routeOf } from './test-edge.ts'

const secretKey = Buffer.alloc(32, 'key')
const nobody = 'postgres://nobody@127.0.0.1:1/nothing'
const soon = { interval: 20 }

let dir: string
let cas: Cas
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-edge-'))
  cas = await openDiskCas(join(dir, 'cas'))
})
afterEach(() => rm(dir, { recursive: true }))

const platformHosts = ['platform.test', platformDomain]
const isPlatformHost = (host: string) => platformHosts.some((own) => host === own || host.endsWith(`.${own}`))

function open(databaseUrl: string, key = secretKey) {
  const certificates = { secretKey: key, listen: { port: 0 }, isPlatformHost, isLocalAuthority: false }
  const urls = { platformDomain, baseUrl, previewUrl, databaseUrl }
  return openEdge({ ...urls, cas, snapshotDir: join(dir, 'state'), listen: { port: 0 }, certificates, log })
}
type Edge = Awaited<ReturnType<typeof open>>

/** What Caddy would get in a handshake. */
async function handshake({ certificatesPort }: Edge, host: string): Promise<{ status: number; body: string }> {
  const query = new URLSearchParams({ server_name: host, signature_schemes: '403', cipher_suites: '1301' })
  const response = await fetch(
    `http://127.0.0.1:${certificatesPort}${certificatePaths(secretKey).certificate}?${query.toString()}`,
  )
  return { status: response.status, body: await response.text() }
}
const namesOf = (bundle: string) => (bundle === '' ? '' : new X509Certificate(bundle).subjectAltName)
const given = async (edge: Edge, host: string) => {
  const { status, body } = await handshake(edge, host)
  return status === 200 ? namesOf(body) : status
}

async function statementsOf(db: Db): Promise<number> {
  const { rows } = await sql<{ calls: number }>`
    select xact_commit as calls from pg_stat_database where datname = current_database()`.execute(db)
  return Number(rows[0]?.calls)
}
/** Far fewer than one for each handshake. The poll of the feed makes four every five seconds; besides, there are those that count. */
const maxStatements = (startedAt: number) => (performance.now() - startedAt) / 1000 + 50

async function insertDomain(db: Db, domain: string): Promise<{ id: string; site_id: string }> {
  const project = { name: 'p', owner_email: 'o@p.test', plan: 'free' } as const
  const { id: project_id } = await db.insertInto('projects').values(project).returning('id').executeTakeFirstOrThrow()
  const site = { project_id, name: 's', subdomain: `s${domain.replaceAll(/[^a-z]/g, '')}` }
  const { id: site_id } = await db.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()
  const now = new Date()
  const { id } = await db
    .insertInto('domains')
    .values({ domain, site_id, project_id, verification_token: 'x', created_at: now, connecting_since: now, verified_at: now })
    .returning('id')
    .executeTakeFirstOrThrow()
  await bumpRoutes(db, { site_id })
  return { id, site_id }
}

/** A certificate of the name, as an order leaves it; `days` -1 has expired. */
function store(db: Db, domain_id: string | null, name: string, days = 2): Promise<string> {
  const { certificate, key } = selfSigned(name, { days })
  const row = { domain_id, name, certificate, not_after: new Date(Date.now() + days * 86_400_000) }
  // the edge asks for certificates at any time, and must not see one without its key
  return db.transaction().execute(async (tx) => {
    const { id } = await tx
      .insertInto('certificates')
      .values(row)
      .onConflict((conflict) =>
        conflict.column('name').doUpdateSet((eb) => ({
          ...row,
          version: eb('certificates.version', '+', 1),
          changed_at: sql<Date>`clock_timestamp()`,
        })),
      )
      .returning('id')
      .executeTakeFirstOrThrow()
    const key_sealed = seal(openKeyring(secretKey), key, { table: 'certificates', id, column: 'key_sealed' })
    await tx.updateTable('certificates').set({ key_sealed }).where('id', '=', id).execute()
    await notifyCertificate(tx, id)
    return id
  })
}

describe('the getter of certificates', () => {
  test('N06: gives chain and key of a domain that is served, its newer certificate too, and nothing once it is not', async () => {
    await using database = await createDatabase()
    await using opened = openDatabase(database.url)
    const { db } = opened
    await using edge = await open(database.url)
    const { id, site_id } = await insertDomain(db, 'shop.example.com')
    expect(await given(edge, 'shop.example.com')).toBe(204)
    await store(db, id, 'shop.example.com')
    await expect.poll(() => given(edge, 'shop.example.com'), soon).toBe('DNS:shop.example.com')
    const { body } = await handshake(edge, 'SHOP.example.com')
    expect(body).toMatch(/^-----BEGIN CERTIFICATE-----[\s\S]+-----BEGIN PRIVATE KEY-----/)
    await store(db, id, 'shop.example.com', -1)
    await expect.poll(async () => (await handshake(edge, 'shop.example.com')).body === body, soon).toBe(false)
    expect(await given(edge, 'shop.example.com')).toBe('DNS:shop.example.com')

    await db.updateTable('sites').set({ deletion_scheduled_at: new Date() }).where('id', '=', site_id).execute()
    await bumpRoutes(db, { site_id })
    await expect.poll(() => given(edge, 'shop.example.com'), soon).toBe(204)
    await db.updateTable('sites').set({ deletion_scheduled_at: null }).where('id', '=', site_id).execute()
    await bumpRoutes(db, { site_id })
    await expect.poll(() => given(edge, 'shop.example.com'), soon).toBe('DNS:shop.example.com')
    await db.deleteFrom('domains').where('id', '=', id).execute()
    await bumpRoutes(db, { site_id })
    await expect.poll(() => given(edge, 'shop.example.com'), soon).toBe(204)
  })

  test('N09: gives those of the platform, a name of its own before a wildcard, and the wildcard to every site', async () => {
    await using database = await createDatabase()
    await using opened = openDatabase(database.url)
    const { db } = opened
    for (const name of ['platform.test', `*.${platformDomain}`, `www.${platformDomain}`]) await store(db, null, name)
    await using edge = await open(database.url)
    await expect.poll(() => given(edge, 'platform.test'), soon).toBe('DNS:platform.test')
    expect(await given(edge, `any.${platformDomain}`)).toBe(`DNS:*.${platformDomain}`)
    expect(await given(edge, `www.${platformDomain}`)).toBe(`DNS:www.${platformDomain}`)
    for (const host of [`a.b.${platformDomain}`, 'other.test', '', '127.0.0.1', '*', 'x y', `*.${platformDomain}`])
      expect([host, await given(edge, host)]).toEqual([host, 204])
  })

  test('a wildcard of a customer is for one label, and only while it is verified', async () => {
    await using database = await createDatabase()
    await using opened = openDatabase(database.url)
    const { db } = opened
    const { id, site_id } = await insertDomain(db, '*.shops.example.com')
    await store(db, id, '*.shops.example.com')
    await using edge = await open(database.url)
    await expect.poll(() => given(edge, 'one.shops.example.com'), soon).toBe('DNS:*.shops.example.com')
    expect(await given(edge, 'a.one.shops.example.com')).toBe(204)
    await db.updateTable('domains').set({ verified_at: null }).where('id', '=', id).execute()
    await bumpRoutes(db, { site_id })
    await expect.poll(() => given(edge, 'one.shops.example.com'), soon).toBe(204)
  })

  test('after a backup is restored it gives the certificate of the backup, though its version is known', async () => {
    await using database = await createDatabase()
    await using opened = openDatabase(database.url)
    const { db } = opened
    const id = await store(db, null, 'platform.test')
    await using edge = await open(database.url)
    await expect.poll(() => given(edge, 'platform.test'), soon).toBe('DNS:platform.test')
    const { certificate, key } = selfSigned('other.test')
    const key_sealed = seal(openKeyring(secretKey), key, { table: 'certificates', id, column: 'key_sealed' })
    await db.transaction().execute(async (tx) => {
      await tx.updateTable('certificates').set({ certificate, key_sealed }).where('id', '=', id).execute()
      await renewIncarnation(tx)
    })
    await expect.poll(() => given(edge, 'platform.test'), soon).toBe('DNS:other.test')
  })

  test('a start without PostgreSQL gives what the one before knew', async () => {
    {
      await using database = await createDatabase()
      await using opened = openDatabase(database.url)
      const { id } = await insertDomain(opened.db, 'shop.example.com')
      await store(opened.db, id, 'shop.example.com')
      await using edge = await open(database.url)
      await expect.poll(() => given(edge, 'shop.example.com'), soon).toBe('DNS:shop.example.com')
    }
    await using edge = await open(nobody)
    expect(await given(edge, 'shop.example.com')).toBe('DNS:shop.example.com')
  })

  test('a key that was sealed with another secret is no certificate', async () => {
    await using database = await createDatabase()
    await using opened = openDatabase(database.url)
    const id = await store(opened.db, null, 'platform.test')
    await opened.db.updateTable('certificates').set({ key_sealed: 'v1.00000000.AAAA' }).where('id', '=', id).execute()
    await using edge = await open(database.url)
    await expect.poll(() => given(edge, 'platform.test'), soon).toBe(204)
  })

  test('answers nobody who does not know its path, and permits no name to be ordered', async () => {
    await using edge = await open(nobody)
    const statusOf = async (path: string) => (await fetch(`http://127.0.0.1:${edge.certificatesPort}${path}`)).status
    const { permission } = certificatePaths(secretKey)
    expect(await statusOf(`${permission}?domain=shop.example.com`)).toBe(403)
    const others = [
      '/',
      '/certificate?server_name=a.test',
      `${certificatePaths(Buffer.alloc(32, 'other')).certificate}?server_name=a.test`,
    ]
    expect(await Promise.all(others.map(statusOf))).toEqual([404, 404, 404])
  })

  test('gives a thousand certificates from memory, without a query', async () => {
    await using database = await createDatabase()
    await using opened = openDatabase(database.url)
    const { certificate, key } = selfSigned('platform.test')
    const rows = Array.from({ length: 1000 }, (_, i) => ({ name: `n${i}.${platformDomain}`, certificate }))
    const inserted = await opened.db.insertInto('certificates').values(rows).returning(['id', 'name']).execute()
    const keyring = openKeyring(secretKey)
    const sealed = inserted.map(({ id, name }) => ({
      id,
      name,
      key_sealed: seal(keyring, key, { table: 'certificates', id, column: 'key_sealed' }),
    }))
    await opened.db
      .insertInto('certificates')
      .values(sealed)
      .onConflict((conflict) => conflict.column('id').doUpdateSet((eb) => ({ key_sealed: eb.ref('excluded.key_sealed') })))
      .execute()
    await using edge = await open(database.url)
    await expect.poll(() => given(edge, `n999.${platformDomain}`), soon).toBe('DNS:platform.test')
    const before = await statementsOf(opened.db)
    const startedAt = performance.now()
    for (let i = 0; i < 1000; i++) expect((await handshake(edge, `n${i}.${platformDomain}`)).status).toBe(200)
    expect((await statementsOf(opened.db)) - before).toBeLessThan(maxStatements(startedAt))
  })
})

describe('the table', () => {
  const certificateOf = (id: string, name: string, version = 1) => ({ id, name, version, certificate: 'c', key_sealed: 'k' })
  const openTable = () => openCertificateTable({ snapshotDir: join(dir, 'table'), log })

  test('takes only higher versions, and forgets what is gone', async () => {
    await using table = await openTable()
    table.apply([certificateOf('1', 'a.test', 2)], [])
    table.apply([{ ...certificateOf('1', 'a.test', 1), certificate: 'older' }], [])
    expect(table.find('a.test')?.certificate).toBe('c')
    table.apply([], ['1', 'nobody'])
    expect(table.find('a.test')).toBeUndefined()
  })

  test('a name that has a new row keeps it when the old one goes', async () => {
    await using table = await openTable()
    table.apply([certificateOf('1', 'a.test'), certificateOf('2', 'b.test')], [])
    table.apply([certificateOf('3', 'a.test')], [])
    table.keepOnly(new Set(['2', '3']))
    expect([table.find('a.test')?.id, table.find('b.test')?.id]).toEqual(['3', '2'])
  })
})

describe('HTTP-01', () => {
  const { thumbprint } = acmeAccount(secretKey)
  const token = 'evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA'
  const path = `/.well-known/acme-challenge/${token}`

  async function openChallenged() {
    const edge = await openTestEdge()
    const options: HandlerOptions = {
      platformDomain,
      baseUrl,
      previewUrl,
      routes: edge.routes,
      content: undefined as never,
      thumbprint,
      log,
    }
    const server = await openServer(createHandler(options), { port: 0 }, { requestTimeoutMs: 10_000 })
    const close = async () => {
      await server[Symbol.asyncDispose]()
      await edge[Symbol.asyncDispose]()
    }
    return { routes: edge.routes, port: server.port ?? 0, [Symbol.asyncDispose]: close }
  }

  test('N06: is answered before every rule, on every host, for every state of a site', async () => {
    await using edge = await openChallenged()
    edge.routes.apply(
      [
        routeOf('live', null),
        routeOf('trashed', null, { trashed: true }),
        routeOf('off', null, { enabled: false }),
        routeOf('moved', null, {
          domains: [
            { domain: 'shop.example', primary: null },
            { domain: 'www.shop.example', primary: 'shop.example' },
          ],
        }),
      ],
      [],
    )
    const subdomains = ['live', 'trashed', 'off', 'moved', 'unknown'].map((name) => `${name}.${platformDomain}`)
    const others = [
      'shop.example',
      'www.shop.example',
      'platform.test',
      'preview.test',
      'x.preview.test',
      'unknown.example',
      '127.0.0.1:80',
    ]
    for (const host of [...subdomains, ...others]) {
      const { status, headers, body } = await ask(edge.port, path, { host })
      expect([host, status, body.toString()]).toEqual([host, 200, `${token}.${thumbprint}`])
      expect(headers).toMatchObject({ 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' })
    }
    const head = await ask(edge.port, path, { method: 'HEAD', host: 'unknown.example' })
    expect([head.status, head.body.length]).toEqual([200, 0])
    expect((await ask(edge.port, `${path}?a=b`)).body.toString()).toBe(`${token}.${thumbprint}`)
  })

  test.each([
    ['POST', path, 405],
    ['GET', '/.well-known/acme-challenge/', 404],
    ['GET', '/.well-known/acme-challenge/a/b', 404],
    ['GET', '/.well-known/acme-challenge/a.b', 404],
    ['GET', '/.well-known/acme-challenge/%61', 404],
    ['GET', `/.well-known/acme-challenge/${'a'.repeat(129)}`, 404],
    ['GET', '/.well-known/acme-challengex/a', 404],
  ])('%s %s is no challenge: %i', async (method, target, status) => {
    await using edge = await openChallenged()
    const answer = await ask(edge.port, target, { method })
    expect(answer.status).toBe(status)
    expect(answer.body.toString()).not.toContain(thumbprint)
  })
})

describe('http and https of a custom domain', () => {
  const secured = new Set(['shop.example', 'www.shop.example'])
  const proto = (scheme: string) => ({ 'x-forwarded-proto': scheme })

  async function redirectOf(base: string, host: string, headers: Record<string, string> = {}): Promise<unknown> {
    await using edge = await openTestEdge()
    const domains = ['shop.example', 'new.example'].flatMap((domain) => [
      { domain, primary: null },
      { domain: `www.${domain}`, primary: domain },
    ])
    edge.routes.apply([routeOf('site', null, { domains })], [])
    const common = { platformDomain, previewUrl, routes: edge.routes, content: undefined as never, log }
    const options: HandlerOptions = { ...common, baseUrl: base, isSecured: (name) => secured.has(name) }
    await using server = await openServer(createHandler(options), { port: 0 }, { requestTimeoutMs: 10_000 })
    const answer = await ask(server.port ?? 0, '/a%20b?c', { host, headers })
    return answer.headers.location ?? answer.status
  }

  test.each([
    // with a certificate: https, as the platform itself
    ['https://platform.test', 'shop.example', 'http', 'https://shop.example/a%20b?c'],
    ['https://platform.test:8443', 'shop.example:8080', 'http', 'https://shop.example:8443/a%20b?c'],
    ['https://platform.test', 'shop.example', 'https', 404],
    ['https://platform.test', 'www.shop.example', 'http', 'https://shop.example/a%20b?c'],
    ['https://platform.test', 'www.shop.example:8443', 'https', 'https://shop.example:8443/a%20b?c'],
    // without one: as it came
    ['https://platform.test', 'new.example', 'http', 404],
    ['https://platform.test', 'www.new.example:8080', 'http', 'http://new.example:8080/a%20b?c'],
    // a platform on http leads nobody away from it
    ['http://platform.test:8080', 'shop.example:8080', 'http', 404],
    ['http://platform.test:8080', 'www.shop.example:8080', 'http', 'http://shop.example:8080/a%20b?c'],
    ['http://platform.test:8080', 'www.shop.example:8443', 'https', 'https://shop.example:8443/a%20b?c'],
    // Caddy itself leads the platform's own names
    ['https://platform.test', `site.${platformDomain}`, 'http', 404],
  ])('%s: %s over %s leads to %s', async (base, host, scheme, expected) => {
    expect(await redirectOf(base, host, proto(scheme))).toBe(expected)
  })

  test('without Caddy in front the address of the platform tells the scheme', async () => {
    expect(await redirectOf('https://platform.test', 'www.new.example')).toBe('https://new.example/a%20b?c')
  })
})

test('thousands of random hosts and server names cause no query', async () => {
  await using database = await createDatabase()
  await using opened = openDatabase(database.url)
  await using edge = await open(database.url)
  await vi.waitFor(async () => expect(await given(edge, 'a.test')).toBe(204), { timeout: 60_000 })
  const before = await statementsOf(opened.db)
  const startedAt = performance.now()
  for (let i = 0; i < 1000; i++) {
    await handshake(edge, `r${i}.example.org`)
    if (i % 10 === 0) await ask(edge.port ?? 0, '/', { host: `r${i}.example.org` })
  }
  expect((await statementsOf(opened.db)) - before).toBeLessThan(maxStatements(startedAt))
})
