import { createHash, randomBytes } from 'node:crypto'
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Encoding, encodings } from '../../core/encodings.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import { type Answer, openTestEdge, platformDomain, routeOf, storeFiles, type TestEdge } from './test-edge.ts'

const long = 'the same words again and again, '.repeat(200)
const missing = 'a page that says that there is nothing, '.repeat(100)
const hex = randomBytes(400_000).toString('hex')
const files = {
  'index.html': `<h1>home</h1>${long}`,
  '404.html': missing,
  'style.css': long,
  'tiny.txt': 'x',
  'logo.png': Buffer.alloc(5000, 'png'),
  'hex.txt': hex,
  _headers: '/style.css\n  X-Own: yes\n  Content-Type: text/plain',
}
const browser = 'gzip, deflate, br, zstd'
const decoders = { br: brotliDecompressSync, zstd: zstdDecompressSync, gzip: gunzipSync }
const decoded = ({ headers, body }: Answer) => {
  const encoding = headers['content-encoding'] as Encoding | undefined
  return (encoding ? decoders[encoding](body) : body).toString()
}
/** The least work for a variant that is very large when it is decoded. */
const quick = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }
const hashOf = (content: string) => createHash('sha256').update(content).digest('hex')

let edge: TestEdge
beforeAll(async () => {
  edge = await openTestEdge()
  await edge.publish('site', files, { compressed: true })
})
afterAll(() => edge[Symbol.asyncDispose]())
const get = (path: string, accept: string, more: Record<string, string> = {}, method = 'GET') =>
  edge.ask(path, { method, headers: { 'accept-encoding': accept, ...more } })

describe('V17: brotli and zstd', () => {
  test.each([
    [browser, 'br'],
    ['gzip, deflate, br', 'br'],
    ['gzip, zstd', 'zstd'],
    ['gzip, deflate', 'gzip'],
    ['br;q=0.5, zstd', 'zstd'],
    ['br;q=0, *', 'zstd'],
    ['identity, br;q=0.5', undefined],
    ['deflate', undefined],
  ])('a client that accepts %s gets %s', async (accept, encoding) => {
    const answer = await get('/', accept)
    expect([answer.status, answer.headers['content-encoding'], answer.headers.vary]).toEqual([200, encoding, 'Accept-Encoding'])
    expect(decoded(answer)).toBe(files['index.html'])
    expect(Number(answer.headers['content-length'])).toBe(answer.body.length)
    expect(answer.headers.etag).toBe(`"${hashOf(files['index.html'])}${encoding ? `-${encoding}` : ''}"`)
  })

  test.each(encodings)(
    'the ETag of the %s variant is answered 304 with itself, whatever the client accepts',
    async (encoding) => {
      const { etag = '' } = (await get('/', encoding)).headers
      for (const accept of [encoding, browser, 'identity']) {
        const answer = await get('/', accept, { 'if-none-match': `"other", W/${etag}` })
        expect([answer.status, answer.headers.etag, answer.headers.vary]).toEqual([304, etag, 'Accept-Encoding'])
      }
    },
  )

  test('a HEAD has the headers of a GET', async () => {
    const [whole, head] = [await get('/', browser), await get('/', browser, {}, 'HEAD')]
    expect([head.body.length, { ...head.headers, date: '' }]).toEqual([0, { ...whole.headers, date: '' }])
  })

  test('the page of a missing file is compressed as well', async () => {
    const answer = await get('/nope', browser)
    expect([answer.status, answer.headers['content-encoding'], decoded(answer)]).toEqual([404, 'br', missing])
  })

  test('a range is one of the plain bytes', async () => {
    const answer = await get('/', browser, { range: 'bytes=4-7' })
    expect([answer.status, answer.headers['content-encoding'], answer.body.toString()]).toEqual([206, undefined, 'home'])
  })

  test.each(encodings)('%s has the headers of the site', async (encoding) => {
    const { headers } = await get('/style.css', encoding)
    expect(headers).toMatchObject({ 'content-encoding': encoding, 'x-own': 'yes', 'content-type': 'text/plain' })
  })

  test.each([
    ['/tiny.txt', 'Accept-Encoding'],
    ['/logo.png', undefined],
  ])('%s is sent as it is', async (path, vary) => {
    const { headers } = await get(path, browser)
    expect([headers['content-encoding'], headers.vary]).toEqual([undefined, vary])
  })

  test('a variant that is too large to remember is streamed', async () => {
    for (let i = 0; i < 2; i++) {
      const answer = await get('/hex.txt', 'br')
      expect([answer.headers['content-encoding'], decoded(answer)]).toEqual(['br', hex])
    }
  })
})

describe('V17: a site whose files are still to be compressed', () => {
  test('gets gzip, although another site stores the same files with all variants: nobody learns that', async () => {
    await edge.publish('other', files)
    const ask = (accept: string) => edge.ask('/', { host: `other.${platformDomain}`, headers: { 'accept-encoding': accept } })
    expect((await ask(browser)).headers['content-encoding']).toBe('gzip')
    expect((await ask('br, zstd')).headers['content-encoding']).toBeUndefined()
    edge.routes.apply([{ ...(await edge.publish('other', files)), compressed: true, version: 2 }], [])
    expect((await ask(browser)).headers['content-encoding']).toBe('br')
  })

  test('and so does a preview', async () => {
    const token = 'a'.repeat(52)
    const manifest_sha256 = await storeFiles(edge.cas, files)
    const previews = [{ token_sha256: hashPreviewToken(token), deploy_id: 'shown', manifest_sha256 }]
    edge.routes.apply([routeOf('shown', manifest_sha256, { previews, compressed: true })], [])
    const answer = await edge.ask('/', { host: `${token}.preview.test`, headers: { 'accept-encoding': browser } })
    expect([answer.status, answer.headers['content-encoding']]).toEqual([200, 'gzip'])
  })
})

describe('V17: variants that are not there', () => {
  /** Counts the objects that are opened. */
  async function openCounting() {
    const opened: (Encoding | undefined)[] = []
    const wrap = (cas: Cas): Cas => ({
      ...cas,
      open(sha256, encoding) {
        opened.push(encoding)
        return cas.open(sha256, encoding)
      },
    })
    return { opened, counted: await openTestEdge({ wrap }) }
  }

  test('cost one look each, and are remembered as absent', async () => {
    const { opened, counted } = await openCounting()
    await using site = counted
    site.routes.apply([routeOf('site', await storeFiles(site.cas, { 'index.html': long }), { compressed: true })], [])
    const ask = (accept: string) => site.ask('/', { headers: { 'accept-encoding': accept } })
    expect((await ask(browser)).headers['content-encoding']).toBe('gzip')
    expect(opened).toEqual([undefined, 'br', 'zstd', 'gzip'])
    for (const accept of [browser, 'br, gzip', 'zstd;q=0.1, gzip;q=0.1']) {
      expect((await ask(accept)).headers['content-encoding']).toBe('gzip')
    }
    expect((await ask('br, zstd')).headers['content-encoding']).toBeUndefined()
    // the last one is of the plain bytes
    expect(opened.length).toBe(5)
  })

  test.each([
    ['damaged', Buffer.from('no variant'), Buffer.from('no variant')],
    ['of other bytes', brotliCompressSync('other'), zstdCompressSync('other')],
    ['cut off', brotliCompressSync(long).subarray(0, -3), zstdCompressSync(long).subarray(0, -3)],
    ['of many bytes', brotliCompressSync(Buffer.alloc(2 ** 26), quick), zstdCompressSync(Buffer.alloc(2 ** 26))],
  ])('variants that are %s are not sent, and do not take memory', async (_what, br, zstd) => {
    await using site = await openTestEdge()
    const manifest = await storeFiles(site.cas, { 'index.html': long })
    await site.cas.putVariant(hashOf(long), 'br', br)
    await site.cas.putVariant(hashOf(long), 'zstd', zstd)
    site.routes.apply([routeOf('site', manifest, { compressed: true })], [])
    const before = process.memoryUsage.rss()
    const answer = await site.ask('/', { headers: { 'accept-encoding': browser } })
    expect([answer.headers['content-encoding'], decoded(answer)]).toEqual(['gzip', long])
    expect(process.memoryUsage.rss() - before).toBeLessThan(32 * 2 ** 20)
  })
})
