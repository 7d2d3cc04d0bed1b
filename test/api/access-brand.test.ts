import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { maxLogoBytes } from '../../core/delivery-files.ts'
import { purgeSite } from '../../services/removal/purge-site.ts'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { smallImage } from './operation-inputs.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const unset = {
  title: null,
  description: null,
  logo_url: null,
  logo_framed: false,
  logo_rounded: false,
  favicon_mode: 'site',
  favicon_url: null,
}
const small = smallImage.toString('base64')

async function makeBranded(project = owner) {
  const site = await makeSite(w, project)
  const path = `/api/v1/sites/${site.id}/access`
  return {
    ...site,
    patch: (json: object) => w.call(`PATCH ${path}/brand`, { key: project.key, json }),
    brand: async () => (await w.call(`GET ${path}`, { key: project.key })).body.brand,
    stored: () => w.db.selectFrom('access_brands').selectAll().where('site_id', '=', site.id).executeTakeFirstOrThrow(),
  }
}
type Branded = Awaited<ReturnType<typeof makeBranded>>

async function imageOf(site: Branded, name: 'logo_sha256' | 'favicon_sha256') {
  const { [name]: sha256 } = await site.stored()
  const bytes = await (await w.cas.open(sha256 ?? ''))?.bytes()
  const { format, width, height } = await sharp(bytes).metadata()
  return { format, width, height }
}

const png = async (width: number, height: number, background = '#c00') =>
  (
    await sharp({ create: { width, height, channels: 3, background } })
      .png()
      .toBuffer()
  ).toString('base64')
/** How often the project uses each of its blobs. */
const usesOf = async (project: TestProject) =>
  (await w.db.selectFrom('blobs').select('deploys').where('project_id', '=', project.id).execute()).map(({ deploys }) => deploys)

test('L09: the brand of an open site is set, and what is left out stays', async () => {
  const site = await makeBranded()
  expect(await site.brand()).toEqual(unset)
  const { status, body } = await site.patch({
    title: 'Studio North',
    description: 'For our clients.\nAsk us.',
    logo_framed: true,
  })
  const words = { ...unset, title: 'Studio North', description: 'For our clients.\nAsk us.', logo_framed: true }
  expect([status, body.closed, body.brand]).toEqual([200, false, words])
  expect((await site.patch({ logo_rounded: true })).body.brand).toEqual({ ...words, logo_rounded: true })
  expect((await site.patch({})).body.brand).toEqual({ ...words, logo_rounded: true })
})

test('L09: a logo of 4000 pixels is made small, and an icon square', async () => {
  const site = await makeBranded()
  const { status, body } = await site.patch({ logo_base64: await png(4000, 1000), favicon_base64: await png(300, 100) })
  const images = `${site.url}/__svc/brand/`
  expect([status, body.brand]).toEqual([
    200,
    { ...unset, logo_url: `${images}logo.webp`, favicon_mode: 'custom', favicon_url: `${images}favicon.webp` },
  ])
  expect(await imageOf(site, 'logo_sha256')).toEqual({ format: 'webp', width: 512, height: 128 })
  expect(await imageOf(site, 'favicon_sha256')).toEqual({ format: 'webp', width: 64, height: 64 })
})

test('J08: null erases a field, in REST and as a tool', async () => {
  const site = await makeBranded()
  const full = { title: 'x', text: 'y', logo_base64: small, logo_framed: true, logo_rounded: true, favicon_base64: small }
  const set = async (args: object) =>
    (await w.tool('set_site_access_brand', { site_id: site.id, ...args }, owner.key)).structuredContent.brand
  const nulls = Object.fromEntries([...Object.keys(full), 'favicon_mode'].map((name) => [name, null]))
  expect(await set(full)).toMatchObject({ title: 'x', description: 'y', logo_framed: true, favicon_mode: 'custom' })
  expect(await set(nulls)).toEqual(unset)
  expect(await set(full)).toMatchObject({ logo_url: expect.any(String), favicon_url: expect.any(String) })
  expect((await site.patch(nulls)).body.brand).toEqual(unset)
})

test('L09: the icon may be shown, hidden and shown again, and none is shown without one', async () => {
  const site = await makeBranded()
  expect((await site.patch({ favicon_mode: 'custom' })).status).toBe(422)
  expect((await site.patch({ favicon_mode: 'none' })).body.brand).toMatchObject({ favicon_mode: 'none', favicon_url: null })
  expect((await site.patch({ favicon_base64: small, favicon_mode: 'site' })).body.brand).toMatchObject({ favicon_mode: 'site' })
  expect((await site.patch({ favicon_mode: 'custom' })).body.brand).toMatchObject({ favicon_mode: 'custom' })
  expect((await site.patch({ favicon_base64: null, favicon_mode: 'custom' })).status).toBe(422)
  expect((await site.patch({ favicon_base64: null })).body.brand).toEqual(unset)
})

test('L09: images count to the project until they are replaced or erased', async () => {
  const project = await w.project('start')
  const uses = () => usesOf(project)
  const site = await makeBranded(project)
  await site.patch({ logo_base64: await png(40, 40, '#102030'), favicon_base64: await png(64, 64, '#102030') })
  expect(await uses()).toEqual([1, 1])
  await site.patch({ logo_base64: await png(40, 40, '#405060') })
  expect(await uses()).toEqual([1, 1])
  await site.patch({ favicon_base64: null })
  expect(await uses()).toEqual([1])
  const twice = await png(64, 64, '#708090')
  await site.patch({ logo_base64: twice, favicon_base64: twice })
  expect(await uses()).toEqual([2])
  const { storage_bytes } = (await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })).body.usage
  const { logo_size } = await site.stored()
  expect(storage_bytes).toBe(logo_size)
  await site.patch({ logo_base64: null })
  expect(await uses()).toEqual([1])
  await site.patch({ favicon_base64: null })
  expect(await uses()).toEqual([])
})

test.each([
  [422, { title: 'x'.repeat(121) }],
  [422, { title: 'two\nlines' }],
  [422, { description: 'x'.repeat(2001) }],
  [422, { text: 'x\u0000' }],
  [422, { description: 'x', text: 'x' }],
  [422, { logo_framed: 'yes' }],
  [422, { favicon_mode: 'other' }],
  [422, { logo_base64: 5 }],
  [400, { logo_base64: '!' }],
  [400, { logo_base64: '' }],
  [400, { logo_base64: Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>').toString('base64') }],
  [400, { favicon_base64: Buffer.from('%PDF-1.7').toString('base64') }],
  [413, { logo_base64: Buffer.alloc(maxLogoBytes + 1).toString('base64') }],
  [413, { favicon_base64: Buffer.alloc(maxLogoBytes + 1).toString('base64') }],
  [413, { logo_base64: 'A'.repeat(3_000_000) }],
])('L09: refused with %i before anything is changed: %#', async (expected, json) => {
  const site = await makeBranded()
  const { status, body } = await site.patch({ logo_rounded: true, ...json })
  expect([status, typeof body.message]).toEqual([expected, 'string'])
  expect(await site.brand()).toEqual(unset)
})

test('L09: takes the longest texts and two images of 1 MB', async () => {
  const site = await makeBranded()
  const words = { title: '👋'.repeat(120), description: 'я'.repeat(2000) }
  const large = Buffer.concat([smallImage, Buffer.alloc(maxLogoBytes - smallImage.length)]).toString('base64')
  const { status, body } = await site.patch({ ...words, logo_base64: large, favicon_base64: large })
  expect([status, body.brand]).toMatchObject([200, words])
})

test('L09: a site of a suspended project and one in the trash are not changed', async () => {
  const project = await w.project('start')
  const site = await makeBranded(project)
  await w.call(`DELETE /api/v1/sites/${site.id}`, { key: project.key })
  expect((await site.patch({ title: 'x' })).status).toBe(409)
  const other = await makeBranded(project)
  await w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended: true } })
  expect((await other.patch({ title: 'x' })).status).toBe(402)
})

test('L09: the removal of a site gives the bytes of its images back', async () => {
  const project = await w.project('start')
  const site = await makeBranded(project)
  await site.patch({ logo_base64: small, favicon_base64: small })
  expect((await usesOf(project)).length).toBe(2)
  const { body } = await w.call(`DELETE /api/v1/sites/${site.id}`, { key: project.key })
  const purge_at = new Date(body.deletion_scheduled_at)
  w.advance(purge_at.getTime() - Date.now() + 1000)
  expect(await purgeSite(w, { site_id: site.id, purge_at }, () => undefined)).toBe('purged')
  expect(await usesOf(project)).toEqual([])
})
