import { once } from 'node:events'
import { request } from 'node:http'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Egress, type EgressPolicy, judgeEgress, openEgress, publicEgress } from '../../../runner/sandbox/egress.ts'

const addresses: Record<string, string[]> = {
  'cdn.test': ['93.184.215.14', '2606:4700::1111'],
  'mirror.test': ['10.0.0.7'],
  'rebind.test': ['93.184.215.14', '127.0.0.1'],
  'mapped.test': ['::ffff:7f00:1'],
  'metadata.test': ['169.254.169.254'],
  // what a resolver makes of numbers that are no address in the usual form
  '2130706433': ['127.0.0.1'],
  '0x7f000001': ['127.0.0.1'],
  '0x7f.1': ['127.0.0.1'],
  '017700000001': ['127.0.0.1'],
  '127.1': ['127.0.0.1'],
  localhost: ['::1', '127.0.0.1'],
  'empty.test': [],
}

const policy = (port: number): EgressPolicy => ({
  namedHosts: new Set(['mirror.test']),
  port,
  async resolve(host) {
    const found = addresses[host]
    if (!found) throw new Error('ENOTFOUND')
    return found
  },
})

describe('a build', () => {
  test.each([
    ['cdn.test:443', ['93.184.215.14', '2606:4700::1111']],
    ['CDN.test.:443', ['93.184.215.14', '2606:4700::1111']],
    ['mirror.test:443', ['10.0.0.7']],
    ['1.1.1.1:443', ['1.1.1.1']],
    ['[2606:4700::1111]:443', ['2606:4700::1111']],
  ])('may connect to %s, at the addresses that were judged', async (authority, addresses) => {
    expect(await judgeEgress(authority, policy(443))).toEqual({ allowed: true, addresses })
  })

  const inner = 'not at a public address'
  const malformed = 'not a host and port'
  const otherPort = 'builds reach port 443 only'
  // the same for unknown names and for those of the network of the platform
  const unknown = 'the name has no public address'
  test.each([
    ...['cdn.test:80', 'mirror.test:22', '127.0.0.1:2019', 'cdn.test:0', 'cdn.test:65979', 'cdn.test:4430'].map((a) => [
      a,
      otherPort,
    ]),
    ...['rebind.test', 'mapped.test', 'metadata.test', 'localhost', 'LOCALHOST.', 'localhost..'].map((name) => [
      `${name}:443`,
      unknown,
    ]),
    ...['127.0.0.1', '127.0.0.1.', '127.9.9.9', '10.0.0.7', '0.0.0.0', '169.254.169.254', '100.64.0.1', '255.255.255.255'].map(
      (address) => [`${address}:443`, inner],
    ),
    ...['2130706433', '0x7f000001', '0x7f.1', '017700000001', '127.1'].map((number) => [`${number}:443`, unknown]),
    ...[
      '::1',
      '::',
      '::ffff:127.0.0.1',
      '::ffff:7f00:1',
      '::127.0.0.1',
      '64:ff9b::7f00:1',
      '64:ff9b:1::a00:1',
      '2002:7f00:1::',
    ].map((address) => [`[${address}]:443`, inner]),
    ...['2001:0:7f00:1::', 'fe80::1', 'fec0::1', 'fd00:ec2::254', 'ff02::1', '2001:db8::1'].map((address) => [
      `[${address}]:443`,
      inner,
    ]),
    ['empty.test:443', unknown],
    ['nowhere.test:443', unknown],
    ['x.mirror.test:443', unknown],
    ['mirror.test.evil.test:443', unknown],
    ...[
      'mirror.test@cdn.test:443',
      'user:pass@mirror.test:443',
      'cdn.test',
      'cdn.test:',
      'cdn.test:443:443',
      'cdn.test:-443',
    ].map((a) => [a, malformed]),
    ...[
      'http://cdn.test:443',
      'https://cdn.test:443/',
      '/cdn.test:443',
      'cdn.test:443/',
      '[fe80::1%25eth0]:443',
      '[::1:443',
      '::1:443',
    ].map((a) => [a, malformed]),
    ...[':443', '', '[]:443', '.:443', '*', 'cdn.test :443', 'cdn.test:443\r\nx', 'cdn.test\0:443', 'cdn.test\t:443'].map((a) => [
      a,
      malformed,
    ]),
  ] as [string, string][])('may not connect to %j: %s', async (authority, reason) => {
    expect(await judgeEgress(authority, policy(443))).toEqual({ allowed: false, reason })
  })

  test('is not led inside by what the resolvers of this machine say', async () => {
    const names = ['localhost', 'localhost.localdomain', 'ip6-localhost', '2130706433', '0x7f.1', '127.1', '017700000001']
    const verdicts = await Promise.all(names.map((name) => judgeEgress(`${name}:443`, publicEgress([]))))
    expect(verdicts.map(({ allowed }) => allowed)).toEqual(names.map(() => false))
  })

  test('gets the hosts that the operator names by the resolver of this machine', async () => {
    const verdict = await judgeEgress('localhost:443', publicEgress(['LocalHost']))
    expect(verdict).toEqual({ allowed: true, addresses: expect.arrayContaining([expect.stringMatching(/^(127\.0\.0\.1|::1)$/)]) })
  })
})

describe('the relay', () => {
  let entrance: AddressInfo
  let canary: Server
  let hits = 0
  let port = 0
  let egress: Egress
  let lines: string[]

  beforeEach(async () => {
    hits = 0
    lines = []
    canary = createServer((socket) => {
      hits += 1
      socket.on('error', () => undefined)
      socket.pipe(socket)
    }).listen(0, '127.0.0.1')
    await once(canary, 'listening')
    port = (canary.address() as AddressInfo).port
    addresses['mirror.test'] = ['127.0.0.1']
    addresses['inner.test'] = ['127.0.0.1']
    addresses['two.test'] = ['127.0.0.1', '::1']
    egress = openEgress({
      policy: { ...policy(port), namedHosts: new Set(['mirror.test', 'two.test']) },
      maxBytes: 200_000,
      report: (line) => lines.push(line),
      requestTimeoutMs: 300,
    })
    const listener = createServer().listen(0, '127.0.0.1')
    await once(listener, 'listening')
    entrance = listener.address() as AddressInfo
    egress.accept(listener)
  })
  afterEach(async () => {
    await egress[Symbol.asyncDispose]()
    canary.close()
  })

  async function dial(authority: string): Promise<{ status: number; socket: Socket }> {
    const call = request({ port: entrance.port, method: 'CONNECT', path: authority })
    call.end()
    const [response, socket, head] = (await once(call, 'connect')) as [{ statusCode: number }, Socket, Buffer]
    socket.unshift(head)
    socket.on('error', () => undefined)
    return { status: response.statusCode, socket }
  }

  /** Sends these bytes over a connection of their own, and reads what comes until it is closed. */
  async function send(bytes: string | Buffer): Promise<string> {
    const socket = connect(entrance.port)
    socket.on('error', () => undefined)
    socket.write(bytes)
    return await text(socket).catch((error: NodeJS.ErrnoException) => error.code ?? '')
  }

  test('carries bytes both ways to a named host at an inner address', async () => {
    const { status, socket } = await dial(`mirror.test:${port}`)
    expect(status).toBe(200)
    socket.end('hello')
    expect(await text(socket)).toBe('hello')
    expect(hits).toBe(1)
    expect(lines).toEqual([])
  })

  test.each(['inner.test', '127.0.0.1', 'localhost', '[::1]', '[::ffff:7f00:1]'])(
    'connects to nothing for %s and says so once',
    async (host) => {
      for (let i = 0; i < 3; i++) {
        const { status, socket } = await dial(`${host}:${port}`)
        expect(status).toBe(403)
        socket.destroy()
      }
      expect(hits).toBe(0)
      expect(lines).toHaveLength(1)
      expect(lines[0]).toMatch(/^blocked: .*:\d+ \(.*\)$/)
    },
  )

  test('refuses plain http in words, to named hosts too', async () => {
    const call = request({ port: entrance.port, path: `http://mirror.test:${port}/x` }).end()
    const [response] = (await once(call, 'response')) as [import('node:http').IncomingMessage]
    expect(response.statusCode).toBe(403)
    expect(await text(response)).toBe('builds reach the network over https only\n')
    expect(hits).toBe(0)
    expect(lines).toEqual([`blocked: http://mirror.test:${port}/x (plain http is not relayed, use https)`])
  })

  test.each<[string, (port: number) => string | Buffer]>([
    ['plain http', (at) => `GET http://127.0.0.1:${at}/ HTTP/1.1\r\nHost: mirror.test\r\n\r\n`],
    ['https in absolute form', (at) => `GET https://mirror.test:${at}/ HTTP/1.1\r\nHost: mirror.test\r\n\r\n`],
    ['a path', (at) => `GET / HTTP/1.1\r\nHost: 127.0.0.1:${at}\r\n\r\n`],
    ['ftp', (at) => `GET ftp://127.0.0.1:${at}/ HTTP/1.1\r\nHost: x\r\n\r\n`],
    ['OPTIONS *', (at) => `OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:${at}\r\n\r\n`],
    ['another Host than the authority', (at) => `CONNECT 127.0.0.1:${at} HTTP/1.1\r\nHost: mirror.test:${at}\r\n\r\n`],
    ['an address behind user information', (at) => `CONNECT mirror.test@127.0.0.1:${at} HTTP/1.1\r\nHost: x\r\n\r\n`],
    ['a header for the authority', (at) => `CONNECT 127.0.0.1:${at}\r\nHost: mirror.test:${at}\r\n\r\n`],
    ['spaces in the authority', (at) => `CONNECT mirror.test:${at} 127.0.0.1:${at} HTTP/1.1\r\nHost: x\r\n\r\n`],
    ['a lone line end', (at) => `CONNECT 127.0.0.1:${at} HTTP/1.1\nHost: mirror.test\n\n`],
    ['no Host', (at) => `CONNECT 127.0.0.1:${at} HTTP/1.1\r\n\r\n`],
    ['HTTP/1.0', (at) => `CONNECT 127.0.0.1:${at} HTTP/1.0\r\n\r\n`],
    [
      'an upgrade',
      (at) => `GET http://127.0.0.1:${at}/ HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n`,
    ],
    [
      'a chunked body that holds a request',
      (at) =>
        `POST http://mirror.test:${at}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nCONNECT 127.0.0.1:${at} HTTP/1.1\r\nHost: x\r\n\r\n`,
    ],
    [
      'two lengths',
      (at) =>
        `POST http://127.0.0.1:${at}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    [
      'a second request after a refused one',
      (at) => `CONNECT 127.0.0.1:${at} HTTP/1.1\r\nHost: x\r\n\r\nCONNECT 127.0.0.1:${at} HTTP/1.1\r\nHost: x\r\n\r\n`,
    ],
    ['a header of 20 KB', (at) => `CONNECT 127.0.0.1:${at} HTTP/1.1\r\nHost: ${'x'.repeat(20_000)}\r\n\r\n`],
    ['an authority of 20 KB', (at) => `CONNECT ${'a'.repeat(20_000)}:${at} HTTP/1.1\r\nHost: x\r\n\r\n`],
    ['ten thousand headers', (at) => `CONNECT 127.0.0.1:${at} HTTP/1.1\r\n${'a: b\r\n'.repeat(10_000)}\r\n`],
    ['socks', () => Buffer.from([5, 1, 0])],
    ['TLS', () => Buffer.from([0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0])],
    ['nothing but line ends', () => '\r\n'.repeat(100)],
    ['half a request', (at) => `CONNECT mirror.test:${at} HTTP/1.1\r\nHost: x\r\n`],
  ])('reaches nothing with %s, and works on', async (_name, bytes) => {
    expect(await send(bytes(port))).not.toMatch(/^HTTP\/1\.1 2/)
    expect(hits).toBe(0)
    const { status, socket } = await dial(`mirror.test:${port}`)
    expect(status).toBe(200)
    socket.destroy()
  })

  test('closes what says nothing, and survives more connections than it takes', async () => {
    const sockets = Array.from({ length: 1000 }, () => connect(entrance.port))
    // the queue of the socket may be full, which is an error of connect
    await Promise.all(
      sockets.map(
        (s) =>
          new Promise((closed) =>
            s
              .on('error', () => undefined)
              .on('close', closed)
              .resume(),
          ),
      ),
    )
    const { status, socket } = await dial(`mirror.test:${port}`)
    expect(status).toBe(200)
    socket.destroy()
  })

  test('closes the outer connection with the inner one, before and after it stands', async () => {
    const closed: Promise<unknown>[] = []
    canary.on('connection', (socket: Socket) => closed.push(once(socket, 'close')))
    const { socket } = await dial(`mirror.test:${port}`)
    socket.destroy()
    const hasty = connect(entrance.port)
    hasty.on('error', () => undefined)
    hasty.write(`CONNECT mirror.test:${port} HTTP/1.1\r\nHost: x\r\n\r\n`, () => hasty.destroy())
    await expect.poll(() => closed.length).toBeGreaterThanOrEqual(1)
    await Promise.all(closed)
  })

  test('delivers the last bytes of an answer to a slow reader', async () => {
    canary.removeAllListeners('connection')
    canary.on('connection', (socket: Socket) => socket.end(Buffer.alloc(190_000, 1)))
    const { socket } = await dial(`mirror.test:${port}`)
    let received = 0
    for await (const chunk of socket) {
      received += (chunk as Buffer).length
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(received).toBe(190_000)
  })

  test('tries every judged address', async () => {
    const { status, socket } = await dial(`two.test:${port}`)
    expect(status).toBe(200)
    socket.destroy()
    addresses['two.test'] = ['::1', '127.0.0.1']
    const other = await dial(`two.test:${port}`)
    expect(other.status).toBe(200)
    other.socket.destroy()
  })

  test('answers 502 when nobody listens', async () => {
    canary.close()
    const { status, socket } = await dial(`mirror.test:${port}`)
    expect(status).toBe(502)
    socket.destroy()
  })

  test('ends every connection when the bytes are spent', async () => {
    const { socket } = await dial(`mirror.test:${port}`)
    const other = await dial(`mirror.test:${port}`)
    const closed = Promise.all([once(socket, 'close'), once(other.socket, 'close')])
    socket.resume()
    other.socket.resume()
    socket.write(Buffer.alloc(150_000))
    await closed
    expect(lines).toEqual(['blocked: the build transferred more than 200000 bytes'])
    await expect(dial(`mirror.test:${port}`)).rejects.toThrow(/hang up|ECONNRESET|EPIPE/)
  })

  test('leaves no socket behind', async () => {
    const { socket } = await dial(`mirror.test:${port}`)
    const closed = once(socket, 'close')
    await egress[Symbol.asyncDispose]()
    await closed
    await expect(dial(`mirror.test:${port}`)).rejects.toThrow('ECONNREFUSED')
    const late = createServer().listen(0, '127.0.0.1')
    await once(late, 'listening')
    egress.accept(late)
    expect(late.listening).toBe(false)
  })
})
