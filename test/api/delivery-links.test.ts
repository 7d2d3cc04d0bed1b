import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createDeliveryTokens } from '../../infra/crypto/delivery-tokens.ts'
import { freePort } from '../../infra/local/ports.ts'
import { type Answer, ask } from '../edge/test-edge.ts'
import { page } from '../make.ts'
import { operatorToken, secretKey, type TestProject, type World, world } from '../world.ts'
import { type DeliverySite, makeDeliverySite } from './delivery-site.ts'
import { executableParts } from './executable-parts.ts'

const dayMs = 24 * 3_600_000
let w: World
let owner: TestProject
let edgePort: number
beforeAll(async () => {
  edgePort = await freePort()
  w = await world({ worker: false, edge: true, edgePort })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const newSite = () => makeDeliverySite(w, owner)

interface Options {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
}

function open(url: string, options: Options = {}): Promise<Answer> {
  const { host, pathname } = new URL(url)
  return ask(edgePort, pathname, { host, ...options })
}

/** Asks again until the edge knows of the latest change. */
async function opened(url: string, status: number, options?: Options): Promise<Answer> {
  await expect.poll(async () => (await open(url, options)).status).toBe(status)
  return await open(url, options)
}

/** A site with files, and a link to them that opens. */
async function delivering(contents: readonly string[] = ['A guide'], names: readonly string[] = []) {
  const site = await newSite()
  for (const [index, content] of contents.entries()) await site.add(content, { name: names[index] ?? `file ${index}.txt` })
  const link = await site.link()
  await expect.poll(async () => (await open(link)).body.toString().split('<li>').length - 1).toBe(contents.length)
  const { files } = await site.view()
  return { site, link, files, urlOf: (index = 0) => `${link}/${files[index].id}` }
}

const downloadsOf = async (site: DeliverySite) => (await site.view()).files.map((file: any) => file.downloads)

test('R12 Z05: a link shows the files of the site, and each is saved under its name', async () => {
  const { link, urlOf } = await delivering(['A guide', 'Привет'], ['Guide.txt', 'Письмо.txt'])
  expect(link).toMatch(/^http:\/\/[^/]+\/__svc\/d\/[\w-]{48}$/)
  const shown = await open(link)
  expect(shown.body.toString()).toContain('Your files are ready')
  for (const text of ['Guide.txt', 'Письмо.txt']) expect(shown.body.toString()).toContain(text)
  const { status, headers, body } = await open(urlOf(1))
  expect([status, body.toString(), headers['content-type']]).toEqual([200, 'Привет', 'text/plain; charset=utf-8'])
  expect(headers['content-disposition']).toBe(
    `attachment; filename="______.txt"; filename*=UTF-8''%D0%9F%D0%B8%D1%81%D1%8C%D0%BC%D0%BE.txt`,
  )
})

test('75 53: a file is never shown, cached, indexed or mentioned', async () => {
  const { urlOf, link } = await delivering()
  expect((await open(urlOf())).headers).toMatchObject({
    'cache-control': 'private, no-store',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "sandbox; default-src 'none'",
    'referrer-policy': 'no-referrer',
    'x-robots-tag': 'noindex',
    'cross-origin-resource-policy': 'same-origin',
  })
  const policy = (await open(link)).headers['content-security-policy']
  expect(policy).toMatch(
    /^default-src 'none'; style-src 'sha256-[^']+'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
  )
  expect((await open(link)).headers).toMatchObject({
    'cache-control': 'private, no-store',
    'referrer-policy': 'no-referrer',
    'x-robots-tag': 'noindex',
  })
})

test('R12 75: links that have ended, foreign, changed and invented ones get one and the same page', async () => {
  const { site, link } = await delivering()
  const other = await delivering(['x'])
  const token = link.slice(-48)
  const origin = link.slice(0, link.indexOf('/__svc'))
  const stolen = createDeliveryTokens(randomBytes(32)).issue(site.id, randomUUID(), new Date(Date.now() + dayMs))
  const wrong = [
    await site.link(new Date(Date.now() - 7 * dayMs - 2000)),
    `${origin}/__svc/d/${other.link.slice(-48)}`,
    `${origin}/__svc/d/${stolen}`,
    `${origin}/__svc/d/${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`,
    `${origin}/__svc/d/${'A'.repeat(48)}`,
    `${origin}/__svc/d/`,
    `${origin}/__svc/d/x`,
    `${origin}/__svc/d/logo/x`,
    `${link}/`,
    `${link}/${randomUUID()}`,
    `${link}/${other.files[0].id}`,
    `${link}/${(await site.view()).files[0].id}/x`,
  ]
  const answers = await Promise.all(wrong.map((url) => open(url)))
  const [first] = answers
  for (const [index, { status, body, headers }] of answers.entries()) {
    expect([wrong[index], status, body.equals(first?.body ?? Buffer.alloc(0))]).toEqual([wrong[index], 404, true])
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer', 'x-robots-tag': 'noindex' })
  }
  expect((await open(link)).status).toBe(200)
})

test('75: none of 20,000 guesses opens', () => {
  const tokens = createDeliveryTokens(secretKey)
  const guesses = Array.from({ length: 20_000 }, () => tokens.endOf('x', randomBytes(36).toString('base64url')))
  expect(guesses.filter((end) => end !== undefined)).toEqual([])
})

test('R12: the lifetime is that of the design when the link was sent', async () => {
  const { site } = await delivering()
  const from = new Date(Date.now() - 10 * dayMs)
  expect((await open(await site.link(from))).status).toBe(404)
  await site.design({ link_ttl_days: 14 })
  const longer = await site.link(from)
  expect((await open(longer)).status).toBe(200)
  await site.design({ link_ttl_days: 1 })
  expect((await open(longer)).status).toBe(200)
})

test('a link ends with its files, and offers those that are added', async () => {
  const { site, link, files, urlOf } = await delivering()
  await site.call('DELETE', `files/${files[0].id}`)
  await opened(link, 404)
  expect((await open(urlOf())).status).toBe(404)
  await site.add('B', { name: 'next.txt' })
  expect((await opened(link, 200)).body.toString()).toContain('next.txt')
})

test('a link answers as the site does while that is disabled, suspended or in the trash', async () => {
  const project = await w.project('pro')
  const site = await makeDeliverySite(w, project)
  await site.add('x')
  const link = await site.link()
  const key = project.key
  await opened(link, 200)
  await w.call(`POST /api/v1/sites/${site.id}/enabled`, { key, json: { enabled: false } })
  await opened(link, 503)
  await w.call(`POST /api/v1/sites/${site.id}/enabled`, { key, json: { enabled: true } })
  await opened(link, 200)
  await w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended: true } })
  await opened(link, 503)
  await w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended: false } })
  await opened(link, 200)
  await w.call(`DELETE /api/v1/sites/${site.id}`, { key })
  expect((await opened(link, 404)).body.toString()).toContain('There is no site at this address')
})

describe('R12: downloads are counted', () => {
  test('once for each complete one, and not for HEAD, an unchanged file or the rest of a file', async () => {
    const { site, urlOf } = await delivering(['one', 'two'])
    const { etag = '' } = (await open(urlOf(0))).headers
    await open(urlOf(0), { method: 'HEAD' })
    await open(urlOf(0), { headers: { 'if-none-match': etag } })
    await open(urlOf(0), { headers: { range: 'bytes=1-' } })
    await open(urlOf(0), { headers: { range: 'bytes=7-' } })
    await open(urlOf(0), { method: 'POST' })
    await open(urlOf(1))
    await open(urlOf(1), { headers: { range: 'bytes=0-' } })
    await expect.poll(() => downloadsOf(site)).toEqual([1, 2])
  })

  test('also when PostgreSQL does not take them for a while', async () => {
    const { site, urlOf } = await delivering()
    await w.db.transaction().execute(async (tx) => {
      await tx.selectFrom('delivery_files').selectAll().where('site_id', '=', site.id).forUpdate().execute()
      await open(urlOf())
      await open(urlOf())
      await new Promise((resolve) => setTimeout(resolve, 3000))
      expect(await downloadsOf(site)).toEqual([0])
    })
    await expect.poll(() => downloadsOf(site)).toEqual([2])
  })
})

test('a large file is resumed with ranges', async () => {
  const site = await newSite()
  const bytes = Buffer.concat([Buffer.from('%PDF-1.7\n'), randomBytes(2 * 1024 * 1024)])
  const [file] = (await site.add(bytes, { name: 'book.pdf' })).body.files
  const url = `${await site.link()}/${file.id}`
  const whole = await opened(url, 200)
  expect(createHash('sha256').update(whole.body).digest('hex')).toBe(createHash('sha256').update(bytes).digest('hex'))
  const rest = await open(url, { headers: { range: 'bytes=1000000-', 'if-range': whole.headers.etag ?? '' } })
  expect([rest.status, rest.headers['content-range'], rest.headers['content-disposition']]).toEqual([
    206,
    `bytes 1000000-${bytes.length - 1}/${bytes.length}`,
    whole.headers['content-disposition'],
  ])
  expect(rest.body.equals(bytes.subarray(1_000_000))).toBe(true)
})

describe('76: texts of the owner are text', () => {
  const payloads = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    `'"--></style></title></textarea><svg onload=alert(1)>`,
    '<iframe srcdoc="<script>alert(1)</script>">',
    'javascript:alert(1)',
    '&lt;script&gt;alert(1)&lt;/script&gt;',
    '\u202e<b>gpj.exe',
    ']]><![CDATA[<script>',
    '{{constructor.constructor("alert(1)")()}}',
  ]
  test.each(payloads)('%s', async (payload) => {
    const site = await newSite()
    const visible = payload.replaceAll('\u202e', '')
    await site.add('x', { name: payload })
    await site.add('x', { name: 'y', label: payload })
    await site.design({ page_title: visible, upsell_text: payload })
    const link = await site.link()
    await expect.poll(async () => (await open(link)).body.toString().split('<li>').length).toBe(3)
    for (const url of [link, `${link}x`]) {
      expect(executableParts((await open(url)).body.toString())).toEqual([])
    }
    const { headers } = await open(`${link}/${(await site.view()).files[0].id}`)
    expect(headers['content-disposition']).toMatch(/^attachment; filename="[^"\\]*"; filename\*=UTF-8''[\w%.!~-]*$/)
  })
})

test('the page is in the language that the visitor reads, and its texts have lines', async () => {
  const { site, link } = await delivering()
  const russian = { headers: { 'accept-language': 'ru-RU,ru;q=0.9,en;q=0.8' } }
  expect((await open(link, russian)).body.toString()).toMatch(/<html lang="ru">.*Ваш файл готов.*Скачать, 7 байт/s)
  expect((await open(`${link}x`, russian)).body.toString()).toContain('Ссылка не открывается')
  await site.design({ page_title: 'Your guide', upsell_text: 'First line\nSecond line' })
  await expect.poll(async () => (await open(link)).body.toString()).toContain('First line\nSecond line')
  expect((await open(link)).body.toString()).toContain('<h1 dir="auto">Your guide</h1>')
})

test('a site without a deploy delivers, and a deploy changes nothing', async () => {
  const { site, link } = await delivering()
  const json = { files: [page('live')] }
  await w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: owner.key, json })
  expect((await open(link)).status).toBe(200)
})

test('the same submission and end give the same link, so that a repeated email has no other', () => {
  const tokens = createDeliveryTokens(secretKey)
  const [until, id] = [new Date(Date.now() + dayMs), randomUUID()]
  expect(tokens.issue('site', id, until)).toBe(tokens.issue('site', id, until))
})
