import { deflateSync } from 'node:zlib'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxLogoBytes } from '../../core/delivery-files.ts'
import { pngOf } from '../infra/png.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { makeDeliverySite } from './delivery-site.ts'
import { smallImage } from './operation-inputs.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ worker: false, edge: true })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const newSite = () => makeDeliverySite(w, owner)
const text = { page_title: 'Your guide', upsell_text: 'Thank you for writing.' }

async function filledSite() {
  const site = await newSite()
  await site.design(text)
  const put = (bytes: Buffer, type = 'application/octet-stream') => site.call('PUT', 'page-logo', { bytes, type })
  return { ...site, put }
}

describe('R10: the design', () => {
  test('of a new site has links of seven days', async () =>
    expect((await (await newSite()).view()).delivery).toEqual({
      link_ttl_days: 7,
      page_title: null,
      upsell_text: null,
      page_logo_url: null,
      page_logo_framed: false,
      page_logo_rounded: false,
    }))

  test('keeps what a change leaves out', async () => {
    const site = await newSite()
    await site.design({ link_ttl_days: 60 })
    await site.design(text)
    const { status, body } = await site.design({ page_logo_framed: true, page_logo_rounded: true })
    expect([status, body.delivery]).toEqual([
      200,
      { link_ttl_days: 60, ...text, page_logo_url: null, page_logo_framed: true, page_logo_rounded: true },
    ])
    expect((await site.design({ page_title: '', upsell_text: null })).body.delivery).toMatchObject({
      page_title: null,
      upsell_text: null,
      link_ttl_days: 60,
    })
  })

  test.each([
    [422, { link_ttl_days: 0 }],
    [422, { link_ttl_days: 61 }],
    [422, { link_ttl_days: 1.5 }],
    [422, { page_title: 'x' }],
    [422, { upsell_text: 'x' }],
    [422, { page_title: 'x', upsell_text: '' }],
    [422, { page_title: 'x\ny', upsell_text: 'x' }],
    [422, { page_title: 'x', upsell_text: 'x\u0000' }],
    [422, { page_logo_framed: 'yes' }],
    [400, { page_title: 'x'.repeat(121), upsell_text: 'x' }],
    [400, { page_title: 'x', upsell_text: 'x'.repeat(2001) }],
  ])('is refused with %i: %j', async (expected, json) => {
    const site = await newSite()
    expect((await site.design(json)).status).toBe(expected)
    expect((await site.view()).delivery.link_ttl_days).toBe(7)
  })

  test('takes the longest texts', async () => {
    const longest = { page_title: '👋'.repeat(120), upsell_text: 'я'.repeat(2000) }
    expect((await (await newSite()).design(longest)).body.delivery).toMatchObject(longest)
  })

  test('of a site in the trash is not changed', async () => {
    const site = await newSite()
    await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
    expect((await site.design({ link_ttl_days: 3 })).status).toBe(409)
  })
})

describe('R11: the logo', () => {
  test('needs a filled design', async () => {
    const site = await newSite()
    const put = () => site.call('PUT', 'page-logo', { bytes: smallImage, type: 'image/png' })
    expect((await put()).status).toBe(409)
    await site.design(text)
    expect((await put()).status).toBe(200)
  })

  test('is made small, turned upright, without its metadata, and shown by the site', async () => {
    const site = await filledSite()
    const large = sharp({ create: { width: 1200, height: 600, channels: 3, background: '#c00' } })
    const jpeg = await large
      .withExif({ IFD0: { Copyright: 'a secret' } })
      .withMetadata({ orientation: 6 })
      .jpeg()
      .toBuffer()
    const { status, body } = await site.put(jpeg, 'image/jpeg')
    expect([status, body.delivery.page_logo_url]).toEqual([
      200,
      expect.stringMatching(new RegExp(`^${site.url}/__svc/d/logo/[0-9a-f]{64}\\.webp$`)),
    ])
    await expect.poll(async () => (await w.open(body.delivery.page_logo_url)).status).toBe(200)
    const stored = await w.db.selectFrom('delivery_pages').selectAll().where('site_id', '=', site.id).executeTakeFirstOrThrow()
    const bytes = await (await w.cas.open(stored.logo_sha256 ?? ''))?.bytes()
    const { format, width, height, exif } = await sharp(bytes).metadata()
    expect({ format, width, height, exif }).toEqual({ format: 'webp', width: 256, height: 512, exif: undefined })
    const { headers } = await w.open(body.delivery.page_logo_url)
    expect(headers).toMatchObject({ 'content-type': 'image/webp', 'x-content-type-options': 'nosniff' })
    expect((await w.open(`${site.url}/__svc/d/logo/${'0'.repeat(64)}.webp`)).status).toBe(404)
  })

  test('is replaced and removed, and its bytes are given back', async () => {
    const site = await filledSite()
    const blobs = async () => {
      const { logo_sha256 } = await w.db
        .selectFrom('delivery_pages')
        .select('logo_sha256')
        .where('site_id', '=', site.id)
        .executeTakeFirstOrThrow()
      return logo_sha256
    }
    const color = async (background: string) =>
      await sharp({ create: { width: 40, height: 40, channels: 3, background } })
        .png()
        .toBuffer()
    await site.put(await color('#102030'))
    const first = await blobs()
    await site.put(await color('#405060'))
    const second = await blobs()
    expect(second).not.toBe(first)
    expect((await site.call('DELETE', 'page-logo')).body.delivery.page_logo_url).toBe(null)
    expect((await site.call('DELETE', 'page-logo')).status).toBe(200)
    const left = await w.db
      .selectFrom('blobs')
      .select('sha256')
      .where('project_id', '=', owner.id)
      .where('sha256', 'in', [first ?? '', second ?? ''])
      .execute()
    expect(left).toEqual([])
  })

  const damaged = Buffer.concat([smallImage.subarray(0, 40), Buffer.alloc(20)])
  test.each([
    ['SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')],
    ['SVG that says it is a PNG', Buffer.from('<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>')],
    ['a PDF', Buffer.from('%PDF-1.7')],
    ['a zip', Buffer.from('PK\x03\x04')],
    ['nothing', Buffer.alloc(0)],
    ['a damaged PNG', damaged],
    ['a GIF without a picture', Buffer.from('GIF89a')],
    ['30,000 × 30,000 pixels', pngOf(30_000, 30_000, deflateSync(Buffer.alloc(3751 * 30_000)))],
    ['30,000 × 30,000 pixels that it does not have', pngOf(30_000, 30_000, deflateSync(Buffer.alloc(10)))],
  ])('R11 53: %s is refused with 400', async (_what, bytes) => {
    const site = await filledSite()
    expect((await site.put(bytes, 'image/png')).status).toBe(400)
    expect((await site.view()).delivery.page_logo_url).toBe(null)
  })

  test('may have 1 MB: above that it is refused with 413', async () =>
    expect((await (await filledSite()).put(Buffer.alloc(maxLogoBytes + 1))).status).toBe(413))

  test('of a suspended project is refused with 402', async () => {
    const project = await w.project('pro')
    const site = await makeDeliverySite(w, project)
    await site.design(text)
    await w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended: true } })
    expect((await site.call('PUT', 'page-logo', { bytes: smallImage, type: 'image/png' })).status).toBe(402)
  })
})

describe('J06: set_autoreply_delivery', () => {
  const call = async (site: { id: string }, args: object) =>
    (await w.tool('set_autoreply_delivery', { site_id: site.id, ...args }, owner.key)).structuredContent
  const logo_base64 = smallImage.toString('base64')

  test('changes what is given, and sets and removes the logo', async () => {
    const site = await newSite()
    const { delivery } = await call(site, { ...text, link_ttl_days: 3, logo_base64, logo_framed: true, logo_rounded: true })
    const expected = { ...text, link_ttl_days: 3, page_logo_framed: true, page_logo_rounded: true }
    expect(delivery).toEqual({ ...expected, page_logo_url: expect.stringContaining('/__svc/d/logo/') })
    expect((await call(site, { logo_framed: false })).delivery).toEqual({ ...delivery, page_logo_framed: false })
    expect((await call(site, { logo_base64: null })).delivery.page_logo_url).toBe(null)
  })

  test.each([
    [422, { page_title: 'x' }],
    [422, { link_ttl_days: 61 }],
    [409, { logo_base64 }],
    [400, { ...text, logo_base64: '!' }],
    [400, { ...text, logo_base64: Buffer.from('<svg/>').toString('base64') }],
    [413, { ...text, logo_base64: Buffer.alloc(maxLogoBytes + 1).toString('base64') }],
  ])('is refused with %i before anything is changed', async (status, args) => {
    const site = await newSite()
    expect(await call(site, { link_ttl_days: 2, ...args })).toMatchObject({ status })
    expect((await site.view()).delivery).toMatchObject({ link_ttl_days: 7, page_title: null })
  })
})
