import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { slowBodyGraceMs } from '../../core/limits.ts'
import { type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite, newAddress } from './form-site.ts'

// Check 47: bodies as they travel, byte by byte.

let w: World
let owner: TestProject
let site: FormSite
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
  site = await makeFormSite(w, owner)
})
afterAll(() => w?.[Symbol.asyncDispose]())

interface Connection extends AsyncDisposable {
  readonly socket: Socket
  /** Everything that has arrived so far. */
  readonly received: () => string
  /** Waits for the next status and its reason. */
  next(): Promise<string>
}

async function open(): Promise<Connection> {
  const { hostname, port } = new URL(w.base)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  let received = ''
  let read = 0
  socket.on('data', (chunk) => (received += chunk.toString()))
  return {
    socket,
    received: () => received,
    async next() {
      const answer = /HTTP\/1\.1 (\d+)[\s\S]*?\r\n\r\n(?:[^{]*(\{[^}]*\})|)/
      await expect.poll(() => answer.test(received.slice(read)) || socket.closed).toBe(true)
      const found = answer.exec(received.slice(read))
      read += (found?.index ?? 0) + (found?.[0].length ?? 0)
      return `${found?.[1]} ${/"reason":"(\w+)"/.exec(found?.[2] ?? '')?.[1]}`
    },
    [Symbol.asyncDispose]: async () => void socket.destroy(),
  }
}

const head = (headers: readonly string[], origin = site.url) =>
  [
    `POST /f/${site.id} HTTP/1.1`,
    'host: x',
    ...(origin === '' ? [] : [`origin: ${origin}`]),
    `x-forwarded-for: ${newAddress()}`,
    'content-type: application/json',
    ...headers,
    '',
    '',
  ].join('\r\n')

async function send(headers: readonly string[], body: string): Promise<string> {
  await using connection = await open()
  connection.socket.write(head(headers) + body)
  return await connection.next()
}
const stored = async () =>
  (await w.db.selectFrom('form_submissions').select('data').where('site_id', '=', site.id).orderBy('id').execute()).map(
    ({ data }) => data,
  )

test('47: a body in chunks is taken, and is refused as soon as it is too large', async () => {
  const chunked = 'transfer-encoding: chunked'
  expect(await send([chunked], '6\r\n{"a":"\r\n3\r\nb"}\r\n0\r\n\r\n')).toBe('200 undefined')
  expect((await stored()).at(-1)).toEqual({ a: 'b' })
  expect(await send([chunked], '0\r\n\r\n')).toBe('400 invalid_body')
  const quarter = `4000\r\n${'x'.repeat(0x4000)}\r\n`
  expect(await send([chunked], quarter.repeat(4))).toBe('413 body_too_large')
})

test.each([
  ['an announced length of 51,201 bytes', ['content-length: 51201'], '', '413 body_too_large'],
  ['a huge announced length', ['content-length: 9007199254740993'], '', '413 body_too_large'],
  ['no length and no body', [], '', '400 invalid_body'],
  ['a length of 0', ['content-length: 0'], '', '400 invalid_body'],
  ['a length that is no number', ['content-length: 2x'], '{}', '400 undefined'],
  ['two lengths', ['content-length: 2', 'content-length: 3'], '{} ', '400 undefined'],
  ['a length and chunks', ['content-length: 2', 'transfer-encoding: chunked'], '2\r\n{}\r\n0\r\n\r\n', '400 undefined'],
  ['chunks that are none', ['transfer-encoding: chunked'], 'zz\r\n{}', '400 undefined'],
  ['a compressed body', ['content-encoding: gzip', 'content-length: 2'], '{}', '415 unsupported_content_type'],
  ['two encodings', ['content-encoding: identity, br', 'content-length: 2'], '{}', '415 unsupported_content_type'],
  ['no encoding by name', ['content-encoding: identity', 'content-length: 2'], '{}', '200 undefined'],
])('47: %s', async (_what, headers, body, expected) => {
  expect(await send(headers, body)).toBe(expected)
})

test('47: bytes beyond the announced length are no part of the form', async () => {
  const before = (await stored()).length
  await using connection = await open()
  connection.socket.write(`${head(['content-length: 7'])}{"a":1}{"b":2}\r\n\r\n`)
  await expect.poll(() => connection.received()).toContain('HTTP/1.1 400')
  expect(await send(['content-length: 7'], '{"c":3}')).toBe('200 undefined')
  const added = (await stored()).slice(before)
  expect([[{ c: 3 }], [{ a: 1 }, { c: 3 }]]).toContainEqual(added)
})

test('47: a body that breaks off stores nothing', async () => {
  const before = (await stored()).length
  for (const headers of [['content-length: 20'], ['transfer-encoding: chunked']]) {
    await using connection = await open()
    connection.socket.write(`${head(headers)}2\r\n{}\r\n`)
    await pause(50)
    connection.socket.destroy()
  }
  expect(await send(['content-length: 2'], '{}')).toBe('200 undefined')
  expect(await stored()).toHaveLength(before + 1)
})

test('47: a refusal does not wait for the body, and the connection is used on after it', async () => {
  await using connection = await open()
  const body = `{"a":"${'x'.repeat(40_000)}"}`
  connection.socket.write(head([`content-length: ${body.length}`], 'https://evil.example'))
  expect(await connection.next()).toBe('403 origin_not_allowed')
  connection.socket.write(body)
  connection.socket.write(`${head(['content-length: 2'])}{}`)
  expect(await connection.next()).toBe('200 undefined')
})

test('47: a body that arrives too slowly is refused', { timeout: slowBodyGraceMs + 60_000 }, async () => {
  await using connection = await open()
  connection.socket.write(`${head(['content-length: 50'])}{"a":`)
  const drip = setInterval(() => connection.socket.write(' '), 1000)
  const startedAt = performance.now()
  const waiting = expect.poll(() => connection.received(), { timeout: slowBodyGraceMs + 30_000 }).toContain('"invalid_body"')
  await waiting.finally(() => clearInterval(drip))
  expect(performance.now() - startedAt).toBeGreaterThan(slowBodyGraceMs - 1000)
})
