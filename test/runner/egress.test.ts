import { once } from 'node:events'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { request } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Egress, type EgressPolicy, judgeEgress, openEgress } from '../../runner/egress.ts'

const addresses: Record<string, string[]> = {
  'cdn.test': ['93.184.215.14', '2606:4700::1111'],
  'mirror.test': ['10.0.0.7'],
  'rebind.test': ['93.184.215.14', '127.0.0.1'],
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
    ['cdn.test:443', '93.184.215.14'],
    ['CDN.test.:443', '93.184.215.14'],
    ['mirror.test:443', '10.0.0.7'],
    ['1.1.1.1:443', '1.1.1.1'],
    ['[2606:4700::1111]:443', '2606:4700::1111'],
  ])('may connect to %s, at the address that was judged', async (authority, address) => {
    expect(await judgeEgress(authority, policy(443))).toEqual({ allowed: true, address })
  })

  test.each([
    ['cdn.test:80', 'builds reach port 443 only'],
    ['mirror.test:22', 'builds reach port 443 only'],
    ['rebind.test:443', 'not at a public address'],
    ['127.0.0.1:443', 'not at a public address'],
    ['10.0.0.7:443', 'not at a public address'],
    ['169.254.169.254:443', 'not at a public address'],
    ['[::1]:443', 'not at a public address'],
    ['[::ffff:127.0.0.1]:443', 'not at a public address'],
    ['[64:ff9b::7f00:1]:443', 'not at a public address'],
    ['empty.test:443', 'the name does not resolve'],
    ['nowhere.test:443', 'the name does not resolve'],
    ['x.mirror.test:443', 'the name does not resolve'],
    ['mirror.test@cdn.test:443', 'not a host and port'],
    ['cdn.test', 'not a host and port'],
    ['http://cdn.test:443', 'not a host and port'],
    ['[fe80::1%25eth0]:443', 'not a host and port'],
    [':443', 'not a host and port'],
    ['', 'not a host and port'],
  ])('may not connect to %s: %s', async (authority, reason) => {
    expect(await judgeEgress(authority, policy(443))).toEqual({ allowed: false, reason })
  })
})

describe('the relay', () => {
  let folder = ''
  let canary: Server
  let hits = 0
  let port = 0
  let egress: Egress
  let lines: string[]

  beforeEach(async () => {
    hits = 0
    lines = []
    folder = await mkdtemp(join(tmpdir(), 'plinth-egress-'))
    canary = createServer((socket) => {
      hits += 1
      socket.on('error', () => undefined)
      socket.pipe(socket)
    }).listen(0, '127.0.0.1')
    await once(canary, 'listening')
    port = (canary.address() as AddressInfo).port
    addresses['mirror.test'] = ['127.0.0.1']
    addresses['inner.test'] = ['127.0.0.1']
    egress = await openEgress({
      folder,
      uid: undefined,
      policy: policy(port),
      maxBytes: 200_000,
      report: (line) => lines.push(line),
    })
  })
  afterEach(async () => {
    await egress[Symbol.asyncDispose]()
    canary.close()
    await rm(folder, { recursive: true })
  })

  async function dial(authority: string): Promise<{ status: number; socket: Socket }> {
    const call = request({ socketPath: egress.socketPath, method: 'CONNECT', path: authority })
    call.end()
    const [response, socket] = (await once(call, 'connect')) as [{ statusCode: number }, Socket]
    socket.on('error', () => undefined)
    return { status: response.statusCode, socket }
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
    const call = request({ socketPath: egress.socketPath, path: `http://mirror.test:${port}/x` }).end()
    const [response] = (await once(call, 'response')) as [import('node:http').IncomingMessage]
    expect(response.statusCode).toBe(403)
    expect(await text(response)).toBe('builds reach the network over https only\n')
    expect(hits).toBe(0)
    expect(lines).toEqual([`blocked: http://mirror.test:${port}/x (plain http is not relayed, use https)`])
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

  test('leaves no socket behind, and its file is for one user', async () => {
    expect((await stat(egress.socketPath)).mode & 0o777).toBe(0o600)
    const { socket } = await dial(`mirror.test:${port}`)
    const closed = once(socket, 'close')
    await egress[Symbol.asyncDispose]()
    await closed
    await expect(stat(egress.socketPath)).rejects.toThrow('ENOENT')
    egress = await openEgress({ folder, uid: undefined, policy: policy(port), maxBytes: 1, report: () => undefined })
  })
})
