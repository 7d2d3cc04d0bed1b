import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { maxDownloadsOfAddress } from '../../edge/clients.ts'
import type { Traffic } from '../../edge/traffic/traffic.ts'
import { pathIn } from '../../infra/cas/disk-layout.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import { openCaddy } from './caddy-edge.ts'
import { type Ask, ask, openTestEdge, platformDomain } from './test-edge.ts'

// Large files that are not in memory, which Caddy reads from the storage and sends by itself.

const large = randomBytes(9 * 1024 * 1024)
const text = randomBytes(700_000).toString('hex')
const host = `site.${platformDomain}`

let stack: AsyncDisposableStack
let caddy: Awaited<ReturnType<typeof openCaddy>>
let edge: Awaited<ReturnType<typeof openTestEdge>>
let counted: number[] = []
beforeAll(async () => {
  stack = new AsyncDisposableStack()
  caddy = stack.use(await openCaddy())
  const traffic: Traffic = { record: (_site, _req, _status, _type, bytes) => void counted.push(bytes) }
  edge = stack.use(await openTestEdge({ behind: caddy, traffic }))
  const files = {
    'index.html': 'home',
    'small.bin': randomBytes(10),
    'large.bin': large,
    'hex.txt': text,
    _headers: '/*.bin\n  X-Own: yes\n  Content-Type: application/x-own\n',
  }
  await edge.publish('site', files, { compressed: true })
})
afterAll(() => stack.disposeAsync())

const get = (path: string, headers?: Ask['headers'], method = 'GET') =>
  ask(caddy.port, path, { ...(headers && { headers }), method })

/** Reads the headers and no more. */
async function download(headers: Ask['headers'] = {}) {
  const outgoing = request({ port: caddy.port, path: '/large.bin', headers: { host, ...headers }, agent: false })
  outgoing.on('error', () => undefined).end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  response.on('error', () => undefined)
  return { status: response.statusCode, leave: () => outgoing.destroy() }
}

test('V01: has the bytes, and the headers that a small file has', async () => {
  const [sent, small] = [await get('/large.bin'), await get('/small.bin')]
  expect(sent.status).toBe(200)
  expect(sent.body.equals(large)).toBe(true)
  const { date: _, etag, 'content-length': length, ...others } = sent.headers
  const { date: __, etag: ___, 'content-length': ____, ...ofSmall } = small.headers
  expect([etag, length]).toEqual([`"${sha256Hex(large)}"`, String(large.length)])
  expect(others).toEqual(ofSmall)
  expect(others).toMatchObject({ 'x-own': 'yes', 'content-type': 'application/x-own', 'accept-ranges': 'bytes' })
})

test('the answer of the edge itself has no body: Caddy reads the object', async () => {
  const socket = connect(caddy.config.sockets.edge)
  onTestFinished(() => void socket.destroy())
  socket.write(`GET /large.bin HTTP/1.1\r\nHost: ${host}\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n`)
  const [head] = (await once(socket, 'data')) as [Buffer]
  const hash = sha256Hex(large)
  expect(head.toString()).toContain(`\r\nPlinth-Object: ${hash.slice(0, 2)}/${hash.slice(2)}\r\n`)
  expect(head.toString()).toMatch(/\r\n\r\n$/)
})

test.each(['gzip', 'br'] as const)('V17: is sent as %s with its length', async (encoding) => {
  const { headers, body } = await get('/hex.txt', { 'accept-encoding': encoding })
  expect(headers).toMatchObject({ 'content-encoding': encoding, vary: 'Accept-Encoding', 'content-length': String(body.length) })
  // ranges are those of the plain bytes
  expect(headers['accept-ranges']).toBeUndefined()
  const decoded = encoding === 'gzip' ? gunzipSync(body) : brotliDecompressSync(body)
  expect(decoded.toString()).toBe(text)
})

const modified = { 'if-modified-since': new Date(Date.now() + 86_400_000).toUTCString() }
test.each([
  ['a HEAD', {}, 200, 0, 'HEAD'],
  ['its ETag', { 'if-none-match': `"${sha256Hex(large)}"` }, 304, 0],
  ['another ETag', { 'if-none-match': '"other"' }, 200, large.length],
  ['another ETag that must match', { 'if-match': '"other"' }, 412, undefined],
  ['a date', modified, 200, large.length],
  ['a date that must not be passed', { 'if-unmodified-since': new Date(0).toUTCString() }, 200, large.length],
  ['a range', { range: 'bytes=5000000-5000099' }, 206, 100],
  ['several ranges', { range: 'bytes=0-9,20-29' }, 200, large.length],
  ['a range of another content', { range: 'bytes=0-9', 'if-range': '"other"' }, 200, large.length],
] as [string, Ask['headers'], number, number?, string?][])(
  'the edge alone evaluates %s',
  async (_, headers, status, bytes, method) => {
    const answer = await get('/large.bin', headers, method)
    expect(answer.status).toBe(status)
    expect(answer.headers['last-modified']).toBeUndefined()
    if (bytes !== undefined) expect(answer.body.length).toBe(bytes)
    if (status === 206) expect(answer.body.equals(large.subarray(5_000_000, 5_000_100))).toBe(true)
  },
)

test('K02: a download counts whole when it begins, and a part as far as it was sent', async () => {
  counted = []
  const whole = await download()
  expect(counted).toEqual([large.length])
  whole.leave()
  const part = await download({ range: 'bytes=0-' })
  expect(counted).toHaveLength(1)
  part.leave()
  await expect.poll(() => counted).toEqual([large.length, expect.toSatisfy((bytes) => bytes > 0 && bytes < large.length)])
})

test('an object that is not in the storage is 503, and no cache keeps it', async () => {
  const site = `missing.${platformDomain}`
  const manifest = { 'index.html': 'home', 'large.bin': Buffer.alloc(300_000, 'x') }
  await edge.publish('missing', manifest)
  const path = pathIn(fileURLToPath(caddy.config.storage.url), sha256Hex(manifest['large.bin']))
  await rm(path)
  const answer = await ask(caddy.port, '/large.bin', { host: site })
  expect([answer.status, answer.headers['cache-control']]).toEqual([503, 'no-store'])
})

test('visitors of one address who stop reading are counted until they leave', async () => {
  const stalled = await Promise.all(Array.from({ length: maxDownloadsOfAddress }, () => download()))
  expect(new Set(stalled.map(({ status }) => status))).toEqual(new Set([200]))
  expect((await get('/large.bin')).status).toBe(429)
  expect((await get('/')).status).toBe(200)
  for (const { leave } of stalled) leave()
  await expect.poll(async () => (await get('/large.bin')).status).toBe(200)
})

test('Caddy reads nothing but objects, and shows no file that it cannot read', async () => {
  await using other = await openCaddy()
  await writeFile(join(other.config.dataDir, 'secret'), 'secret')
  let name = ''
  const headers = () => ({
    'Plinth-Object': name,
    'Plinth-Length': '6',
    ETag: '"x"',
    'Content-Encoding': 'br',
    'Cache-Control': 'immutable',
  })
  const server = createServer((_, res) => res.writeHead(200, headers()).flushHeaders())
  server.listen(other.config.sockets.edge)
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  for (name of ['../../secret', '%2e%2e/%2e%2e/secret', '/etc/passwd', '', 'ab/missing']) {
    const answer = await ask(other.port, '/', { host })
    expect([name, answer.status, answer.headers['cache-control']]).toEqual([name, 503, 'no-store'])
    expect([answer.headers.etag, answer.headers['content-encoding']]).toEqual([undefined, undefined])
    expect(answer.body.toString()).not.toContain('secret')
  }
})
