import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { etagsOf, matchedETag, parseRange, passesIfMatch, preferredEncodings } from '../../edge/conditions.ts'
import { openTestEdge, type TestEdge } from './test-edge.ts'

const etags = etagsOf('abc')

test.each([
  ['"abc"', '"abc"'],
  ['W/"abc"', '"abc"'],
  ['"abc-gzip"', '"abc-gzip"'],
  ['W/"abc-gzip"', '"abc-gzip"'],
  ['"x", "abc"', '"abc"'],
  ['"x",W/"abc-gzip" , "y"', '"abc-gzip"'],
  ['"abc-br"', '"abc-br"'],
  ['"x", W/"abc-zstd"', '"abc-zstd"'],
  ['"abc-deflate"', undefined],
  ['*', '"abc"'],
  ['"x"', undefined],
  ['abc', undefined],
  ['"abc', undefined],
  ['', undefined],
  ['"abcd"', undefined],
])('If-None-Match %s names %s', (header, tag) => {
  expect(matchedETag(header, etags)).toBe(tag)
})

test.each([
  ['"abc"', true],
  ['"x", "abc-gzip"', true],
  ['*', true],
  ['W/"abc"', false],
  ['"x"', false],
  ['', false],
])('If-Match %s passes: %s', (header, passes) => {
  expect(passesIfMatch(header, etags)).toBe(passes)
})

test('Accept-Encoding is read once, and a long one each time', () => {
  const long = `gzip${', x'.repeat(90)}`
  expect([preferredEncodings('gzip, deflate, br, zstd'), preferredEncodings(long)]).toEqual([
    { all: ['br', 'zstd', 'gzip'], madeAtOnce: ['gzip'] },
    { all: ['gzip'], madeAtOnce: ['gzip'] },
  ])
  expect(preferredEncodings('gzip, deflate, br, zstd')).toBe(preferredEncodings('gzip, deflate, br, zstd'))
  expect(preferredEncodings(long)).not.toBe(preferredEncodings(long))
  expect(preferredEncodings(undefined)).toEqual({ all: [], madeAtOnce: [] })
})

test.each([
  ['bytes=0-0', { start: 0, end: 0 }],
  ['bytes=2-5', { start: 2, end: 5 }],
  ['bytes=2-', { start: 2, end: 9 }],
  ['bytes=-3', { start: 7, end: 9 }],
  ['bytes=-10', { start: 0, end: 9 }],
  ['bytes=-99999999999999999999', { start: 0, end: 9 }],
  ['bytes=5-99999999999999999999', { start: 5, end: 9 }],
  ['Bytes=2-5', { start: 2, end: 5 }],
  ['bytes= 2-5 ', { start: 2, end: 5 }],
  ['bytes=10-', 'unsatisfiable'],
  ['bytes=10-20', 'unsatisfiable'],
  ['bytes=99999999999999999999-', 'unsatisfiable'],
  ['bytes=-0', 'unsatisfiable'],
  [undefined, undefined],
  ['bytes=', undefined],
  ['bytes=-', undefined],
  ['bytes=5-2', undefined],
  ['bytes=0-1,3-4', undefined],
  ['bytes=0-1,', undefined],
  ['bytes=a-b', undefined],
  ['bytes=1-2-3', undefined],
  ['bytes=+1-2', undefined],
  ['bytes=0x1-2', undefined],
  ['items=0-1', undefined],
  ['0-1', undefined],
  [`bytes=${'0'.repeat(130)}-`, undefined],
  [`bytes=${'0-1,'.repeat(10_000)}`, undefined],
])('Range %s of ten bytes is %j', (header, part) => {
  expect(parseRange(header, undefined, 10, '"abc"')).toEqual(part)
})

test.each([
  ['"abc"', { start: 0, end: 1 }],
  ['W/"abc"', undefined],
  ['"abc-gzip"', undefined],
  ['"x"', undefined],
  ['Sat, 21 Nov 2026 07:00:00 GMT', undefined],
])('If-Range %s lets the range be %j', (ifRange, part) => {
  expect(parseRange('bytes=0-1', ifRange, 10, '"abc"')).toEqual(part)
})

test('a range of an empty file is not looked at', () => {
  expect(parseRange('bytes=0-', undefined, 0, '"abc"')).toBeUndefined()
})

describe.each([
  ['small files', {}],
  ['files too large to remember', { maxBodyBytes: 100 }],
])('conditions and ranges of %s', (_name, limits) => {
  const body = Array.from({ length: 1000 }, (_, i) => `line ${i}\n`).join('')
  const etag = `"${createHash('sha256').update(body).digest('hex')}"`
  const gzipEtag = etag.replace(/"$/, '-gzip"')
  let edge: TestEdge
  beforeAll(async () => {
    edge = await openTestEdge({ limits })
    await edge.publish('site', { 'index.html': 'home', 'text.txt': body, 'empty.txt': '', '404.html': body })
  })
  afterAll(() => edge[Symbol.asyncDispose]())
  const get = (headers: Record<string, string>, method = 'GET') => edge.ask('/text.txt', { headers, method })

  test('the tag is the hash of the content', async () => {
    expect((await get({})).headers.etag).toBe(etag)
    expect((await get({ 'accept-encoding': 'gzip' })).headers.etag).toBe(gzipEtag)
  })

  test.each(['GET', 'HEAD'])('%s with a tag of either form is answered 304', async (method) => {
    for (const tag of [etag, gzipEtag]) {
      const answer = await get({ 'if-none-match': `W/${tag}`, range: 'bytes=0-1' }, method)
      expect(answer.status).toBe(304)
      expect(answer.body.length).toBe(0)
      expect(answer.headers.etag).toBe(tag)
      expect(answer.headers['cache-control']).toBe('max-age=300')
      expect(answer.headers.vary).toBe('Accept-Encoding')
    }
  })

  test('another tag gets the file', async () => {
    expect((await get({ 'if-none-match': '"other"' })).status).toBe(200)
  })

  test('If-Match of another tag is 412', async () => {
    expect((await get({ 'if-match': '"other"' })).status).toBe(412)
    expect((await get({ 'if-match': etag })).status).toBe(200)
  })

  test.each([
    ['bytes=0-9', 0, 9],
    ['bytes=100-199', 100, 199],
    ['bytes=-5', body.length - 5, body.length - 1],
    ['bytes=8000-', 8000, body.length - 1],
  ])('%s is answered 206', async (range, start, end) => {
    const answer = await get({ range, 'if-range': etag, 'accept-encoding': 'gzip' })
    expect(answer.status).toBe(206)
    expect(answer.headers['content-range']).toBe(`bytes ${start}-${end}/${body.length}`)
    expect(answer.headers['content-length']).toBe(String(end - start + 1))
    expect(answer.headers['content-encoding']).toBeUndefined()
    expect(answer.headers.etag).toBe(etag)
    expect(answer.body.toString()).toBe(body.slice(start, end + 1))
  })

  test('a range past the end is 416', async () => {
    const answer = await get({ range: `bytes=${body.length}-` })
    expect(answer.status).toBe(416)
    expect(answer.headers['content-range']).toBe(`bytes */${body.length}`)
    expect(answer.headers['cache-control']).toBe('no-store')
  })

  test.each([
    { range: 'bytes=0-1,5-6' },
    { range: 'bytes=zz' },
    { range: 'bytes=0-9', 'if-range': '"other"' },
    { range: 'bytes=0-9', 'if-range': 'Sat, 21 Nov 2026 07:00:00 GMT' },
  ])('%j gets the whole file', async (headers) => {
    const answer = await get(headers)
    expect(answer.status).toBe(200)
    expect(answer.headers['accept-ranges']).toBe('bytes')
    expect(answer.body.toString()).toBe(body)
  })

  test('a HEAD has no range', async () => {
    const answer = await get({ range: 'bytes=0-1' }, 'HEAD')
    expect(answer.status).toBe(200)
    expect(answer.headers['content-length']).toBe(String(body.length))
  })

  test('conditions and ranges do not apply to a 404 page', async () => {
    const answer = await edge.ask('/nope', { headers: { 'if-none-match': etag, range: 'bytes=0-1' } })
    expect(answer.status).toBe(404)
    expect(answer.body.toString()).toBe(body)
  })

  test('a range of an empty file gets the empty file', async () => {
    const answer = await edge.ask('/empty.txt', { headers: { range: 'bytes=0-' } })
    expect([answer.status, answer.body.length]).toEqual([200, 0])
  })
})
