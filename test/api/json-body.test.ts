import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { type ClientRequest, createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json as readJson } from 'node:stream/consumers'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Admitted } from '../../api/admission.ts'
import { arriving } from '../../api/body.ts'
import { receiveJson } from '../../api/json-body.ts'
import { createJsonScanner, type JsonBounds } from '../../api/json-scanner.ts'

const bounds: JsonBounds = { maxBytes: 1e7, maxKeptBytes: 1e6, maxValues: 1000, longMembers: new Set(['content']) }

/** What the scanner makes of the document when it comes in pieces of these sizes. */
function scan(json: string | Buffer, sizes: readonly number[] = [65_536], options: Partial<JsonBounds> = {}) {
  const bytes = Buffer.from(json as string)
  const scanner = createJsonScanner({ ...bounds, ...options })
  const spilled: Buffer[] = []
  for (let at = 0, i = 0; at < bytes.length; i += 1) {
    const size = sizes[i % sizes.length] ?? 1
    // a copy, as the caller may use the memory of a chunk again
    spilled.push(...scanner.scan(Buffer.from(bytes.subarray(at, at + size))).map((part) => Buffer.from(part)))
    at += size
  }
  return { ...scanner.end(), bytes: Buffer.concat(spilled) }
}

/** The document with its long strings put back. */
function restored(json: string, sizes: readonly number[]): unknown {
  const { json: rest, spilled, bytes } = scan(json, sizes)
  const whole = (mark: string) => {
    const range = spilled.get(mark)
    return range ? (JSON.parse(`"${bytes.toString('utf8', range.start, range.end)}"`) as string) : mark
  }
  return JSON.parse(rest.toString(), (_name, value) => (typeof value === 'string' ? whole(value) : value))
}

const units = ['a', '"', '\\', '\n', 'é', '€', '🦫', '\u0000', '/', '{', ']', ',', ':']
/** Text around the lengths that are spilled and read at once, so that everything falls on every border. */
const text = fc
  .tuple(fc.array(fc.constantFrom(...units), { minLength: 1, maxLength: 5 }), fc.constantFrom(1, 2040, 16_000, 65_530, 131_000))
  .chain(([parts, length]) => fc.nat(12).map((more) => ''.padEnd(length + more, parts.join(''))))
const files = fc.array(fc.record({ path: fc.string(), content: text, contents: fc.string() }), { maxLength: 3 })

/** As other programs write JSON: with every character escaped. */
const escapeAll = (json: string) =>
  json.replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
const writers = [
  ['as JSON.stringify writes it', (value: unknown) => JSON.stringify(value)],
  ['with escapes', (value: unknown) => escapeAll(JSON.stringify(value))],
  ['with spaces', (value: unknown) => JSON.stringify(value, null, 3)],
] as const

describe('the scanner', () => {
  test.each(writers)('reads a document %s as JSON.parse does, whatever pieces it comes in', (_how, write) => {
    const sizes = fc.array(fc.constantFrom(1, 2, 3, 7, 100, 2048, 65_536), { minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(files, sizes, (value, pieces) => {
        const json = write(value)
        expect(restored(json, pieces)).toEqual(JSON.parse(json))
      }),
      { numRuns: 40 },
    )
  })

  test('spills the strings of members that may be long, and no others', () => {
    const { json, spilled } = scan(JSON.stringify([{ content: 'x'.repeat(100_000), path: 'y'.repeat(5000), short: 'content' }]))
    expect(JSON.parse(json.toString())).toEqual([{ content: [...spilled.keys()][0], path: 'y'.repeat(5000), short: 'content' }])
  })

  test('does not take a value for the name of the next member', () => {
    const { spilled } = scan(`["content", ["${'x'.repeat(5000)}"], {"a":"content","b":"${'x'.repeat(5000)}"}]`)
    expect(spilled.size).toBe(0)
  })

  test.each([
    ['64 levels', '['.repeat(64), undefined],
    ['65 levels', '['.repeat(65), 'nested deeper than 64 levels'],
    ['brackets in a string', JSON.stringify('['.repeat(65)), undefined],
    ['1,000 values', `[${'0,'.repeat(999)}0]`, undefined],
    ['1,001 values', `[${'0,'.repeat(1000)}0]`, 'more than 1000 values'],
    ['1,001 members', `{${'"a":0,'.repeat(1000)}"a":0}`, 'more than 1000 members'],
    ['1,000 members of different objects', `[${'{"a":0,"b":0},'.repeat(332)}{"a":0}]`, undefined],
    ['1,001 empty lists', `[${'[],'.repeat(500)}[]]`, 'more than 1000 values'],
    ['1 MB of spaces', ' '.repeat(1e6), undefined],
    ['more than 1 MB of spaces', ' '.repeat(1e6 + 1), 'more than 1000000 bytes besides'],
    ['2 MB of content', JSON.stringify({ content: 'x'.repeat(2e6) }), undefined],
  ])('%s: %s is refused with %s', (_what, json, message) => {
    const scanned = () => void scan(json)
    if (message === undefined) expect(scanned).not.toThrow()
    else expect(scanned).toThrow(message)
  })

  test('a string without an end is left for the parser', () => {
    for (const json of ['["abc', `{"content":"${'x'.repeat(70_000)}`, '{"a":"b"', '"\\']) {
      expect(() => JSON.parse(scan(json).json.toString())).toThrow()
    }
  })
})

describe('a body', () => {
  let dir: string
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'plinth-bodies-'))
  })
  afterAll(() => rm(dir, { recursive: true, force: true }))

  /** A server that takes every request in this way and answers what came of it. */
  async function serve(take: (incoming: IncomingMessage) => Promise<unknown>) {
    const server = createServer(async (incoming, response) => {
      const answer = await take(incoming).catch((error: unknown) => ({ refused: (error as Error).message }))
      response.end(JSON.stringify(answer))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }
    return {
      begun: () => request({ port, host: '127.0.0.1', method: 'POST', headers }),
      async answer(outgoing: ClientRequest): Promise<any> {
        const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
        return await readJson(response)
      },
      async [Symbol.asyncDispose]() {
        server.closeAllConnections()
        server.close()
      },
    }
  }

  const held = { memory: 0, spool: 0, answers: 0 }
  const admitted: Admitted = {
    hold: (resource, bytes) => {
      held[resource] += bytes
    },
    waitForChunkSlot: async () => undefined,
    readBatch: (read) => read(),
    [Symbol.dispose]: () => undefined,
  }

  async function received(json: string | Buffer): Promise<any> {
    await using server = await serve(async (incoming) => {
      await using body = await receiveJson(incoming, bounds, { admitted, spoolDir: dir })
      const texts: string[] = []
      for (const one of body.texts.values()) {
        let joined = ''
        for await (const piece of one.pieces()) joined += piece
        texts.push(joined)
      }
      return { value: body.value, texts, names: await readdir(dir) }
    })
    const outgoing = server.begun()
    outgoing.end(json)
    return await server.answer(outgoing)
  }

  test('keeps its long strings in a file without a name, and pays for them', async () => {
    const content = '€"\\'.repeat(50_000)
    const before = held.spool
    const { value, texts, names } = await received(JSON.stringify({ path: 'a', content }))
    expect([value.path, value.content === content, texts, names]).toEqual(['a', false, [content], []])
    expect(held.spool - before).toBe(Buffer.byteLength(JSON.stringify(content)) - 2)
  })

  test.each([
    ['an unknown escape', Buffer.from('\\x'), 'not valid JSON'],
    ['a control character', Buffer.from('\n'), 'not valid JSON'],
    ['an escape that is cut off', Buffer.from('\\u12'), 'not valid JSON'],
    ['a byte that is no UTF-8', Buffer.from([0xff]), 'not valid UTF-8'],
  ])('with %s in a long string is no JSON', async (_what, wrong, message) => {
    const json = Buffer.concat([Buffer.from(`{"content":"${'x'.repeat(70_000)}`), wrong, Buffer.from('"}')])
    expect((await received(json)).refused).toContain(message)
  })

  test('that arrives more slowly than its pace is refused, and one that keeps it up is not', async () => {
    const pace = { graceMs: 300, minBytesPerSecond: 1024 }
    await using server = await serve(async (incoming) => {
      let bytes = 0
      for await (const chunk of arriving(incoming, { pace })) bytes += chunk.length
      return bytes
    })
    const stalled = server.begun()
    stalled.write('x')
    const ahead = server.begun()
    ahead.write(Buffer.alloc(1024 * 1024))
    expect((await server.answer(stalled)).refused).toContain('too slowly')
    stalled.destroy()
    // by now it has taken as long as the other
    ahead.end('x')
    expect(await server.answer(ahead)).toBe(1024 * 1024 + 1)
  })

  test('does not count as slow while its reader takes its time', async () => {
    const pace = { graceMs: 200, minBytesPerSecond: 1 }
    let release = (): void => undefined
    const read = new Promise<void>((resolve) => {
      release = resolve
    })
    await using server = await serve(async (incoming) => {
      for await (const _chunk of arriving(incoming, { pace })) await read
      return 'all of it'
    })
    const outgoing = server.begun()
    outgoing.end(Buffer.alloc(300_000))
    setTimeout(release, 3 * pace.graceMs)
    expect(await server.answer(outgoing)).toBe('all of it')
  })
})
