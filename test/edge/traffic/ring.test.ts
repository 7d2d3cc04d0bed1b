import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Hit, maxTextBytes, type NotedRequest } from '../../../edge/traffic/hit.ts'
import { createRing, droppedHits, RingReader, RingWriter } from '../../../edge/traffic/ring.ts'
import { hitOf } from './hits.ts'

const openRing = (bytes: number) => {
  const memory = createRing(bytes)
  const writer = new RingWriter(memory)
  return { memory, writer, write: (hit: Hit) => write(writer, hit), reader: new RingReader(memory) }
}
const write = (writer: RingWriter, hit: Hit) => {
  const isWritten = writer.append(hit)
  writer.publish()
  return isWritten
}

/** A hit as it comes out: each text cut, with one byte per character. */
function kept({ request, ...hit }: Hit): Hit {
  const cut = (name: keyof typeof maxTextBytes, text: string) =>
    Buffer.from(text.slice(0, maxTextBytes[name]), 'latin1').toString('latin1')
  const { siteId, host, userAgent, address } = request.client
  const client = {
    siteId: cut('siteId', siteId),
    host: cut('host', host),
    userAgent: cut('userAgent', userAgent),
    address: cut('address', address),
  }
  return {
    ...hit,
    request: { ...request, client, target: cut('target', request.target), referer: cut('referer', request.referer) },
  }
}

const text = (max: number) =>
  fc.oneof(
    fc.string({ maxLength: 20 }),
    fc.string({ unit: 'binary', maxLength: 40 }),
    fc.nat(max + 50).map((n) => 'x'.repeat(n)),
  )
const hits = fc.record({
  atMs: fc.double({ noNaN: true }),
  bytes: fc.nat(2 ** 50),
  request: fc.record({
    status: fc.integer({ min: 100, max: 599 }),
    flags: fc.nat(63),
    client: fc.record({ siteId: text(36), host: text(253), userAgent: text(512), address: text(45) }),
    target: text(1024),
    referer: text(512),
  }),
})

test('K02: what is written is read in its order, around the end of the memory and while it is full', () => {
  const steps = fc.array(
    fc.oneof(
      { weight: 3, arbitrary: hits },
      { weight: 1, arbitrary: fc.nat(5) },
      { weight: 1, arbitrary: fc.constant('publish' as const) },
    ),
    { maxLength: 60 },
  )
  fc.assert(
    fc.property(steps, (steps) => {
      const { memory, writer, reader } = openRing(8192)
      const expected: Hit[] = []
      let written: Hit[] = []
      let dropped = 0
      const publish = () => {
        writer.publish()
        expected.push(...written)
        written = []
      }
      const read = (max: number) => {
        const found: Hit[] = []
        const end = reader.read(max, (request, atMs, bytes) => found.push({ atMs, bytes, request }))
        expect(found).toEqual(expected.splice(0, found.length))
        reader.release(end, reader.segment + 1)
      }
      for (const step of steps) {
        if (typeof step === 'number') read(step)
        else if (step === 'publish') publish()
        else if (writer.append(step)) written.push(kept(step))
        else dropped += 1
      }
      read(Number.POSITIVE_INFINITY)
      expect(reader.isEmpty).toBe(true)
      publish()
      read(Number.POSITIVE_INFINITY)
      expect(expected).toEqual([])
      expect(reader.isEmpty).toBe(true)
      expect(droppedHits(memory)).toBe(dropped)
    }),
    { numRuns: 300 },
  )
})

test('K02: positions beyond 2^32 bytes are no others', () => {
  const { memory, reader } = openRing(4096)
  const header = new Int32Array(memory)
  header[0] = header[1] = (2 ** 32 - 4096) | 0
  const writer = new RingWriter(memory)
  for (let round = 0; round < 100; round++) {
    expect(write(writer, hitOf({ target: `/${round}` }))).toBe(true)
    const end = reader.read(1, ({ target }) => expect(target).toBe(`/${round}`))
    expect(reader.isAhead(end)).toBe(true)
    reader.release(end, round)
    expect(reader.isAhead(end)).toBe(false)
  }
})

test('K02: a full ring drops the newest hits and counts them', () => {
  const { memory, write, reader } = openRing(4096)
  let written = 0
  while (write(hitOf({ target: `/${written}` }))) written += 1
  for (let n = 0; n < 9; n++) write(hitOf())
  expect(droppedHits(memory)).toBe(10)
  const targets: string[] = []
  reader.read(1000, ({ target }) => targets.push(target))
  expect(targets).toEqual(Array.from({ length: written }, (_, n) => `/${n}`))
})

test('K02: what was read and not released is read again by the next reader', () => {
  const { memory, write, reader } = openRing(4096)
  write(hitOf({ target: '/1' }))
  write(hitOf({ target: '/2' }))
  const end = reader.read(1, () => undefined)
  reader.read(10, () => undefined)
  reader.release(end, 7)
  const next = new RingReader(memory)
  expect(next.segment).toBe(7)
  const targets: string[] = []
  next.read(10, ({ target }) => targets.push(target))
  expect(targets).toEqual(['/2'])
})

test('K02: a hit wakes a reader that waits', async () => {
  const { write, reader } = openRing(4096)
  const waiting = reader.wait(60_000)
  write(hitOf())
  await waiting
  await reader.wait(60_000)
})

test('K02: equal requests share one object, as do clients, and texts that only look the same together do not', () => {
  const { write, reader } = openRing(4096)
  const hits = [{}, { atMs: 1, bytes: 2 }, { target: '/b' }, { target: '/bh', referer: '' }, { target: '/b', referer: 'h' }, {}]
  for (const hit of hits) write(hitOf(hit))
  const found: NotedRequest[] = []
  reader.read(hits.length, (request) => found.push(request))
  expect(found).toEqual(hits.map((hit) => hitOf(hit).request))
  expect(found[1]).toBe(found[0])
  expect(found[5]).toBe(found[0])
  expect(new Set(found.map(({ client }) => client)).size).toBe(1)
})

test('K02: what is left of an earlier round of the memory is no part of a request', () => {
  const { write, reader } = openRing(1024)
  const found = new Set<NotedRequest>()
  for (let round = 0; round < 50; round++) {
    expect(write(hitOf({ target: round % 2 === 0 ? '/' : `/${'x'.repeat(round)}` }))).toBe(true)
    const end = reader.read(1, (request) => round % 2 === 0 && found.add(request))
    reader.release(end, round)
  }
  expect(found.size).toBe(1)
})
