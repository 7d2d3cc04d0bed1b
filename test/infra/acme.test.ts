import { X509Certificate } from 'node:crypto'
import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AcmeOptions, type Challenge, createKey, openAcme } from '../../infra/acme/acme.ts'
import { describeCertificate } from '../../infra/acme/certificates.ts'
import { errorOfResponse, failedChallenge } from '../../infra/acme/errors.ts'
import { readRetryAfter } from '../../infra/acme/http.ts'
import { openAuthority } from '../../infra/dns/authority.ts'
import { freePort } from '../../infra/local/ports.ts'
import {
  type Fault,
  findTestTool,
  type Passed,
  type Pebble,
  type PebbleOptions,
  startChallengeServer,
  startChallengeSite,
  startFaultProxy,
  startPebble,
} from './pebble.ts'

/** A busy machine may be late once. */
const bestOfThree = { retry: 2 }

beforeAll(async () => {
  await findTestTool('pebble')
  await findTestTool('pebble-challtestsrv')
}, 300_000)

/** Answers HTTP-01 as it should, and counts what was put and taken away. */
function overHttp(bodies: Map<string, string>) {
  const put: string[] = []
  const challenge: Challenge = {
    type: 'http-01',
    put: async ({ name, token, value }) => {
      put.push(name)
      bodies.set(token, value)
    },
    remove: async ({ token }) => void bodies.delete(token),
  }
  return { challenge, put }
}

/** A Pebble with a name server and a site that answers its challenges. */
async function openCa(stack: AsyncDisposableStack, options: Omit<PebbleOptions, 'dnsServer' | 'httpPort'> = {}) {
  const dnsServer = await startChallengeServer(stack)
  const site = await startChallengeSite(stack)
  const pebble = stack.use(await startPebble({ ...options, dnsServer, httpPort: site.port }))
  return { pebble, site, ...overHttp(site.bodies) }
}

const client = async ({ directoryUrl, caFile }: Pick<Pebble, 'directoryUrl' | 'caFile'>, own: Partial<AcmeOptions> = {}) =>
  openAcme({ directoryUrl, caFile, accountKey: await createKey(), email: 'owner@example.com', ...own })

const days = (from: Date, to: Date) => (to.getTime() - from.getTime()) / 86_400_000

describe('an authority that works', () => {
  const stack = new AsyncDisposableStack()
  let ca: Awaited<ReturnType<typeof openCa>>
  beforeAll(async () => {
    ca = await openCa(stack, { caaIdentities: ['ca.example'] })
  })
  afterAll(() => stack.disposeAsync())

  test('N06: a certificate is issued by HTTP-01, and its answers are taken away again', async () => {
    const names = ['www.example.com', 'example.com']
    const issued = await (await client(ca.pebble)).order({ names, challenge: ca.challenge })
    const described = describeCertificate(issued.certificate)
    expect([...described.names].sort()).toEqual([...names].sort())
    expect(described).toMatchObject({
      notAfter: issued.notAfter,
      notBefore: issued.notBefore,
      serial: expect.stringMatching(/^[0-9a-f]+$/),
    })
    expect(described.issuer).toContain('Pebble Intermediate')
    expect(days(new Date(), issued.notAfter)).toBeGreaterThan(1)
    const [leaf, intermediate] = issued.certificate
      .split(/(?<=-----END CERTIFICATE-----\n)/)
      .filter((pem) => pem.trim() !== '')
      .map((pem) => new X509Certificate(pem)) as [X509Certificate, X509Certificate]
    expect(
      leaf.verify(intermediate.publicKey) && intermediate.verify(new X509Certificate(await ca.pebble.root()).publicKey),
    ).toBe(true)
    expect(leaf.publicKey.asymmetricKeyDetails).toEqual({ namedCurve: 'prime256v1' })
    expect(leaf.subject ?? '').not.toContain('CN=')
    expect(ca.site.asked.filter((line) => line.startsWith('example.com /.well-known/acme-challenge/'))).not.toEqual([])
    expect([...ca.site.bodies]).toEqual([])
  })

  test('a key that is given is used again', async () => {
    const key = await createKey()
    const issued = await (await client(ca.pebble)).order({ names: ['again.example.com'], challenge: ca.challenge, key })
    expect(issued.key).toBe(key)
  })

  test('an account is created once, and found again by its key', async () => {
    const accountKey = await createKey()
    const [first, second] = [await client(ca.pebble, { accountKey }), await client(ca.pebble, { accountKey, email: undefined })]
    expect(await first.accountUrl()).toBe(await second.accountUrl())
    expect(await (await client(ca.pebble)).accountUrl()).not.toBe(await first.accountUrl())
  })

  test.each([undefined, 'owner@example.com'])(
    'orders that begin at once share the account that one of them creates (%s)',
    async (email) => {
      const accountKey = await createKey()
      const clients = await Promise.all([1, 2].map(() => client(ca.pebble, { accountKey, email })))
      const urls = await Promise.all([...clients, ...clients, ...clients].map((acme) => acme.accountUrl()))
      expect(new Set(urls).size).toBe(1)
    },
  )

  test('says which names CAA records must have', async () => {
    expect(await (await client(ca.pebble)).caaIdentities()).toEqual(['ca.example'])
  })

  test('a name that it will not have is refused, with its reason', async () => {
    const acme = await client(ca.pebble)
    await expect(acme.order({ names: ['x.blocked.example'], challenge: ca.challenge })).rejects.toMatchObject({
      kind: 'refused',
      problem: 'rejectedIdentifier',
      message: expect.stringMatching(/^the certificate authority refused: .*blocked/),
    })
  })

  test('a wildcard by HTTP-01 is refused before anything is put', async () => {
    const { challenge, put } = overHttp(ca.site.bodies)
    await expect((await client(ca.pebble)).order({ names: ['*.example.com'], challenge })).rejects.toMatchObject({
      kind: 'refused',
      message: 'the certificate authority offers no http-01 challenge for example.com: wildcards are proved through DNS only',
    })
    expect(put).toEqual([])
  })

  test.each<[string, Challenge['put']]>([
    ['a wrong answer', async ({ token }) => void ca.site.bodies.set(token, 'wrong')],
    ['no answer', async () => undefined],
  ])('%s makes the order invalid, and says for which name', async (_what, put) => {
    const challenge: Challenge = { ...ca.challenge, put }
    await expect((await client(ca.pebble)).order({ names: ['wrong.example.com'], challenge })).rejects.toMatchObject({
      kind: 'invalid',
      message: expect.stringMatching(/^the certificate authority could not check wrong\.example\.com: .*; the A record/),
    })
    expect([...ca.site.bodies]).toEqual([])
  })

  test('a failure to put the answer is its own error, and what was put before is taken away', async () => {
    const away = new Error('the database is away')
    const challenge: Challenge = {
      ...ca.challenge,
      put: async (answer) => {
        if (ca.site.bodies.size > 0) throw away
        await ca.challenge.put(answer)
      },
    }
    const names = ['a.example.com', 'b.example.com']
    await expect((await client(ca.pebble)).order({ names, challenge })).rejects.toBe(away)
    expect([...ca.site.bodies]).toEqual([])
  })

  test('a failure to take the answer away does not cost the certificate', async () => {
    const challenge: Challenge = {
      ...ca.challenge,
      remove: async (answer) => {
        await ca.challenge.remove(answer)
        throw new Error('away')
      },
    }
    await expect((await client(ca.pebble)).order({ names: ['c.example.com'], challenge })).resolves.toHaveProperty('certificate')
  })

  test('an order that is called off ends at once with the reason', async () => {
    const controller = new AbortController()
    const stopped = new Error('stopped')
    const challenge: Challenge = { ...ca.challenge, put: async () => controller.abort(stopped) }
    await expect(
      (await client(ca.pebble)).order({ names: ['d.example.com'], challenge, signal: controller.signal }),
    ).rejects.toBe(stopped)
  })

  test('its certificate is not trusted without the file', async () => {
    await expect(
      (await client(ca.pebble, { caFile: undefined })).order({ names: ['e.example.com'], challenge: ca.challenge }),
    ).rejects.toMatchObject({
      kind: 'unreachable',
      message: expect.stringMatching(/cannot be reached: .*CERT/),
    })
  })

  /** Orders through a proxy that makes the authority a bad one. */
  async function orderThrough(fault: Fault, own: Partial<AcmeOptions> = {}) {
    await using proxied = new AsyncDisposableStack()
    const proxy = await startFaultProxy(proxied, ca.pebble, fault)
    const acme = await client({ ...proxy, caFile: ca.pebble.caFile }, own)
    const outcome = await acme.order({ names: ['f.example.com'], challenge: ca.challenge }).then(
      () => 'issued' as const,
      (error: unknown) => error,
    )
    return { outcome, seen: proxy.seen }
  }
  const isOrder = ({ path }: Passed) => path.startsWith('/order-plz')
  const nonceOf = ({ body }: Passed) => JSON.parse(Buffer.from(JSON.parse(body).protected, 'base64url').toString()).nonce

  test.each<[string, { status: number; headers?: Record<string, string>; body?: unknown }, object]>([
    [
      '429 with Retry-After',
      {
        status: 429,
        headers: { 'retry-after': '3600' },
        body: { type: 'urn:ietf:params:acme:error:rateLimited', detail: 'too many certificates' },
      },
      {
        kind: 'rate_limited',
        retryAfterMs: 3_600_000,
        message: 'the certificate authority asks us to wait: too many certificates',
      },
    ],
    ['429 without anything', { status: 429 }, { kind: 'rate_limited', retryAfterMs: undefined }],
    ['503 with Retry-After', { status: 503, headers: { 'retry-after': '120' } }, { kind: 'unreachable', retryAfterMs: 120_000 }],
    ['500 with a page', { status: 500, body: '<html>' }, { kind: 'unreachable', message: expect.stringContaining('status 500') }],
    ['200 with a page', { status: 200, body: '<html>' }, { kind: 'unreachable' }],
    ['404', { status: 404 }, { kind: 'unreachable' }],
    [
      '403 of a dead account',
      { status: 403, body: { type: 'urn:ietf:params:acme:error:unauthorized', detail: 'account is\ndeactivated' } },
      { kind: 'refused', message: 'the certificate authority refused: account is deactivated' },
    ],
  ])('%s to an order is an error of its kind, and is not repeated', async (_what, answer, expected) => {
    const { outcome, seen } = await orderThrough({ instead: (passed) => (isOrder(passed) ? answer : undefined) })
    expect(outcome).toMatchObject(expected)
    expect(seen.filter(isOrder)).toHaveLength(1)
  })

  test('another order after a 503 uses another nonce', async () => {
    const nonces: string[] = []
    const instead: Fault['instead'] = (passed) => {
      if (!isOrder(passed)) return undefined
      nonces.push(nonceOf(passed))
      return { status: 503 }
    }
    await using proxied = new AsyncDisposableStack()
    const proxy = await startFaultProxy(proxied, ca.pebble, { instead })
    const acme = await client({ ...proxy, caFile: ca.pebble.caFile })
    for (let attempt = 0; attempt < 3; attempt++) {
      await expect(acme.order({ names: ['g.example.com'], challenge: ca.challenge })).rejects.toMatchObject({
        kind: 'unreachable',
      })
    }
    expect(new Set(nonces).size).toBe(3)
  })

  test.each(['/dir', '/nonce-plz', '/sign-me-up', '/chalZ/', '/authZ/', '/finalize-order/', '/certZ/'])(
    'a 503 to %s is an authority that does not work',
    async (path) => {
      const { outcome } = await orderThrough({
        instead: (passed) => (passed.path.startsWith(path) ? { status: 503, headers: { 'retry-after': '7' } } : undefined),
      })
      expect(outcome).toMatchObject({ kind: 'unreachable', retryAfterMs: 7000 })
      expect([...ca.site.bodies]).toEqual([])
    },
  )

  test('an order stuck in processing is given up in time', bestOfThree, async () => {
    const startedAt = performance.now()
    const change: Fault['change'] = ({ path }, body) =>
      path.startsWith('/my-order/') ? body.replace(/"status": "(valid|processing)"/, '"status": "processing"') : undefined
    const { outcome, seen } = await orderThrough({ change }, { patienceMs: 10_000 })
    expect(outcome).toMatchObject({
      kind: 'stuck',
      message: 'the certificate authority did not finish within 10 s; we ask again',
    })
    expect(performance.now() - startedAt).toBeLessThan(13_000)
    expect(seen.filter(({ path }) => path.startsWith('/my-order/')).length).toBeLessThan(12)
    expect(seen.filter(({ path }) => path.startsWith('/finalize-order/'))).toHaveLength(1)
  })

  test('a challenge that is never looked at is given up in time', async () => {
    const { outcome } = await orderThrough(
      {
        instead: ({ path }) =>
          path.startsWith('/chalZ/') ? { status: 200, headers: { 'replay-nonce': 'x' }, body: { status: 'pending' } } : undefined,
      },
      { patienceMs: 6000 },
    )
    expect(outcome).toMatchObject({ kind: 'stuck' })
    expect([...ca.site.bodies]).toEqual([])
  })

  test('an order that turns invalid at the end says why', async () => {
    const problem = { type: 'urn:ietf:params:acme:error:caa', detail: 'CAA forbids' }
    const change: Fault['change'] = ({ path }, body) =>
      path.startsWith('/my-order/') && body.includes('"certificate"')
        ? JSON.stringify({ ...JSON.parse(body), status: 'invalid', error: problem })
        : undefined
    const { outcome } = await orderThrough({ change })
    expect(outcome).toMatchObject({
      kind: 'invalid',
      problem: 'caa',
      message: expect.stringMatching(/f\.example\.com: CAA forbids; the CAA records/),
    })
  })

  test('a certificate for another key is not taken', async () => {
    const other = await (await client(ca.pebble)).order({ names: ['f.example.com'], challenge: ca.challenge })
    const { outcome } = await orderThrough({ change: ({ path }) => (path.startsWith('/certZ/') ? other.certificate : undefined) })
    expect(outcome).toMatchObject({ kind: 'unreachable', message: expect.stringContaining('another key') })
  })

  test('an account that the authority has forgotten is made again for the next order', async () => {
    const { challenge } = ca
    let forgets = true
    const problem = { type: 'urn:ietf:params:acme:error:accountDoesNotExist', detail: 'who?' }
    await using proxied = new AsyncDisposableStack()
    const proxy = await startFaultProxy(proxied, ca.pebble, {
      instead: (passed) => (forgets && isOrder(passed) ? { status: 400, body: problem } : undefined),
    })
    const acme = await client({ ...proxy, caFile: ca.pebble.caFile })
    await expect(acme.order({ names: ['h.example.com'], challenge })).rejects.toMatchObject({ kind: 'unreachable' })
    forgets = false
    await acme.order({ names: ['h.example.com'], challenge })
    expect(proxy.seen.filter(({ path }) => path === '/sign-me-up')).toHaveLength(2)
  })
})

describe('an authority that is difficult on purpose', () => {
  test('N06: 15 % of good nonces refused and seconds of sleep before each check', async () => {
    await using stack = new AsyncDisposableStack()
    const { pebble, challenge } = await openCa(stack, {
      env: { PEBBLE_WFE_NONCEREJECT: '15', PEBBLE_VA_NOSLEEP: '0', PEBBLE_VA_SLEEPTIME: '3' },
      retryAfter: { authz: 1, order: 1 },
    })
    const acme = await client(pebble)
    const orders = Array.from({ length: 5 }, (_, index) => acme.order({ names: [`n${index}.example.com`], challenge }))
    expect((await Promise.all(orders)).map(({ certificate }) => describeCertificate(certificate).names)).toEqual(
      orders.map((_order, index) => [`n${index}.example.com`]),
    )
  })

  test('every nonce refused is an authority that does not work', async () => {
    await using stack = new AsyncDisposableStack()
    const { pebble, challenge } = await openCa(stack, { env: { PEBBLE_WFE_NONCEREJECT: '100' } })
    await expect((await client(pebble)).order({ names: ['x.example.com'], challenge })).rejects.toMatchObject({
      kind: 'unreachable',
    })
  })

  test('N06: a name that it has checked before needs no second proof', async () => {
    await using stack = new AsyncDisposableStack()
    const { pebble, challenge, put } = await openCa(stack, { env: { PEBBLE_AUTHZREUSE: '100' } })
    const acme = await client(pebble)
    for (let order = 0; order < 3; order++) await acme.order({ names: ['again.example.com'], challenge })
    await acme.order({ names: ['again.example.com', 'new.example.com'], challenge })
    expect(put).toEqual(['again.example.com', 'new.example.com'])
  })

  test('one that is down', async () => {
    await using stack = new AsyncDisposableStack()
    const { pebble, challenge } = await openCa(stack)
    const acme = await client(pebble)
    await acme.order({ names: ['i.example.com'], challenge })
    await pebble.stop()
    await expect(acme.order({ names: ['i.example.com'], challenge })).rejects.toMatchObject({
      kind: 'unreachable',
      message: expect.stringMatching(/^the certificate authority at 127\.0\.0\.1:\d+ cannot be reached: ECONNREFUSED$/),
    })
  })

  test('one that accepts connections and says nothing', async () => {
    await using stack = new AsyncDisposableStack()
    const port = await freePort()
    const silent = createServer().listen(port, '127.0.0.1')
    stack.defer(() => void silent.close())
    const acme = await openAcme({ directoryUrl: `http://127.0.0.1:${port}/dir`, accountKey: await createKey(), patienceMs: 500 })
    const challenge: Challenge = { type: 'http-01', put: async () => undefined, remove: async () => undefined }
    await expect(acme.order({ names: ['j.example.com'], challenge })).rejects.toMatchObject({ kind: 'stuck' })
  })
})

describe('DNS-01 through our own authority', () => {
  test('N06 N09: a wildcard and its parent are proved by two values at one name', async () => {
    await using stack = new AsyncDisposableStack()
    const values = new Map<string, string[]>()
    const authority = stack.use(
      await openAuthority({
        listen: { address: '127.0.0.1', port: 0 },
        zone: 'example.com',
        findTxt: (name) => values.get(name),
      }),
    )
    const pebble = stack.use(await startPebble({ dnsServer: `127.0.0.1:${authority.port}` }))
    const most: number[] = []
    const challenge: Challenge = {
      type: 'dns-01',
      put: async ({ name, value }) => {
        const key = `_acme-challenge.${name}`
        most.push(values.set(key, [...(values.get(key) ?? []), value]).get(key)?.length ?? 0)
      },
      remove: async ({ name, value }) => {
        const key = `_acme-challenge.${name}`
        values.set(
          key,
          (values.get(key) ?? []).filter((other) => other !== value),
        )
      },
    }
    const acme = await client(pebble)
    const { certificate } = await acme.order({ names: ['sites.example.com', '*.sites.example.com'], challenge })
    expect([...describeCertificate(certificate).names].sort()).toEqual(['*.sites.example.com', 'sites.example.com'])
    expect(most).toEqual([1, 2])
    expect([...values.values()].flat()).toEqual([])
    await expect(acme.order({ names: ['other.test'], challenge })).rejects.toMatchObject({ kind: 'invalid' })
  })
})

describe('what answers mean', () => {
  test.each([
    ['120', 120_000],
    ['0', 0],
    ['999999999', 604_800_000],
    ['-5', 0],
    ['soon', undefined],
    ['', undefined],
    [undefined, undefined],
  ])('Retry-After %j is %s ms', (header, expected) => expect(readRetryAfter(header)).toBe(expected))

  test('Retry-After as a date is the time until then', () => {
    const wait = readRetryAfter(new Date(Date.now() + 60_000).toUTCString())
    expect(wait).toBeGreaterThan(57_000)
    expect(wait).toBeLessThanOrEqual(60_000)
    expect(readRetryAfter(new Date(0).toUTCString())).toBe(0)
  })

  const acme = (type: string) => `urn:ietf:params:acme:error:${type}`
  test.each([
    [400, { type: acme('badNonce') }, 'unreachable'],
    [400, { type: acme('malformed'), detail: 'no' }, 'refused'],
    [403, { type: acme('orderNotReady') }, 'unreachable'],
    [400, { type: acme('rateLimited') }, 'rate_limited'],
    [500, { type: acme('serverInternal') }, 'unreachable'],
    [400, 'page', 'unreachable'],
    [400, null, 'unreachable'],
    [400, { type: 7, detail: {} }, 'unreachable'],
  ])('status %i with %j is %s', (status, body, kind) => expect(errorOfResponse(status, body, undefined).kind).toBe(kind))

  test('details of strangers are one short line', () => {
    const body = { type: acme('malformed'), detail: `a\r\n\u001b[31m${'x'.repeat(1000)}`, subproblems: [{ detail: 'inner' }] }
    const { message } = errorOfResponse(400, body, undefined)
    expect(message.startsWith('the certificate authority refused: a [31mxxx')).toBe(true)
    expect(message.length).toBeLessThan(350)
  })

  test('a failed proof gives the reason of each part and what to do', () => {
    const error = { type: acme('connection'), detail: 'Timeout', subproblems: [{ detail: 'over IPv6' }] }
    expect(failedChallenge('a.example', error).message).toBe(
      'the certificate authority could not check a.example: Timeout over IPv6; the address of the domain must lead to this platform on port 80, also over IPv6 if it has an AAAA record',
    )
    expect(failedChallenge('a.example', { type: acme('serverInternal') }).kind).toBe('unreachable')
  })
})
