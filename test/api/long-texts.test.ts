import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cutLongTexts } from '../../api/long-texts.ts'

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-texts-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

async function cut(json: string | Buffer) {
  const file = join(dir, 'document.json')
  await writeFile(file, json)
  return await cutLongTexts(file)
}

/** The document with its long strings put back. */
async function restored(json: string | Buffer): Promise<unknown> {
  const { json: rest, texts } = await cut(json)
  const whole = new Map<string, string>()
  for (const [mark, text] of texts) {
    let joined = ''
    for await (const piece of text.pieces()) joined += piece
    whole.set(mark, joined)
  }
  return JSON.parse(rest.toString(), (_name, value) => (typeof value === 'string' ? (whole.get(value) ?? value) : value))
}

const units = ['a', '"', '\\', '\n', 'é', '€', '🦫', '\u0000', '/']
/** Text around the length that is cut and the size in which files are read, so that everything falls on every border. */
const text = fc
  .tuple(fc.array(fc.constantFrom(...units), { minLength: 1, maxLength: 5 }), fc.constantFrom(1, 8190, 16_000, 65_530, 131_000))
  .chain(([parts, length]) => fc.nat(12).map((more) => ''.padEnd(length + more, parts.join(''))))

/** As other programs write JSON: with every character escaped. */
const escapeAll = (json: string) =>
  json.replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

test.each([
  ['as JSON.stringify writes it', (json: string) => json],
  ['with escapes', escapeAll],
])('D05 D10: a document %s is read as JSON.parse reads it', async (_how, write) => {
  const run = async (value: unknown) => {
    const json = write(JSON.stringify(value))
    expect(await restored(json)).toEqual(JSON.parse(json))
  }
  await fc.assert(fc.asyncProperty(fc.array(fc.record({ path: fc.string(), content: text }), { maxLength: 3 }), run), {
    numRuns: 60,
  })
})

test('what is long is not in memory, what is short stays', async () => {
  const { json, texts } = await cut(JSON.stringify([{ a: 'short', b: 'x'.repeat(100_000), c: 'y'.repeat(8192) }]))
  expect([json.length < 9000, texts.size]).toEqual([true, 1])
  expect(JSON.parse(json.toString())).toEqual([{ a: 'short', b: [...texts.keys()][0], c: 'y'.repeat(8192) }])
})

test.each([
  ['an unknown escape', '\\x'],
  ['a control character', '\n'],
  ['an escape that is cut off', '\\u12'],
])('%s in a long string is no JSON', async (_what, wrong) => {
  const { texts } = await cut(`["${'x'.repeat(70_000)}${wrong}"]`)
  const read = async () => {
    for (const long of texts.values()) for await (const _piece of long.pieces());
  }
  await expect(read()).rejects.toMatchObject({ kind: 'invalid' })
})

test('bytes that are no UTF-8 are refused in a long string too', async () => {
  const { texts } = await cut(Buffer.concat([Buffer.from(`["${'x'.repeat(70_000)}`), Buffer.from([0xff]), Buffer.from('"]')]))
  const read = async () => {
    for (const long of texts.values()) for await (const _piece of long.pieces());
  }
  await expect(read()).rejects.toMatchObject({ kind: 'invalid' })
})

test('a string without an end is left for the parser', async () => {
  for (const json of ['["abc', `["${'x'.repeat(70_000)}`, '{"a":"b"', '"\\']) {
    const { json: rest } = await cut(json)
    expect(() => JSON.parse(rest.toString())).toThrow()
  }
})
