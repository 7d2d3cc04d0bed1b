import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite } from './form-site.ts'

// Check 47: whatever is posted is stored as it was sent, or refused with a reason.

let w: World
let owner: TestProject
let site: FormSite
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await makeFormSite(w, owner)
})

const json = 'application/json'
const form = 'application/x-www-form-urlencoded'
const multipart = 'multipart/form-data; boundary=x'

const part = (headers: string, value = 'v') => `--x\r\n${headers}\r\n\r\n${value}\r\n`
const named = (parameters: string, value?: string) => part(`content-disposition: form-data; ${parameters}`, value)
const end = '--x--\r\n'
/** Characters as bytes. */
const bytes = (text: string) => Buffer.from(text, 'latin1')
const repeated = (count: number, make: (i: number) => string, separator = '') =>
  Array.from({ length: count }, (_, i) => make(i)).join(separator)

async function stored(): Promise<unknown[]> {
  const rows = await w.db.selectFrom('form_submissions').select('data').where('site_id', '=', site.id).orderBy('id').execute()
  return rows.map(({ data }) => data)
}

type Body = string | Buffer
type Result = object | 'invalid_body' | 'too_many_fields' | 'body_too_large' | 'unsupported_content_type'
const statuses = { invalid_body: 400, too_many_fields: 400, body_too_large: 413, unsupported_content_type: 415 } as const

async function expectResult(body: Body, type: string, expected: Result): Promise<void> {
  const { status, body: answer } = await site.post(body, { type })
  if (typeof expected === 'string') {
    expect([status, answer.reason]).toEqual([statuses[expected], expected])
    expect(await stored()).toEqual([])
  } else {
    expect([status, answer]).toEqual([200, { ok: true }])
    expect(await stored()).toEqual([expected])
  }
}

test.each<[string, Body, Result]>([
  ['with a name twice', '{"a":1,"a":2}', { a: 2 }],
  ['with a name twice, by its escape', '{"a":1,"\\u0061":2}', { a: 2 }],
  ['with prototypes within', '{"a":{"__proto__":{"b":1},"constructor":{}}}', { a: { ['__proto__']: { b: 1 }, constructor: {} } }],
  ['with a byte order mark', Buffer.from('\ufeff{"a":1}'), { a: 1 }],
  ['in UTF-16', Buffer.from('{"a":1}', 'utf16le'), 'invalid_body'],
  ['64 levels deep', `{"a":${'['.repeat(63)}${']'.repeat(63)}}`, { a: JSON.parse('['.repeat(63) + ']'.repeat(63)) }],
  ['65 levels deep', `{"a":${'['.repeat(64)}${']'.repeat(64)}}`, 'invalid_body'],
  ['deep in objects', `${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`, 'invalid_body'],
  ['never closed', '['.repeat(50_000), 'invalid_body'],
  ['with the largest number', '{"a":1.7976931348623157e308,"b":5e-324}', { a: Number.MAX_VALUE, b: Number.MIN_VALUE }],
  ['with a number beyond', '{"a":[{"b":-1e309}]}', 'invalid_body'],
  ['with a number of 40 KB', `{"a":1${'0'.repeat(40_000)}}`, 'invalid_body'],
  ['with digits after the point', `{"a":0.${'3'.repeat(40_000)}}`, { a: 0.3333333333333333 }],
  ['with half a pair as a name', '{"\\udc00":"\\ud83e"}', { '\ufffd': '\ufffd' }],
  ['with control characters', '{"a":"\\u0001\\u001f\\u007f\\r\\n"}', { a: '\u0001\u001f\u007f\r\n' }],
  ['with a raw control character', '{"a":"\u0001"}', 'invalid_body'],
  ['with invalid UTF-8 in a text', bytes('{"a":"\xc3\x28"}'), 'invalid_body'],
  ['with an overlong character', bytes('{"a":"\xc0\xaf"}'), 'invalid_body'],
  ['with text after it', '{"a":1} {"b":2}', 'invalid_body'],
  ['in single quotes', "{'a':1}", 'invalid_body'],
  ['with NaN', '{"a":NaN}', 'invalid_body'],
  ['that is a number', '7', 'invalid_body'],
  ['with 31 fields', `{${repeated(31, (i) => `"f${i}":1`, ',')}}`, 'too_many_fields'],
  ['with a field of 40 KB', JSON.stringify({ ['n'.repeat(40_000)]: 'x' }), { ['n'.repeat(40_000)]: 'x' }],
])('47: JSON %s', (_what, body, expected) => expectResult(body, json, expected))

test.each<[string, Body, Result]>([
  ['with broken percent sequences', 'a=%&b=%4&c=%g1&d=%E2%82', { a: '%', b: '%4', c: '%g1', d: '\ufffd' }],
  ['with a name only', 'a&=b&&&', { a: '', '': 'b' }],
  ['that begins with a question mark', '?a=1&b==?', { '?a': '1', b: '=?' }],
  ['that begins with a byte order mark', '\ufeffa=1', { '\ufeffa': '1' }],
  ['with semicolons', 'a=1;b=2', { a: '1;b=2' }],
  ['with brackets', 'a[]=1&a[]=2&a[b][c]=3&__proto__[x]=4', { 'a[]': ['1', '2'], 'a[b][c]': '3', '__proto__[x]': '4' }],
  ['with line ends in names and values', 'a%0D%0Ab=%0D%0Ac%00', { 'a\r\nb': '\r\nc\ufffd' }],
  ['with raw invalid UTF-8', bytes('a=\xff'), 'invalid_body'],
  ['with 31 names by brackets', repeated(31, (i) => `a[${i}]=1`, '&'), 'too_many_fields'],
  ['with 1,001 values', repeated(1001, () => 'a=', '&'), 'too_many_fields'],
  ['with 1,001 values of the platform', repeated(1001, () => '_next=', '&'), 'too_many_fields'],
  ['of 51,200 bytes', `a=${'x'.repeat(51_198)}`, { a: 'x'.repeat(51_198) }],
  ['of 51,201 bytes', `a=${'x'.repeat(51_199)}`, 'body_too_large'],
])('47: an encoded form %s', (_what, body, expected) => expectResult(body, form, expected))

test.each<[string, Body, Result, string?]>([
  ['with a preamble and an epilogue', `before\r\n${named('name="a"')}${end}after`, { a: 'v' }],
  ['with no part', end, {}],
  ['with line feeds only', '--x\ncontent-disposition: form-data; name="a"\n\nv\n--x--\n', 'invalid_body'],
  ['cut off', named('name="a"'), 'invalid_body'],
  ['without a boundary', named('name="a"') + end, 'invalid_body', 'multipart/form-data'],
  ['with an empty boundary', named('name="a"') + end, 'invalid_body', 'multipart/form-data; boundary='],
  ['with another boundary', named('name="a"') + end, 'invalid_body', 'multipart/form-data; boundary=y'],
  ['with a quoted boundary', named('name="a"') + end, { a: 'v' }, 'multipart/form-data; charset=UTF-8; boundary="x"'],
  ['in another charset', named('name="a"') + end, 'unsupported_content_type', 'multipart/form-data; charset=koi8-r; boundary=x'],
  ['of another kind', named('name="a"') + end, 'unsupported_content_type', 'multipart/mixed; boundary=x'],
  ['with a part without a name', part('content-disposition: form-data') + end, 'invalid_body'],
  ['with a part without a disposition', part('content-type: text/plain') + end, 'invalid_body'],
  ['with an attachment', part('content-disposition: attachment; name="a"') + end, 'invalid_body'],
  ['with escaped line ends and quotes in a name', named('name="a%0D%0A%22b%20"') + end, { 'a\r\n"b%20': 'v' }],
  ['with a line end in a name', named('name="a\r\nb"') + end, 'invalid_body'],
  ['with a line feed in a name', named('name="a\nb"') + end, 'invalid_body'],
  ['with NUL in a name and a value', named('name="a\0b"', '\0') + end, { 'a\ufffdb': '\ufffd' }],
  ['with invalid UTF-8', bytes(named('name="\xff"', '\xfe') + end), { '\ufffd': '\ufffd' }],
  ['with prototypes', named('name="__proto__"') + named('name="constructor"') + end, { ['__proto__']: 'v', constructor: 'v' }],
  ['with files', named('name="a"; filename=""') + named('name="b"; filename="x.png"') + named('name="c"') + end, { c: 'v' }],
  ['with an extended file name', named(`name="a"; filename*=utf-8''x`) + named('name="b"') + end, { b: 'v' }],
  [
    'with a form within',
    part('content-disposition: form-data; name="a"\r\ncontent-type: multipart/mixed; boundary=y', '--y--') + end,
    { a: '--y--' },
  ],
  ['with a part header of 40 KB', part(`content-disposition: form-data; name="a"\r\nx: ${'y'.repeat(40_000)}`) + end, { a: 'v' }],
  ['with 6,000 part headers', part(`content-disposition: form-data; name="a"${'\r\nx: y'.repeat(6000)}`) + end, { a: 'v' }],
  ['with line ends in a value', named('name="a"', '1\r\n2\n3\r') + end, { a: '1\r\n2\n3\r' }],
  ['with 31 names', repeated(31, (i) => named(`name="${i}"`)) + end, 'too_many_fields'],
  ['with 800 values', repeated(800, () => named('name=""', '')) + end, { '': Array.from({ length: 800 }, () => '') }],
  ['with 10,000 parts', repeated(10_000, () => named('name=a')) + end, 'body_too_large'],
])('47: a multipart form %s', (_what, body, expected, type = multipart) => expectResult(body, type, expected))

describe('any form', () => {
  const run = { numRuns: 60 }
  /** As PostgreSQL stores text. */
  const kept = (text: string) => text.toWellFormed().replaceAll('\0', '\ufffd')
  const anyText = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.constantFrom('\0', '\ud800', '\udc00', '=', '&', '%', '"', '\r', '\n') }),
  )
  const name = anyText.filter((text) => !text.startsWith('_'))
  const names = fc.uniqueArray(name, { maxLength: 30, selector: kept })

  /** The only submission so far; the clock moves, so that no rate ends the test. */
  async function storedAfter(body: Body | FormData, type?: string): Promise<unknown> {
    await w.db.deleteFrom('form_submissions').where('site_id', '=', site.id).execute()
    w.advance(3000)
    expect((await site.post(body, type === undefined ? {} : { type })).status).toBe(200)
    const [data] = await stored()
    return data
  }

  test('47: JSON is stored as it was sent', async () => {
    const value = fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' })
    const asKept = (given: unknown): unknown => {
      if (typeof given === 'string') return kept(given)
      if (Array.isArray(given)) return given.map(asKept)
      if (typeof given === 'object' && given !== null)
        return Object.fromEntries(Object.entries(given).map(([key, member]) => [kept(key), asKept(member)]))
      return given === 0 ? 0 : given
    }
    const property = fc.asyncProperty(names, fc.array(value, { minLength: 30, maxLength: 30 }), async (keys, values) => {
      const data = Object.fromEntries(keys.map((key, i) => [key, values[i]]))
      expect(await storedAfter(JSON.stringify(data), json)).toEqual(asKept(data))
    })
    await fc.assert(property, run)
  })

  test('47: encoded and multipart forms are stored as they were sent', async () => {
    const lists = fc.array(fc.array(anyText, { minLength: 1, maxLength: 3 }), { minLength: 30, maxLength: 30 })
    const property = fc.asyncProperty(names, lists, fc.boolean(), async (keys, values, isMultipart) => {
      const entries = keys.map((key, i) => [key, values[i] ?? []] as const)
      const data = isMultipart ? new FormData() : new URLSearchParams()
      for (const [key, texts] of entries) for (const text of texts) data.append(key, text)
      // line ends in names are sent as CRLF (HTML, multipart form data); in values FormData keeps them
      const sentName = (key: string) => (isMultipart ? key.replaceAll(/\r\n|\r|\n/g, '\r\n') : key)
      const sentText = (text: string) => (isMultipart ? text.replaceAll(/\r\n|\r|\n/g, '\r\n') : text)
      fc.pre(new Set(keys.map((key) => kept(sentName(key)))).size === keys.length)
      const expected = entries.map(([key, texts]) => {
        const shown = texts.map((text) => kept(sentText(text)))
        return [kept(sentName(key)), shown.length > 1 ? shown : shown[0]] as const
      })
      const body = data instanceof FormData ? data : data.toString()
      expect(await storedAfter(body, isMultipart ? undefined : form)).toEqual(Object.fromEntries(expected))
    })
    await fc.assert(property, run)
  })

  test('47: broken bytes are refused as such, or taken', async () => {
    const whole = {
      [json]: '{"a":"b","c":[1,{"d":null}]}',
      [form]: 'a=b&c=%41',
      [multipart]: named('name="a"') + named('name="b"; filename="c"') + end,
    }
    const type = fc.constantFrom(...(Object.keys(whole) as (keyof typeof whole)[]))
    const edit = fc.record({ at: fc.nat(200), drop: fc.nat(10), add: fc.uint8Array({ maxLength: 10 }) })
    const property = fc.asyncProperty(type, fc.array(edit, { minLength: 1, maxLength: 5 }), async (of, edits) => {
      w.advance(3000)
      const body = edits.reduce(
        (given, { at, drop, add }) => Buffer.concat([given.subarray(0, at), add, given.subarray(at + drop)]),
        Buffer.from(whole[of]),
      )
      const { status, body: answer } = await site.post(body, { type: of })
      expect([200, 400]).toContain(status)
      if (status === 400) expect(answer.reason).toBe('invalid_body')
    })
    await fc.assert(property, { numRuns: 150 })
  })
})
