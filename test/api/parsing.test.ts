import { once } from 'node:events'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listDeploys } from '../../services/deploys/deploys.ts'
import { makeSite, randomName } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
let site: any
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
  site = await makeSite(w, owner)
})
afterAll(() => w[Symbol.asyncDispose]())

const messageOnly = { message: expect.stringMatching(/\S/) }

/** Sends the text as a JSON body, byte by byte as it stands. */
const send = (endpoint: string, body: string | Uint8Array, type = 'application/json', headers: Record<string, string> = {}) =>
  w.call(endpoint.replace('{site}', site.id), { key: owner.key, bytes: Buffer.from(body as string), type, headers })

const create = 'POST /api/v1/sites'
const update = 'PATCH /api/v1/sites/{site}'
const files = 'POST /api/v1/sites/{site}/deploy-files'
const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
const utf16 = (text: string) => Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, 'utf16le')])

test.each([
  ['a NUL in a name', create, '{"name":"a\\u0000b","subdomain":"parsing-nul"}', 422],
  ['half a surrogate pair in a name', create, '{"name":"\\ud800","subdomain":"parsing-half"}', 422],
  ['a name of spaces and control characters', create, '{"name":" \\u0001\\ufeff","subdomain":"parsing-blank"}', 400],
  ['a NUL in a subdomain', create, '{"name":"x","subdomain":"parsing\\u0000nul"}', 400],
  ['half a surrogate pair in a subdomain', create, '{"name":"x","subdomain":"parsing\\udfff"}', 400],
  ['a NUL in a description', update, '{"name":"x","description":"\\u0000"}', 422],
  ['a number as large as none in a boolean', update, '{"name":"x","checks_enabled":1e400}', 422],
  ['an object with a toString of its own as a name', create, '{"name":{"toString":"x"},"subdomain":"parsing-object"}', 422],
  ['an array of 63 levels as a name', create, `{"name":${nested(63)},"subdomain":"parsing-deep"}`, 422],
  ['an array of 64 levels as a name', create, `{"name":${nested(64)},"subdomain":"parsing-deep"}`, 400],
  ['100,000 levels alone', create, nested(1e5), 400],
  ['100,000 levels that do not end', create, '['.repeat(1e5), 400],
  ['files of 100,000 levels', files, `{"files":${nested(1e5)}}`, 400],
  ['an unknown member of 100,000 levels', create, `{"deep":${nested(1e5)},"name":"x","subdomain":"parsing-below"}`, 400],
  ['a list of 10,000 numbers', create, `{"name":"x","subdomain":"parsing-list","list":[${'0,'.repeat(9999)}0]}`, 400],
  ['an object of 10,000 members', create, `{${'"a":0,'.repeat(9999)}"name":"x","subdomain":"parsing-wide"}`, 400],
  ['a million files', files, `{"files":[${'"",'.repeat(999_999)}""]}`, 400],
  ['a number of 9 MB', files, `{"files":${'1'.repeat(9 * 1024 * 1024)}}`, 413],
  ['a path of 9 MB', files, `{"files":[{"path":"${'a'.repeat(9 * 1024 * 1024)}","content":""}]}`, 413],
  ['a NUL in a path', files, '{"files":[{"path":"index.html","content":""},{"path":"a\\u0000","content":""}]}', 400],
  [
    'half a surrogate pair in a path',
    files,
    '{"files":[{"path":"index.html","content":""},{"path":"\\ud800","content":""}]}',
    400,
  ],
  ['half a surrogate pair in content', files, '{"files":[{"path":"index.html","content":"\\ud800"}]}', 400],
  ['a path of __proto__ alone', files, '{"files":[{"path":"__proto__","content":""}]}', 400],
  ['UTF-16 that is announced as UTF-8', create, utf16('{"name":"x","subdomain":"parsing-utf16"}'), 400],
  ['NaN', create, '{"name":NaN}', 400],
  ['a comment', create, '{"name":"x" /* why */}', 400],
  ['two values', create, '{}{}', 400],
])('C02 O04: %s is refused with a message', async (_what, endpoint, body, expected) => {
  const answer = await send(endpoint, body)
  expect([answer.status, answer.body]).toEqual([expected, messageOnly])
})

test.each([
  [
    'members named __proto__ and constructor',
    (name: string) => `{"__proto__":{"scope":"x"},"constructor":{"prototype":{"x":1}},"name":"x","subdomain":"${name}"}`,
  ],
  ['unknown members', (name: string) => `{"name":"x","subdomain":"${name}","plan":"free","id":7}`],
  ['a byte order mark', (name: string) => `\ufeff{"name":"x","subdomain":"${name}"}`],
  ['a member that is there twice, whose last counts', (name: string) => `{"name":"first","name":"x","subdomain":"${name}"}`],
  ['an unknown member of 60 levels', (name: string) => `{"deep":${nested(60)},"name":"x","subdomain":"${name}"}`],
  ['an unknown list of 400 values', (name: string) => `{"list":[${'0,'.repeat(399)}0],"name":"x","subdomain":"${name}"}`],
])('E1: a body with %s is accepted and nothing else changes', async (_what, body) => {
  const name = randomName()
  const answer = await send(create, body(name))
  expect([answer.status, answer.body.name, answer.body.subdomain]).toEqual([200, 'x', name])
  expect(Object.keys(Object.prototype)).toEqual([])
  expect(({} as Record<string, unknown>)['scope']).toBe(undefined)
})

test('content may hold NUL, and a file may be called __proto__ or constructor', async () => {
  const names = ['index.html', '__proto__', 'constructor', 'a/__proto__/b']
  const body = JSON.stringify({ files: names.map((path) => ({ path, content: 'a\u0000b' })) })
  expect((await send(files, body)).body).toMatchObject({ file_count: 4, total_bytes: 12 })
})

test('the length of a name is counted in characters, as the document says', async () => {
  const named = (length: number) => send(create, JSON.stringify({ name: '🦫'.repeat(length), subdomain: randomName() }))
  expect([(await named(120)).status, (await named(121)).status]).toEqual([200, 422])
})

test.each([
  ['another charset', create, 'application/json; charset=utf-16', {}],
  ['another charset in quotes', files, 'application/json;charset="ISO-8859-1"', {}],
  ['gzip', create, 'application/json', { 'content-encoding': 'gzip' }],
  ['gzip for files', files, 'application/json', { 'content-encoding': 'gzip' }],
  ['a coded archive', 'POST /api/v1/sites/{site}/deploys', 'application/gzip', { 'content-encoding': 'br' }],
  ['a JSON text that calls itself form data', create, 'multipart/form-data; boundary=x', {}],
  ['a JSON text that calls itself a form', create, 'application/x-www-form-urlencoded', {}],
])('C04 O04: a body in %s is refused with 415 and a message', async (_what, endpoint, type, headers) => {
  const answer = await send(endpoint, gzipSync('{}'), type, headers)
  expect([answer.status, answer.body]).toEqual([415, messageOnly])
})

test.each(['application/json; charset=utf-8', 'APPLICATION/JSON;CHARSET="UTF-8"', 'application/json; profile=x'])(
  'a JSON body of type %s is taken',
  async (type) => {
    expect((await send(create, JSON.stringify({ name: 'x', subdomain: randomName() }), type)).status).toBe(200)
  },
)

test.each([
  ['', 200],
  ['limit=1', 200],
  ['limit=200', 200],
  ['limit=1e2', 200],
  ['limit=0', 422],
  ['limit=201', 422],
  ['limit=-1', 422],
  ['limit=1e99', 422],
  ['limit=1e400', 422],
  ['limit=NaN', 422],
  ['limit=Infinity', 422],
  ['limit=0x10', 422],
  ['limit=1.5', 422],
  ['limit=', 422],
  ['limit=%20', 422],
  ['limit=%00', 422],
  ['limit=%zz', 422],
  ['limit=%ff', 422],
  ['limit=1&limit=2', 422],
  ['limit[]=1', 200],
  ['limit[0]=1', 200],
  ['before=x', 422],
  ['before=%00', 422],
  ['before=00000000-0000-7000-8000-000000000000%00', 422],
  ['nothing=known', 200],
  ['__proto__=x&constructor=y', 200],
  ['__proto__[limit]=0', 200],
  ['%', 200],
  ['&&==&', 200],
])('O04: the query ?%s is answered with %i', async (query, expected) => {
  const { status, body } = await w.call(`GET /api/v1/sites/${site.id}/deploys?${query}`, { key: owner.key })
  expect([status, body]).toEqual([expected, expected === 200 ? expect.any(Array) : messageOnly])
})

/** One request as the bytes are; the answer's status (0 for none) and JSON. `hangUp` ends our side after them. */
async function raw(head: string, body = '', hangUp = false): Promise<{ status: number; body: unknown }> {
  const socket = connect(Number(new URL(w.base).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.write(`${head}\r\nHost: localhost\r\nAuthorization: Bearer ${owner.key}\r\nConnection: close\r\n\r\n${body}`)
  if (hangUp) socket.end()
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  // a server that has seen enough resets the connection
  socket.on('error', () => undefined)
  await new Promise((resolve) => socket.on('close', resolve))
  const answer = Buffer.concat(chunks).toString()
  const json = answer.slice(answer.indexOf('\r\n\r\n')).match(/[{[].*[}\]]/s)?.[0]
  return { status: Number(answer.split(' ')[1] ?? 0), body: json === undefined ? undefined : JSON.parse(json) }
}

test.each([
  ['/api/v1/sites/%zz', 404],
  ['/api/v1/sites/%', 404],
  ['/api/v1/sites/%00', 404],
  ['/api/v1/sites/%ff', 404],
  ['/api/v1/sites/..%2fsites', 404],
  ['/api/v1/sites/%2e%2e/whoami', 404],
  ['/api/v1/sites/', 404],
  ['/api/v1/sites//', 404],
  ['//api/v1/sites', 404],
  ['/API/v1/sites', 404],
  ['/api/v1/sites;x=1', 404],
  ['/api/v1/whoami/', 404],
  ['/%', 404],
  ['http://elsewhere.example/api/v1/whoami', 200],
])('C02: GET %s is answered with %i in JSON', async (path, expected) => {
  const { status, body } = await raw(`GET ${path} HTTP/1.1`)
  expect([status, body]).toEqual([expected, expected === 200 ? expect.anything() : messageOnly])
})

test('C02: addresses of 12 KB are served', async () => {
  expect(await raw(`GET /api/v1/sites/${'x'.repeat(12_000)} HTTP/1.1`)).toEqual({ status: 404, body: messageOnly })
  expect((await raw(`GET /api/v1/sites?${'x=1&'.repeat(3000)} HTTP/1.1`)).status).toBe(200)
})

test('an address of 64 KB is refused and the next request is served', async () => {
  expect([0, 431]).toContain((await raw(`GET /${'x'.repeat(65_536)} HTTP/1.1`)).status)
  expect((await w.call('GET /api/v1/whoami', { key: owner.key })).status).toBe(200)
})

test.each([
  ['HEAD', '/api/v1/whoami', 200],
  ['HEAD', '/api/v1/nothing', 404],
  ['OPTIONS', '/api/v1/whoami', 405],
  ['OPTIONS', '*', 404],
  ['TRACE', '/api/v1/whoami', 405],
  ['QUERY', '/api/v1/sites', 405],
  ['CONNECT', '/api/v1/sites', 0],
])('O04: %s %s is answered with %i (0: hung up) and leaves the server alive', async (method, path, expected) => {
  const { status, body } = await raw(`${method} ${path} HTTP/1.1`)
  expect(status).toBe(expected)
  if (method !== 'HEAD' && expected > 0) expect(body).toEqual(messageOnly)
  expect((await w.call('GET /healthz')).status).toBe(200)
})

const deployCount = async () => (await listDeploys(w.db, owner.id, site.id, { limit: 200 })).sizes.length

test.each([
  ['deploy-files', 'application/json', '{"files":[{"path":"index.html","content":"'],
  ['deploys', 'application/gzip', gzipSync('archive').toString('latin1')],
])('O04: an upload to %s that breaks off or lies about its length makes no deploy', async (route, type, begin) => {
  const before = await deployCount()
  const head = `POST /api/v1/sites/${site.id}/${route} HTTP/1.1\r\nContent-Type: ${type}`
  for (const framing of ['Content-Length: 100000', 'Transfer-Encoding: chunked']) {
    const { status } = await raw(`${head}\r\n${framing}`, framing.startsWith('T') ? `ffff\r\n${begin}` : begin, true)
    expect([0, 400]).toContain(status)
  }
  for (const framing of [
    'Content-Length: -5',
    'Content-Length: 1e3',
    'Content-Length: 5\r\nContent-Length: 6',
    'Content-Length: 5\r\nTransfer-Encoding: chunked',
  ]) {
    expect((await raw(`${head}\r\n${framing}`, begin)).status).toBe(400)
  }
  expect(await deployCount()).toBe(before)
  expect((await w.call('GET /healthz')).status).toBe(200)
})

test.each([
  ['POST /operator/v1/projects', { name: '\u0000', owner_email: 'a@example.com', plan: 'pro' }, 422],
  ['POST /operator/v1/projects', { name: 'x', owner_email: 'a\u0000@example.com', plan: 'pro' }, 422],
  ['PATCH /operator/v1/projects/{project}', { form_balance_add: 1e99 }, 422],
  ['DELETE /operator/v1/projects/{project}/keys/%00', undefined, 404],
  ['GET /operator/v1/projects/%00', undefined, 404],
])('the operator API answers %s with hostile values with a message', async (endpoint, json, expected) => {
  const { status, body } = await w.call(endpoint.replace('{project}', owner.id), { key: operatorToken, json })
  expect([status, body]).toEqual([expected, messageOnly])
})

test('C05: ids are UUIDs and hashes 64 hex characters', async () => {
  const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
  const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploy-files`, {
    key: owner.key,
    json: { files: [{ path: 'index.html', content: 'x' }] },
  })
  for (const id of [owner.id, site.id, body.id, body.site_id]) expect(id).toMatch(uuid)
})
