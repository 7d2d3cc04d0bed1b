import { once } from 'node:events'
import { createServer as createHttp, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createHttps } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type GuardedClient, type GuardedOptions, openGuardedClient } from '../../infra/net/guarded-fetch.ts'
import { type Canaries, openCanaries } from '../canaries.ts'
import { selfSigned } from './self-signed.ts'

const base: GuardedOptions = { allowPrivate: false, timeoutMs: 10_000, refusalMs: 1 }
const loose: GuardedOptions = { ...base, allowPrivate: true }
const at = (address: string) => ({ address, family: address.includes(':') ? 6 : 4 })
const ask = (client: GuardedClient, url: string, own = {}) => client.request({ url, maxBytes: 10_000, maxRedirects: 3, ...own })

async function listen(server: Server, host = '127.0.0.1'): Promise<number> {
  server.listen(0, host)
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

async function textOf({ body }: Awaited<ReturnType<GuardedClient['request']>>): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

const stack = new AsyncDisposableStack()
afterAll(() => stack.disposeAsync())

async function serve(handler: RequestListener, tls?: { certificate: string; key: string }) {
  const server = tls ? createHttps({ cert: tls.certificate, key: tls.key }, handler) : createHttp(handler)
  const port = await listen(server, '0.0.0.0')
  stack.defer(async () => {
    server.closeAllConnections()
    await new Promise((done) => server.close(done))
  })
  return { port, origin: `${tls ? 'https' : 'http'}://localhost:${port}` }
}

describe('checks 65, 66: addresses that are not public get no connection', () => {
  let canaries: Canaries
  beforeAll(async () => {
    canaries = stack.use(await openCanaries(['127.0.0.1', '::1'], [80, 443, 5432, 7233, 2019]))
  })

  const refused = async (url: string, own: Partial<GuardedOptions> = {}) => {
    await using client = openGuardedClient({ ...base, ...own })
    await expect(ask(client, url)).rejects.toMatchObject({ name: 'FetchError', reason: 'forbidden' })
    expect(canaries.hits).toEqual([])
  }

  test.each([
    '127.0.0.1',
    '127.1',
    '0x7f.1',
    '0x7f000001',
    '2130706433',
    '017700000001',
    '0177.0.0.1',
    '127.0.0.1.',
    '0.0.0.0',
    '0',
    '10.0.0.1',
    '169.254.169.254',
    '192.168.1.1',
    '100.64.0.1',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[64:ff9b::127.0.0.1]',
    '[64:ff9b:1::7f00:1]',
    '[2002:7f00:1::]',
    '[fe80::1]',
    '[fc00::1]',
    'localhost',
    'LOCALHOST',
    'localhost.',
    '-oProxyCommand=id',
    '-o',
    '%31%32%37.0.0.1',
    '①②⑦.0.0.1',
  ])('a literal or local host: https://%s/', (host) => refused(`https://${host}/a.git/info/refs`))

  test.each([
    'http://1.1.1.1/',
    'file:///etc/passwd',
    'ftp://1.1.1.1/',
    'gopher://127.0.0.1/',
    'data:text/plain,x',
    'javascript:1',
    'nothing',
  ])('another scheme: %s', (url) => refused(url))

  test.each(['https://user:secret@1.1.1.1/', 'https://user@1.1.1.1/', 'https://1.1.1.1@127.0.0.1/'])('a user: %s', (url) =>
    refused(url),
  )

  test('other ports than 443', async () => {
    for (const port of [...canaries.ports, 22, 80, 8443].filter((port) => port !== 443)) await refused(`https://1.1.1.1:${port}/`)
  })

  test.each([
    [['127.0.0.1']],
    [['1.1.1.1', '127.0.0.1']],
    [['2606:4700::1111', '::1']],
    [['::ffff:127.0.0.1']],
    [['64:ff9b::7f00:1']],
    [['169.254.169.254']],
  ])('a name with the addresses %s', (addresses) => refused('https://forge.example/', { lookUp: async () => addresses.map(at) }))

  test.each(['', 'not an address', 'fe80::1%lo'])('a look-up that answers %j', (address) =>
    refused('https://forge.example/', { lookUp: async () => [{ address, family: 4 }] }),
  )

  test('a redirect to a private address, another scheme or another port', async () => {
    const tls = selfSigned('forge.example')
    const server = await serve((req, res) => {
      res.writeHead(302, { location: decodeURIComponent(req.url?.slice(1) ?? '') }).end()
    }, tls)
    const lookUp = async (host: string) => [at(host === 'forge.example' ? '127.0.0.2' : '127.0.0.1')]
    // the one address that counts as public, so that there is a first hop
    const isPublic = (address: string) => address === '127.0.0.2'
    const local = canaries.ports.flatMap((port) => [
      `https://127.0.0.1:${port}/`,
      `http://127.0.0.1:${port}/`,
      `https://[::1]:${port}/`,
    ])
    const others = [
      'https://private.example/',
      'https://127.0.0.1/',
      'file:///etc/passwd',
      'gopher://forge.example/',
      '//',
      'https://a:b@forge.example/',
    ]
    await using client = openGuardedClient({
      ...base,
      ca: tls.certificate,
      lookUp,
      isPublic,
      ports: [server.port, ...canaries.ports],
    })
    for (const target of [...local, ...others]) {
      const from = `https://forge.example:${server.port}/${encodeURIComponent(target)}`
      await expect(ask(client, from), target).rejects.toMatchObject({ reason: 'forbidden' })
      expect(await ask(client, from, { maxRedirects: 0 })).toMatchObject({ status: 302 })
    }
    expect(canaries.hits).toEqual([])
  })

  test('a name whose answer changes stays with the addresses that were checked', async () => {
    const tls = selfSigned('forge.example')
    let asked = 0
    const server = await serve((_req, res) => void res.writeHead(200, { connection: 'close' }).end('ok'), tls)
    const lookUp = async () => [at(asked++ === 0 ? '127.0.0.1' : '::1')]
    await using client = openGuardedClient({ ...loose, ca: tls.certificate, lookUp })
    for (let i = 0; i < 3; i++) expect(await textOf(await ask(client, `https://forge.example:${server.port}/`))).toBe('ok')
    expect(asked).toBe(1)
  })

  test('a name whose first answer is private is not asked again in the hope of a public one', async () => {
    const answers = ['127.0.0.1', '1.1.1.1']
    await using client = openGuardedClient({ ...base, lookUp: async () => [at(answers.shift() ?? '')] })
    for (let i = 0; i < 2; i++) await expect(ask(client, 'https://forge.example/')).rejects.toMatchObject({ reason: 'forbidden' })
    expect(canaries.hits).toEqual([])
  })
})

describe('redirects', () => {
  const seen: string[] = []
  let other: { port: number; origin: string }
  let server: { port: number; origin: string }

  beforeAll(async () => {
    other = await serve((req, res) => {
      seen.push(`other ${req.method} ${req.url} ${req.headers.authorization} ${req.headers.cookie}`)
      if (req.url === '/back') res.writeHead(302, { location: `${server.origin}/end` }).end()
      else res.end('other')
    })
    server = await serve((req, res) => {
      seen.push(`server ${req.method} ${req.url} ${req.headers.authorization} ${req.headers.cookie}`)
      const count = Number(/^\/hops\/(\d)/.exec(req.url ?? '')?.[1] ?? 0)
      const location = { '/here': '/end', '/there': `${other.origin}/end`, '/around': `${other.origin}/back` }[req.url ?? '']
      if (location) res.writeHead(301, { location, 'set-cookie': 'a=1' }).end()
      else if (count > 0) res.writeHead(307, { location: `/hops/${count - 1}` }).end()
      else res.end('end')
    })
  })

  const follow = async (path: string, own = {}) => {
    seen.length = 0
    await using client = openGuardedClient(loose)
    const response = await ask(client, `${server.origin}${path}`, { authorization: 'Basic c2VjcmV0', ...own })
    return { status: response.status, url: response.url.href, text: await textOf(response) }
  }

  test('stay with the credentials on the same origin, and carry no cookie', async () => {
    expect(await follow('/here')).toMatchObject({ text: 'end', url: `${server.origin}/end` })
    expect(seen).toEqual(['server GET /here Basic c2VjcmV0 undefined', 'server GET /end Basic c2VjcmV0 undefined'])
  })

  test('lose them on another port, also on the way back', async () => {
    expect(await follow('/there')).toMatchObject({ text: 'other' })
    expect(seen.at(-1)).toBe('other GET /end undefined undefined')
    expect(await follow('/around')).toMatchObject({ text: 'end' })
    expect(seen.slice(1)).toEqual(['other GET /back undefined undefined', 'server GET /end undefined undefined'])
  })

  test('end after three', async () => {
    expect(await follow('/hops/3')).toMatchObject({ text: 'end' })
    await expect(follow('/hops/4')).rejects.toMatchObject({ reason: 'redirect' })
    await expect(follow('/hops/9', { maxRedirects: 9 })).rejects.toMatchObject({ reason: 'redirect' })
  })

  test('are an answer like another where they are not asked for, and for a POST', async () => {
    expect(await follow('/there', { maxRedirects: 0 })).toMatchObject({ status: 301 })
    expect(await follow('/there', { method: 'POST', body: Buffer.from('x') })).toMatchObject({ status: 301 })
    expect(seen.filter((line) => line.startsWith('other'))).toEqual([])
  })
})

describe('a name of the network of the platform', () => {
  const failing = (code: string) => () => Promise.reject(Object.assign(new Error('x'), { code }))
  const names: [string, NonNullable<GuardedOptions['lookUp']>, string][] = [
    ['is unknown', failing('ENOTFOUND'), 'unknown_name'],
    ['has no records', failing('EAI_NODATA'), 'unknown_name'],
    ['has no addresses', async () => [], 'unknown_name'],
    ['has a private address', async () => [at('10.0.0.7')], 'not_public'],
    ['has the address of the metadata service', async () => [at('169.254.169.254')], 'not_public'],
    ['has the address of this machine', async () => [at('::1')], 'not_public'],
    ['has a public and a private address', async () => [at('1.1.1.1'), at('10.0.0.7')], 'not_public'],
  ]
  const refusalOf = async (lookUp: GuardedOptions['lookUp'], own: Partial<GuardedOptions> = {}) => {
    await using client = openGuardedClient({ ...base, ...(lookUp && { lookUp }), ...own })
    return await ask(client, 'https://db.internal/').catch((error: unknown) => error as any)
  }

  test.each(names)('that %s is refused in the same words as one that is unknown', async (_what, lookUp, refusedName) => {
    const unknown = await refusalOf(failing('ENOTFOUND'))
    const refused = await refusalOf(lookUp)
    expect([refused.reason, refused.message]).toEqual([unknown.reason, unknown.message])
    expect(refused.message).not.toMatch(/10\.0|169|::1/)
    // the operator sees why
    expect(refused.refusedName).toBe(refusedName)
  })

  test('takes as long as an unknown one, however long the look-ups take', async () => {
    const after = (ms: number, lookUp: NonNullable<GuardedOptions['lookUp']>) => async (host: string) => {
      await new Promise((resolve) => setTimeout(resolve, ms))
      return await lookUp(host)
    }
    const slow = names.map(([, lookUp], i) => after(40 * i, lookUp))
    const times = await Promise.all(
      slow.map(async (lookUp) => {
        const startedAt = performance.now()
        await refusalOf(lookUp, { refusalMs: 1000 })
        return performance.now() - startedAt
      }),
    )
    expect(Math.min(...times)).toBeGreaterThan(980)
    expect(Math.max(...times) - Math.min(...times)).toBeLessThan(150)
  })
})

function sendHeadInDrips({ socket }: ServerResponse): void {
  socket?.write('HTTP/1.1 200 OK\r\n')
  const dripping = setInterval(() => socket?.write('x: y\r\n'), 100)
  socket?.once('close', () => clearInterval(dripping))
}

describe('limits', () => {
  test('a body is cut at its cap', async () => {
    const server = await serve((_req, res) => {
      const more = () => res.write(Buffer.alloc(65_536)) && setImmediate(more)
      res.on('drain', more)
      more()
    })
    await using client = openGuardedClient(loose)
    await expect(ask(client, server.origin).then(textOf)).rejects.toMatchObject({ reason: 'too_large' })
  })

  test('time counts for everything together, a slow body included', async () => {
    const server = await serve((_req, res) => void res.write('slow'))
    await using client = openGuardedClient({ ...loose, timeoutMs: 300 })
    const response = await ask(client, server.origin)
    await expect(textOf(response)).rejects.toMatchObject({ reason: 'timeout', message: expect.stringContaining('0.3 s') })
    await expect(ask(client, server.origin)).rejects.toMatchObject({ reason: 'timeout' })
  })

  test.each([
    ['no answer', () => undefined],
    ['a part of one', (res: ServerResponse) => void res.write('slow')],
    ['its head in drips', sendHeadInDrips],
  ])('a server that sends %s is not waited for', async (_what, answer) => {
    const server = await serve((_req, res) => answer(res))
    await using client = openGuardedClient({ ...loose, timeoutMs: 60_000, silenceMs: 1000 })
    const asked = ask(client, server.origin).then(textOf)
    await expect(asked).rejects.toMatchObject({ reason: 'unreachable', message: expect.stringContaining('does not answer') })
  })

  test('a look-up that hangs ends with the time', async () => {
    await using client = openGuardedClient({ ...base, timeoutMs: 200, lookUp: () => new Promise(() => undefined) })
    await expect(ask(client, 'https://forge.example/')).rejects.toMatchObject({ reason: 'timeout' })
  })

  test('an abort rejects with its own reason', async () => {
    const server = await serve(() => undefined)
    const abort = new AbortController()
    await using client = openGuardedClient({ ...loose, signal: abort.signal })
    const asked = ask(client, server.origin)
    abort.abort(new Error('not needed any more'))
    await expect(asked).rejects.toThrow('not needed any more')
  })

  test('nobody there, or a name that does not exist, is said so', async () => {
    await using client = openGuardedClient({
      ...loose,
      lookUp: (host) =>
        host === 'gone.example' ? Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' })) : Promise.resolve([]),
    })
    await expect(ask(client, 'http://127.0.0.1:1/')).rejects.toMatchObject({
      reason: 'unreachable',
      message: expect.stringContaining('ECONNREFUSED'),
    })
    await expect(ask(client, 'http://gone.example/')).rejects.toThrow('the host gone.example does not exist')
    await expect(ask(client, 'http://none.example/')).rejects.toThrow('the host none.example does not exist')
  })
})

describe('TLS', () => {
  const lookUp = async () => [at('127.0.0.1')]
  const answer: RequestListener = (req, res) => void res.end(req.headers.host)

  test('the name stays in SNI, certificate and Host while the connection goes to the pinned address', async () => {
    const tls = selfSigned('forge.example')
    const { port } = await serve(answer, tls)
    await using client = openGuardedClient({ ...loose, ca: tls.certificate, lookUp })
    expect(await textOf(await ask(client, `https://forge.example:${port}/`))).toBe(`forge.example:${port}`)
    await expect(ask(client, `https://other.example:${port}/`)).rejects.toMatchObject({
      reason: 'tls',
      message: expect.stringContaining('its certificate is for other names'),
    })
  })

  test.each([
    ['an authority that is not trusted', {}, 'self-signed'],
    ['an expired certificate', { days: -1 }, 'expired'],
  ])('%s is refused', async (_what, options, reason) => {
    const tls = selfSigned('forge.example', options)
    const { port } = await serve(answer, tls)
    await using client = openGuardedClient({ ...loose, lookUp, ...('days' in options && { ca: tls.certificate }) })
    await expect(ask(client, `https://forge.example:${port}/`)).rejects.toMatchObject({
      reason: 'tls',
      message: expect.stringContaining(reason),
    })
  })

  test('plain http behind https is told apart', async () => {
    const { port } = await serve(answer)
    await using client = openGuardedClient({ ...loose, lookUp })
    await expect(ask(client, `https://forge.example:${port}/`)).rejects.toMatchObject({ reason: 'tls' })
  })
})
