import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { backgroundEncodings } from '../../core/encodings.ts'
import { compileRules } from '../../core/site-rules/compile.ts'
import type { SiteRules } from '../../core/site-rules/rules.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { openDiskCas } from '../../infra/cas/disk.ts'
import { createEntryTable, findInTable } from '../../infra/cas/entry-table.ts'
import { findEntry, splitManifest, storeManifest } from '../../infra/cas/manifests.ts'
import { findMissing } from '../../infra/cas/missing.ts'
import { compressText } from '../../infra/cas/published-files.ts'

let dir: string
let cas: Cas
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-cas-'))
  cas = await openDiskCas(dir)
})
afterEach(() => rm(dir, { recursive: true, force: true }))

const hashOf = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex')
const pathOf = (sha256: string) => join(dir, 'objects', sha256.slice(0, 2), sha256.slice(2))
const files = async () => (await readdir(dir, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
async function listed(): Promise<string[]> {
  const hashes: string[] = []
  for await (const batch of cas.list()) hashes.push(...batch)
  return hashes.sort()
}
const hourMs = 3_600_000
const soon = () => new Date(Date.now() + hourMs)
const longAgo = () => new Date(Date.now() - hourMs)
const age = (sha256: string, suffix = '') => utimes(pathOf(sha256) + suffix, longAgo(), longAgo())

describe('storing', () => {
  test('D17: bytes of the hash that was announced are stored, whether they come at once or in parts', async () => {
    for (const bytes of [Buffer.from('whole'), Readable.from([Buffer.from('pa'), Buffer.from('rts')], { objectMode: false })]) {
      const expected = Buffer.isBuffer(bytes) ? 'whole' : 'parts'
      expect(await cas.put(bytes, { sha256: hashOf(expected) })).toEqual({ sha256: hashOf(expected), size: 5 })
      expect((await (await cas.open(hashOf(expected)))?.bytes())?.toString()).toBe(expected)
    }
  })

  test.each([
    ['of another hash', 'invalid', { sha256: hashOf('other') }, ['bytes']],
    ['too large', 'too_large', { limitBytes: 4 }, ['by', 'tes']],
  ])('D17: bytes that are %s are refused and leave nothing', async (_what, kind, options, parts) => {
    const stream = Readable.from(parts.map((part) => Buffer.from(part)))
    await expect(cas.put(stream, options)).rejects.toMatchObject({ kind })
    expect(await files()).toEqual([])
  })

  test('bytes that break off leave nothing', async () => {
    const broken = Readable.from(
      (async function* () {
        yield Buffer.from('first')
        throw new Error('cut')
      })(),
    )
    await expect(cas.put(broken)).rejects.toThrow('cut')
    expect(await files()).toEqual([])
  })

  test('storing what exists renews its time', async () => {
    const { sha256 } = await cas.put(Buffer.from('again'))
    await age(sha256)
    expect((await cas.stat(sha256))?.storedAt.getTime()).toBeLessThan(Date.now() - hourMs + 1000)
    await cas.put(Buffer.from('again'))
    expect((await cas.stat(sha256))?.storedAt.getTime()).toBeGreaterThan(Date.now() - 60_000)
  })

  test('storing bytes that are there writes nothing, unless a sweeper has taken them', async () => {
    const { sha256 } = await cas.put(Buffer.from('again'))
    const { ino } = await stat(pathOf(sha256))
    for (const aged of [false, true]) {
      if (aged) await age(sha256)
      expect(await cas.put(Buffer.from('again'), { sha256 })).toEqual({ sha256, size: 5 })
      expect((await stat(pathOf(sha256))).ino).toBe(ino)
    }
    await expect(cas.put(Buffer.from('again'), { limitBytes: 4 })).rejects.toMatchObject({ kind: 'too_large' })
    await cas.remove(sha256, soon())
    await cas.put(Buffer.from('again'))
    expect(await cas.stat(sha256)).toBeDefined()
  })

  test('a damaged object is replaced when its bytes are stored again, at once or in parts', async () => {
    const { sha256 } = await cas.put(Buffer.from('bytes as they were sent'))
    for (const bytes of [
      Buffer.from('bytes as they were sent'),
      Readable.from([Buffer.from('bytes as '), Buffer.from('they were sent')]),
    ]) {
      await chmod(pathOf(sha256), 0o644)
      await writeFile(pathOf(sha256), 'bytez as they were sent')
      await cas.put(bytes)
      expect((await (await cas.open(sha256))?.bytes())?.toString()).toBe('bytes as they were sent')
    }
  })

  test('nobody sees the objects of a batch before it is published, and nothing is left of one that is not', async () => {
    const text = Buffer.from('text '.repeat(1000))
    for (const published of [false, true]) {
      await using batch = cas.batch()
      const { sha256 } = await batch.add(text, compressText)
      await batch.add(Readable.from([text]))
      const opened = await batch.open(sha256)
      expect((await opened?.bytes())?.length).toBe(text.length)
      expect(await cas.stat(sha256)).toBeUndefined()
      if (published) await batch.publish()
      await batch[Symbol.asyncDispose]()
      expect((await files()).length).toBe(published ? 2 : 0)
      expect(await readdir(join(dir, 'incoming'))).toEqual([])
    }
  })

  test('a batch that counts on an object which a sweeper has taken is not published', async () => {
    const { sha256 } = await cas.put(Buffer.from('taken'))
    await using batch = cas.batch()
    await batch.add(Buffer.from('taken'))
    await cas.remove(sha256, soon())
    await expect(batch.publish()).rejects.toMatchObject({
      kind: 'unavailable',
      message: expect.stringContaining('send it again'),
    })
  })

  test.each<[string, boolean, Buffer]>([
    ['text', true, Buffer.from('text '.repeat(1000))],
    ['text whose sniffed part ends within a character', true, Buffer.from(`x${'é'.repeat(3000)}`)],
    ['short text', false, Buffer.from('text')],
    ['text with a NUL', false, Buffer.from(`text\0${'text '.repeat(1000)}`)],
    ['bytes that are not UTF-8', false, Buffer.alloc(5000, 0xff)],
    ['random bytes', false, randomBytes(5000)],
  ])('D17: %s without a name has a gzip variant: %s', async (_what, variant, bytes) => {
    const chunks = Array.from({ length: Math.ceil(bytes.length / 700) }, (_, i) => bytes.subarray(i * 700, (i + 1) * 700))
    const { sha256, size } = await cas.put(Readable.from(chunks), { ...compressText, sha256: hashOf(bytes) })
    expect(size).toBe(bytes.length)
    const encoded = await cas.open(sha256, 'gzip')
    await encoded?.close()
    expect(encoded !== undefined).toBe(variant)
  })
})

describe('reading', () => {
  test('the bytes are read into the given memory when they fit', async () => {
    const { sha256 } = await cas.put(Buffer.from('bytes'))
    const memory = Buffer.alloc(8, '.')
    expect((await (await cas.open(sha256))?.bytes(memory))?.toString()).toBe('bytes')
    expect(memory.toString()).toBe('bytes...')
    const tooSmall = Buffer.alloc(4, '.')
    expect((await (await cas.open(sha256))?.bytes(tooSmall))?.toString()).toBe('bytes')
    expect(tooSmall.toString()).toBe('....')
  })

  test('an object that is closed a second time does not close the one that was opened since', async () => {
    const { sha256 } = await cas.put(Buffer.from('bytes'))
    const first = await cas.open(sha256)
    await first?.close()
    const second = await cas.open(sha256)
    await first?.close()
    expect((await second?.bytes())?.toString()).toBe('bytes')
  })

  test('an object is streamed whole, in part and when it is empty', async () => {
    const { sha256 } = await cas.put(Buffer.from('bytes'))
    expect(Buffer.concat((await (await cas.open(sha256))?.stream().toArray()) ?? []).toString()).toBe('bytes')
    expect(Buffer.concat((await (await cas.open(sha256))?.stream(1, 3).toArray()) ?? []).toString()).toBe('yte')
    const empty = await cas.put(Buffer.alloc(0))
    expect(await (await cas.open(empty.sha256))?.stream().toArray()).toEqual([])
  })
})

describe('sweeping', () => {
  test('objects are listed once each, with or without variants, and nothing else', async () => {
    const text = await cas.put(Buffer.from('text '.repeat(1000)))
    await cas.encode(text.sha256, 'gzip')
    const other = await cas.put(Buffer.from('other'))
    await writeFile(join(dir, 'objects', text.sha256.slice(0, 2), 'notes.txt'), 'of an operator')
    expect(await listed()).toEqual([text.sha256, other.sha256].sort())
    expect(await findMissing(cas, [text.sha256, 'a'.repeat(64), other.sha256])).toEqual(['a'.repeat(64)])
  })

  test('an old object goes with its variants, and is listed once with them', async () => {
    const { sha256 } = await cas.put(Buffer.from('text '.repeat(1000)))
    await cas.encode(sha256, 'gzip')
    for (const encoding of backgroundEncodings) await cas.putVariant(sha256, encoding, Buffer.from(encoding))
    expect((await (await cas.open(sha256, 'br'))?.bytes())?.toString()).toBe('br')
    expect([await listed(), (await files()).length]).toEqual([[sha256], 4])
    expect(await cas.remove(sha256, soon())).toBe(true)
    expect(await files()).toEqual([])
    expect(await cas.remove(sha256, soon())).toBe(true)
  })

  test('an object that was stored since stays, and so do its bytes', async () => {
    const { sha256 } = await cas.put(Buffer.from('fresh'))
    expect(await cas.remove(sha256, longAgo())).toBe(false)
    expect((await (await cas.open(sha256))?.bytes())?.toString()).toBe('fresh')
  })

  test('a variant without its object, as a crash leaves it, is listed and goes', async () => {
    const { sha256 } = await cas.put(Buffer.from('text '.repeat(1000)))
    await cas.encode(sha256, 'gzip')
    await rm(pathOf(sha256))
    expect(await listed()).toEqual([sha256])
    expect(await cas.remove(sha256, longAgo())).toBe(false)
    await age(sha256, '.gz')
    expect(await cas.remove(sha256, new Date(Date.now() - hourMs / 2))).toBe(true)
    expect(await listed()).toEqual([])
  })

  test('an object that is stored again between the look at its time and its removal is put back', async () => {
    const { sha256 } = await cas.put(Buffer.from('contended'))
    // an instant that lies after the object at the first look and before it at the second, as if it had been stored in between
    const looks = [soon(), longAgo()]
    const before = Object.assign(new Date(), { valueOf: () => (looks.shift() ?? longAgo()).getTime() })
    expect(await cas.remove(sha256, before)).toBe(false)
    expect(looks).toEqual([])
    expect((await (await cas.open(sha256))?.bytes())?.toString()).toBe('contended')
    expect(await readdir(join(dir, 'incoming'))).toEqual([])
  })

  test('an encoding of an object that is gone is no error', async () => {
    await cas.encode(hashOf('gone'), 'gzip')
    await cas.putVariant(hashOf('gone'), 'br', Buffer.from('variant'))
    expect(await files()).toEqual([])
  })

  test('what broken-off writes left is removed when it is old', async () => {
    await writeFile(join(dir, 'incoming', 'old'), 'half')
    await utimes(join(dir, 'incoming', 'old'), longAgo(), longAgo())
    await writeFile(join(dir, 'incoming', 'young'), 'half')
    expect(await cas.removeLeftovers(new Date(Date.now() - hourMs / 2))).toBe(1)
    expect(await readdir(join(dir, 'incoming'))).toEqual(['young'])
  })

  test('a folder that cannot be read ends the list with an error', async () => {
    await cas.put(Buffer.from('x'))
    await rm(join(dir, 'objects'), { recursive: true })
    await writeFile(join(dir, 'objects'), 'not a folder')
    await expect(listed()).rejects.toThrow()
    await rm(join(dir, 'objects'))
    await mkdir(join(dir, 'objects'))
    await writeFile(join(dir, 'objects', 'ab'), 'not a folder')
    await expect(listed()).rejects.toThrow()
  })
})

describe('the bytes of a manifest', () => {
  const sha256 = 'a'.repeat(64)
  const bytesOf = async (paths: readonly string[], rules?: SiteRules) => {
    const files = paths.map((path, i) => ({ path, sha256, size: i }))
    const stored = await storeManifest({ add: cas.put }, files, rules)
    return (await (await cas.open(stored))?.bytes()) as Buffer
  }
  const { rules } = compileRules({
    redirects: ['/{"path":"', '/],"rules":', '/}]}', '/"}}'].map((from) => `${from} /]},"rules":{"path":" 302`).join('\n'),
    headers: '/*\n  X-Odd: {"path":"","sha256":"\n  X-Odder: ],"rules":{"redirects":[]}}',
  })

  test.each([
    ['none', []],
    ['one', ['index.html']],
    ['two', ['a', 'b']],
    ['one that begins another', ['a', 'a/b', 'ab', 'abc']],
    ['quotes and what looks like JSON', ['"', '""', '{"path":"', '","sha256":"', '"},{"path":"a"', '}', ']}', 'a"b']],
    ['letters of every length in UTF-8', ['ä', 'z', 'я', '中', '\u{1f600}', '\ufb01', '\u2028', 'a\u{1f600}']],
    ['long ones', Array.from({ length: 50 }, (_, i) => 'x'.repeat(1000) + i)],
    ['very many', Array.from({ length: 3000 }, (_, i) => `${(i * 7919) % 3001}/${i}.html`)],
  ])('lead to each of its files and to no other: %s', async (_name, paths: readonly string[]) => {
    for (const given of [undefined, rules]) {
      const manifest = splitManifest(await bytesOf(paths, given))
      expect(manifest?.rules && JSON.parse(manifest.rules.toString())).toEqual(given)
      const files = manifest?.files ?? Buffer.of()
      const table = createEntryTable(files)
      for (const find of [(path: string) => findEntry(files, path), (path: string) => findInTable(table, path)]) {
        for (const [size, path] of paths.entries()) expect(find(path)).toEqual({ path, sha256, size })
        for (const path of paths.slice(0, 100).flatMap((path) => [`${path}!`, `!${path}`, path.slice(0, -1)])) {
          if (!paths.includes(path)) expect(find(path)).toBeUndefined()
        }
        for (const path of ['', 'zz', '{', '\uffff']) expect(find(path)).toBeUndefined()
      }
    }
  })

  test('become a table that shares no memory with them and takes half of it or less', async () => {
    const { files } = splitManifest(await bytesOf(Array.from({ length: 100 }, (_, i) => `docs/page-${i}/index.html`))) ?? {}
    const table = createEntryTable(files ?? Buffer.of())
    expect(table.length).toBeLessThan((files?.length ?? 0) / 2)
    files?.fill(0)
    expect(findInTable(table, 'docs/page-42/index.html')).toMatchObject({ path: 'docs/page-42/index.html', sha256 })
  })

  test('become a table with sizes of any length', async () => {
    const sizes = [0, 127, 128, 16_383, 16_384, 2 ** 31, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER]
    const entries = sizes.map((size) => ({ path: `${size}`, sha256, size }))
    const add = async (bytes: unknown) => {
      const table = createEntryTable(splitManifest(bytes as Buffer)?.files ?? Buffer.of())
      for (const entry of entries) expect(findInTable(table, entry.path)).toEqual(entry)
      return { sha256, size: 0 }
    }
    await storeManifest({ add }, entries)
  })

  test.each([
    ['a path that does not end', '{"path":"a'],
    ['another member first', `{"name":"a","sha256":"${'a'.repeat(64)}","size":1}`],
    ['a hash that is too short', `{"path":"a","sha256":"${'a'.repeat(63)}","size":1}`],
    ['a hash with another letter', `{"path":"a","sha256":"${'g'.repeat(64)}","size":1}`],
    ['no size', `{"path":"a","sha256":"${'a'.repeat(64)}","size":}`],
    ['a size that is no number', `{"path":"a","sha256":"${'a'.repeat(64)}","size":1e5}`],
    ['a size that is too large', `{"path":"a","sha256":"${'a'.repeat(64)}","size":99999999999999999}`],
  ])('become no table when they have %s', (_name, files) => {
    expect(() => createEntryTable(Buffer.from(files))).toThrow('the manifest is damaged')
  })

  test('are refused when they were cut off', async () => {
    const bytes = await bytesOf(['a', 'b'])
    for (let end = 0; end < bytes.length; end++) expect(splitManifest(bytes.subarray(0, end))).toBeUndefined()
  })
})
