import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer, request as httpRequest, type IncomingHttpHeaders, type RequestListener, type Server } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { connect, type PeerCertificate } from 'node:tls'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createCertificateGetter } from '../../edge/certificates.ts'
import { pushCaddyConfig } from '../../infra/caddy/client.ts'
import { caddyConfig } from '../../infra/caddy/config.ts'
import { internalNames } from '../../infra/caddy/names.ts'
import { type Config, loadConfig } from '../../infra/config.ts'
import { openKeyring, seal } from '../../infra/crypto/seal.ts'
import { openServer } from '../../infra/listen.ts'
import { caFile, startCaddy } from '../../infra/local/caddy-process.ts'
import { freePort } from '../../infra/local/ports.ts'
import { findTool } from '../../infra/local/tools.ts'
import { createLogger } from '../../infra/log.ts'
import { selfSigned } from './self-signed.ts'

/** A busy machine may be late once. */
const bestOfThree = { retry: 2 }

interface Asked {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** What the process behind Caddy saw, or the text of Caddy's own answer. */
  readonly body: { by?: string; path?: string; headers?: IncomingHttpHeaders } & { text?: string }
}

const secretKey = Buffer.alloc(32, 'key')

/** What Caddy asks for in the middle of a handshake, as the edge answers it. */
async function openGetter(stack: AsyncDisposableStack) {
  const stored = new Map<string, { id: string; name: string; version: number; certificate: string; key_sealed: string }>()
  const asked: string[] = []
  let version = 0
  const log = createLogger('test', 'silent')
  const certificates = { find: (host: string) => stored.get(host) }
  const isRoutable = (host: string) => !host.startsWith('trashed.')
  const getter = createCertificateGetter({ certificates, isRoutable, isPermitted: () => false, secretKey, log })
  const server = await openServer(
    (request, response) => {
      asked.push(request.url ?? '')
      getter(request, response)
    },
    { port: 0 },
    { requestTimeoutMs: 10_000 },
  )
  stack.use(server)
  return {
    port: server.port ?? 0,
    asked,
    store(name: string, days?: number): void {
      const { certificate, key } = selfSigned(name, { days: days ?? 2 })
      const key_sealed = seal(openKeyring(secretKey), key, { table: 'certificates', id: name, column: 'key_sealed' })
      stored.set(name, { id: name, name, version: ++version, certificate, key_sealed })
    },
  }
}

/** A real Caddy with two processes behind it that answer what they were asked. */
async function openEntrance(settings: Record<string, string> = {}) {
  await using stack = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'plinth-caddy-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  const [port, httpsPort] = [await freePort(), await freePort()]
  const getter = await openGetter(stack)
  const loaded = loadConfig({
    PLINTH_DATA_DIR: dir,
    PLINTH_HTTP_PORT: String(port),
    PLINTH_HTTPS_PORT: String(httpsPort),
    PLINTH_SECRET_KEY: secretKey.toString('base64'),
    PLINTH_CERTIFICATES_PORT: String(getter.port),
    ...settings,
  })
  const config: Config = { ...loaded, http: { ...loaded.http, listen: ['127.0.0.1'] } }
  await mkdir(config.sockets.dir, { recursive: true, mode: 0o700 })
  stack.defer(() => rm(config.sockets.dir, { recursive: true, force: true }))
  await mkdir(join(dir, 'caddy'))
  const behind = {
    api: stack.adopt(await listen('api', config.sockets.api), close),
    edge: stack.adopt(await listen('edge', config.sockets.edge), close),
  }
  const binary = await findTool('caddy', { cacheDir: loadConfig().cacheDir, report: () => undefined })
  stack.use(await startCaddy(binary, config, join(dir, 'logs'), new AbortController().signal))
  const ca = await readFile(caFile(config))

  async function ask(method: string, address: string, headers: Record<string, string> = {}): Promise<Asked> {
    const url = new URL(address)
    const isHttps = url.protocol === 'https:'
    const { promise, resolve, reject } = Promise.withResolvers<Asked>()
    const hostname = url.hostname.replace(/^\[(.*)\]$/, '$1')
    const outgoing = (isHttps ? httpsRequest : httpRequest)({
      host: '127.0.0.1',
      port: isHttps ? httpsPort : port,
      method,
      // as it stands: a URL would resolve dots
      path: address.slice(address.indexOf('/', 8)),
      headers: { host: url.host, ...headers },
      ...(isHttps && { ca, ...(/^[\d:.]+$/.test(hostname) ? {} : { servername: hostname }) }),
    })
    outgoing.on('error', reject).on('response', async (response) => {
      const answer = await text(response)
      const body = response.headers['content-type'] === 'application/json' ? JSON.parse(answer) : { text: answer }
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body })
    })
    outgoing.end()
    return promise
  }
  /** The certificate of a handshake with this server name. */
  async function shakeHands(servername: string): Promise<PeerCertificate> {
    const { promise, resolve, reject } = Promise.withResolvers<PeerCertificate>()
    const socket = connect({ host: '127.0.0.1', port: httpsPort, servername, rejectUnauthorized: false })
    socket.on('error', reject).on('secureConnect', () => resolve(socket.getPeerCertificate()))
    return promise.finally(() => socket.destroy())
  }
  const owned = stack.move()
  return { config, behind, ask, getter, shakeHands, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

async function listen(by: string, path: string): Promise<Server> {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ by, path: request.url, headers: request.headers }))
  })
  await new Promise<void>((resolve) => server.listen(path, resolve))
  return server
}

function close(server: Server): void {
  server.closeAllConnections()
  server.close()
}

type Entrance = Awaited<ReturnType<typeof openEntrance>>

describe('with the defaults', () => {
  let entrance: Entrance
  beforeAll(async () => {
    entrance = await openEntrance()
  })
  afterAll(() => entrance[Symbol.asyncDispose]())

  test.each([
    ['http://localhost/', 'api'],
    ['http://LOCALHOST/api/v1/sites', 'api'],
    ['http://127.0.0.1/healthz', 'api'],
    ['http://[::1]/healthz', 'api'],
    ['http://localhost/.well-known/acme-challenge/x', 'edge'],
    ['http://unknown.example/.well-known/acme-challenge/x', 'edge'],
    ['https://localhost/.well-known/acme-challenge/x', 'edge'],
    ['http://plinth-demo.plinth.localhost/', 'edge'],
    ['http://plinth-demo.plinth.localhost/api/v1/sites', 'edge'],
    ['http://plinth-demo.plinth.localhost/.well-known/acme-challenge/x', 'edge'],
    ['http://plinth-demo.plinth.localhost/__svc/login', 'api'],
    ['http://unknown.example/__svc/login', 'api'],
    ['http://unknown.example/%5F_svc/login', 'api'],
    ['http://unknown.example//__SVC/login', 'api'],
    ['http://unknown.example/a/../__svc/login', 'api'],
    ['http://unknown.example/__svc', 'edge'],
    ['http://plinth-demo.plinth.localhost/__svc/d/token', 'edge'],
    ['http://localhost/__svc/d/token', 'api'],
    ['http://unknown.example/', 'edge'],
    ['http://preview.localhost/token/', 'edge'],
    ['http://a.preview.localhost/', 'edge'],
    ['https://localhost/mcp', 'api'],
    ['https://127.0.0.1/', 'api'],
    ['https://plinth-demo.plinth.localhost/', 'edge'],
    ['https://plinth-demo.plinth.localhost/__svc/x', 'api'],
    ['https://preview.localhost/token/', 'edge'],
    ['https://a.preview.localhost/', 'edge'],
  ])('%s is answered by the %s', async (url, by) => {
    const { status, body } = await entrance.ask('GET', url)
    expect([status, body.by]).toEqual([200, by])
  })

  test('V13: the path reaches the processes as it came', async () => {
    const { body } = await entrance.ask('GET', 'http://a.plinth.localhost/%2e%2e/%5F_svc/a%2fb?x=%20')
    expect(body.path).toBe('/%2e%2e/%5F_svc/a%2fb?x=%20')
  })

  test('the address of the client is the one of the connection, whatever it claims', async () => {
    const { body } = await entrance.ask('GET', 'http://localhost/', {
      'x-forwarded-for': '203.0.113.9',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'evil.example',
    })
    expect(body.headers).toMatchObject({
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-proto': 'http',
      'x-forwarded-host': 'localhost',
      host: 'localhost',
    })
  })

  test('47: form posts wait for one of 128 connections to the api, and other requests have connections of their own', async () => {
    const { api } = entrance.behind
    const [answer] = api.listeners('request') as RequestListener[]
    const waiting = new Set<() => void>()
    let most = 0
    api.removeAllListeners('request').on('request', (request, response) => {
      const pass = () => answer?.(request, response)
      if (request.method !== 'POST') return pass()
      waiting.add(pass)
      most = Math.max(most, waiting.size)
    })
    try {
      const posts = Promise.all(Array.from({ length: 200 }, () => entrance.ask('POST', 'http://localhost/f/some-site')))
      await expect.poll(() => waiting.size).toBe(128)
      expect((await entrance.ask('GET', 'http://localhost/f/some-site')).status).toBe(200)
      expect((await entrance.ask('GET', 'http://localhost/api/v1/sites')).status).toBe(200)
      const passing = setInterval(() => {
        for (const pass of waiting) pass()
        waiting.clear()
      }, 5)
      const answers = await posts.finally(() => clearInterval(passing))
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(200)
      expect(most).toBe(128)
    } finally {
      api.removeAllListeners('request').on('request', answer as RequestListener)
    }
  })

  test('a name that is not ours fails its handshake at once and nothing is ordered for it', bestOfThree, async () => {
    const startedAt = performance.now()
    await expect(entrance.ask('GET', 'https://shop.example/')).rejects.toThrow(/alert|internal error/i)
    expect(performance.now() - startedAt).toBeLessThan(1000)
  })

  test('N06: a handshake gets the certificate that the edge has, an expired one too', async () => {
    entrance.getter.store('shop.example.com')
    entrance.getter.store('old.example.com', -1)
    expect((await entrance.shakeHands('shop.example.com')).subjectaltname).toBe('DNS:shop.example.com')
    expect((await entrance.shakeHands('SHOP.example.com')).subjectaltname).toBe('DNS:shop.example.com')
    expect((await entrance.shakeHands('old.example.com')).subjectaltname).toBe('DNS:old.example.com')
  })

  test('a certificate that changes is the one of the next handshake', async () => {
    const serialOf = async () => (await entrance.shakeHands('new.example.com')).serialNumber
    entrance.getter.store('new.example.com')
    const first = await serialOf()
    expect(await serialOf()).toBe(first)
    entrance.getter.store('new.example.com')
    expect(await serialOf()).not.toBe(first)
  })

  test('a name with a certificate that is not served now fails its handshake', async () => {
    entrance.getter.store('trashed.example.com')
    await expect(entrance.shakeHands('trashed.example.com')).rejects.toThrow()
  })

  test('a thousand random names and deep labels fail at once, and nothing is made for them', async () => {
    const { asked } = entrance.getter
    asked.length = 0
    const names = Array.from({ length: 1000 }, (_, i) => `${'a.'.repeat(i % 20)}r${(i * 7919).toString(36)}.example.org`)
    const startedAt = performance.now()
    for (let i = 0; i < names.length; i += 50) {
      const batch = names.slice(i, i + 50).map((name) =>
        entrance.shakeHands(name).then(
          () => name,
          () => undefined,
        ),
      )
      expect((await Promise.all(batch)).filter((name) => name !== undefined)).toEqual([])
    }
    expect(performance.now() - startedAt).toBeLessThan(20_000)
    expect(asked.filter((url) => url.includes('/certificate?'))).toHaveLength(1000)
    expect(asked.filter((url) => url.includes('/permission?'))).toHaveLength(1000)
    const made = await readdir(join(entrance.config.dataDir, 'caddy', 'certificates'), { recursive: true })
    expect(made.filter((path) => path.includes('example.org'))).toEqual([])
  })

  test('pushing the same configuration again changes nothing', async () => {
    await pushCaddyConfig(entrance.config.sockets.caddyAdmin, caddyConfig(entrance.config))
    expect((await entrance.ask('GET', 'http://localhost/')).status).toBe(200)
  })

  test('a configuration that Caddy does not know is refused with its words', async () => {
    const wrong = { ...caddyConfig(entrance.config), apps: { nonsense: {} } }
    await expect(pushCaddyConfig(entrance.config.sockets.caddyAdmin, wrong)).rejects.toThrow(/nonsense/)
    expect((await entrance.ask('GET', 'http://localhost/')).status).toBe(200)
  })

  test('while a process is away its callers get 503, never cached and never a 404', async () => {
    for (const server of Object.values(entrance.behind)) close(server)
    const [api, site] = await Promise.all([
      entrance.ask('GET', 'http://localhost/api/v1/sites'),
      entrance.ask('GET', 'http://a.plinth.localhost/'),
    ])
    expect([api.status, api.headers['cache-control'], api.body]).toEqual([
      503,
      'no-store',
      { message: 'the API is starting or restarting; try again in a few seconds' },
    ])
    expect([site.status, site.headers['cache-control'], site.headers['retry-after']]).toEqual([503, 'no-store', '5'])
    expect(site.body.text).toContain('Back in a moment')
  })
})

describe('with an https base address behind a trusted proxy', () => {
  let entrance: Entrance
  beforeAll(async () => {
    entrance = await openEntrance({
      PLINTH_BASE_URL: 'https://host.example:9443',
      PLINTH_PLATFORM_DOMAIN: 'sites.example',
      PLINTH_TRUSTED_PROXIES: '127.0.0.0/8',
    })
  })
  afterAll(() => entrance[Symbol.asyncDispose]())

  test.each([
    ['GET', 'http://host.example/docs?a=b', 308, 'https://host.example:9443/docs?a=b'],
    ['HEAD', 'http://a.sites.example:8080/x', 308, 'https://a.sites.example:9443/x'],
    ['GET', 'http://host.example/healthz', 200, undefined],
    ['GET', 'http://a.sites.example/healthz', 308, 'https://a.sites.example:9443/healthz'],
    ['GET', 'http://a.sites.example/.well-known/acme-challenge/t', 200, undefined],
    ['POST', 'http://host.example/api/v1/sites', 200, undefined],
    // whether a custom domain has a certificate is known to the edge
    ['GET', 'http://shop.example.com/', 200, undefined],
    ['GET', 'https://host.example/', 200, undefined],
    ['GET', 'https://a.sites.example/', 200, undefined],
  ])('%s %s is answered %i', async (method, url, status, location) => {
    const answer = await entrance.ask(method, url)
    expect([answer.status, answer.headers.location]).toEqual([status, location])
  })

  test('the address that the trusted proxy names is the client', async () => {
    const { body } = await entrance.ask('GET', 'https://host.example/', { 'x-forwarded-for': '198.51.100.1, 203.0.113.9' })
    expect(body.headers?.['x-forwarded-for']).toBe('203.0.113.9')
  })
})

test('N09: names with a public certificate are not among those of the internal authority, which would hide it', () => {
  const namesWith = (settings: Record<string, string>) =>
    internalNames(
      loadConfig({
        PLINTH_BASE_URL: 'https://host.example',
        PLINTH_MCP_URL: 'https://mcp.example',
        PLINTH_PLATFORM_DOMAIN: 'sites.example',
        ...settings,
      }),
    ).filter((name) => name.endsWith('.example'))
  const wildcards = ['*.preview.host.example', 'sites.example', '*.sites.example']
  expect(namesWith({})).toEqual(['host.example', 'mcp.example', 'preview.host.example', ...wildcards])
  expect(namesWith({ PLINTH_ACME_DIRECTORY: 'https://ca.example/dir' })).toEqual(wildcards)
  const dns = { PLINTH_ACME_DNS_LISTEN: '127.0.0.1:53', PLINTH_ACME_DNS_ZONE: 'acme.example' }
  expect(namesWith({ PLINTH_ACME_DIRECTORY: 'https://ca.example/dir', ...dns })).toEqual(['sites.example'])
})
