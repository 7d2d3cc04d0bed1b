import { createHash, randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxDeliveryBodyBytes, maxDeliveryFileBytes } from '../../core/delivery-files.ts'
import { defaultPlans } from '../../core/plans.ts'
import { createDeliveryTokens } from '../../infra/crypto/delivery-tokens.ts'
import { findUnneeded } from '../../services/storage/unneeded-objects.ts'
import { files } from '../infra/delivery-fixtures.ts'
import { makeSite } from '../make.ts'
import { operatorToken, secretKey, type TestProject, type World, world } from '../world.ts'
import { makeDeliverySite } from './delivery-site.ts'
import { makeFormSite } from './form-site.ts'

const MB = 1024 * 1024
let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ plans: { ...defaultPlans, start: { ...defaultPlans.start, storage_bytes: 2 * MB } } })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const newSite = (project = owner) => makeDeliverySite(w, project)
const storageOf = async ({ id }: TestProject) =>
  (await w.call(`GET /operator/v1/projects/${id}`, { key: operatorToken })).body.usage.storage_bytes
const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

test('R06 R13: a file is added with its name, label and type, and is in the view', async () => {
  const site = await newSite()
  const { status, body } = await site.add('A guide', { name: 'Guide.txt', label: 'The guide' })
  const file = {
    id: expect.any(String),
    name: 'Guide.txt',
    label: 'The guide',
    size: 7,
    content_type: 'text/plain; charset=utf-8',
    downloads: 0,
    created_at: expect.any(String),
  }
  expect([status, body.files]).toEqual([200, [file]])
  expect(await site.view()).toEqual(body)
  expect(body).toMatchObject({ entitled: true, emails_sent_this_month: 0 })
})

test('R06: a long name is cut to 120 characters', async () => {
  const { body } = await (await newSite()).add('x', { name: 'n'.repeat(200) })
  expect(body.files[0].name).toBe('n'.repeat(120))
})

test.each([
  ['no name', { name: '' }],
  ['a name of control characters', { name: '\u0007\u202e' }],
  ['a label of 81 characters', { label: 'л'.repeat(81) }],
])('R06: %s is refused with 400', async (_what, query) => {
  const site = await newSite()
  expect((await site.add('x', query)).status).toBe(400)
  expect((await site.view()).files).toEqual([])
})

test('R06: a label may have 80 characters', async () => {
  const { body } = await (await newSite()).add('x', { label: '👋'.repeat(80) })
  expect(body.files[0].label).toBe('👋'.repeat(80))
})

test.each(files)('R07 53: %s is taken as %s, whatever its name says', async (_what, type, bytes) => {
  const { status, body } = await (await newSite()).add(bytes, { name: 'picture.png' })
  expect([status, body.files?.[0].content_type]).toEqual(type === undefined ? [400, undefined] : [200, type])
})

describe('R08: a file', () => {
  test('without bytes is refused with 400', async () => expect((await (await newSite()).add('')).status).toBe(400))

  test('is the last of three, also when several are added at once', async () => {
    const site = await newSite()
    const answers = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((text) => site.add(text)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 400, 400])
    expect((await site.view()).files).toHaveLength(3)
  })

  test('needs a plan with auto-replies: 402', async () => {
    const { status, headers, body } = await (await newSite(await w.project('free'))).add('x')
    expect([status, headers.get('plinth-error'), body.message]).toEqual([402, 'plan_autoreply', expect.stringContaining('Start')])
  })

  test('of a suspended project is refused with 402', async () => {
    const project = await w.project('start')
    const site = await newSite(project)
    await w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended: true } })
    const { status, headers } = await site.add('x')
    expect([status, headers.get('plinth-error')]).toEqual([402, 'suspended'])
  })

  test('of a site in the trash is refused with 409', async () => {
    const site = await newSite()
    await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
    const { status, headers } = await site.add('x')
    expect([status, headers.get('plinth-error')]).toEqual([409, 'in_trash'])
  })

  test('counts against the storage, once for the same bytes, and is refused with 409 beyond it', async () => {
    const project = await w.project('start')
    const site = await newSite(project)
    const bytes = Buffer.from(randomBytes(MB / 2).toString('hex'))
    expect((await site.add(bytes)).status).toBe(200)
    expect(await storageOf(project)).toBe(MB)
    const { status, headers } = await site.add(Buffer.from(randomBytes(MB / 2 + 1).toString('hex')))
    expect([status, headers.get('plinth-error')]).toEqual([409, 'quota_storage'])
    expect((await site.add(bytes)).status).toBe(200)
    expect(await storageOf(project)).toBe(MB)
    const [first, second] = (await site.view()).files
    await site.call('DELETE', `files/${first.id}`)
    expect(await storageOf(project)).toBe(MB)
    await site.call('DELETE', `files/${second.id}`)
    expect(await storageOf(project)).toBe(0)
  })

  test('may have 50 MB; above that it is refused with 400, and above 52 MB with 413', async () => {
    const site = await newSite()
    const zip = Buffer.alloc(maxDeliveryFileBytes + 1)
    zip.write('PK\x03\x04')
    expect((await site.add(zip.subarray(0, maxDeliveryFileBytes))).body.files).toMatchObject([{ size: maxDeliveryFileBytes }])
    expect((await site.add(zip)).status).toBe(400)
    const announced = await fetch(`${w.base}/api/v1/sites/${site.id}/autoreply/files?name=x`, {
      method: 'POST',
      headers: { authorization: `Bearer ${owner.key}`, 'content-type': 'application/octet-stream' },
      body: Buffer.concat([zip, Buffer.alloc(maxDeliveryBodyBytes - zip.length + 1)]),
    })
    expect(announced.status).toBe(413)
    expect((await site.view()).files).toHaveLength(1)
  }, 120_000)
})

test('R08: a file of another media type is refused with 415', async () => {
  const site = await newSite()
  expect((await site.call('POST', 'files?name=x', { bytes: Buffer.from('x'), type: 'text/html' })).status).toBe(415)
})

test('R09: a file is removed, and a label is changed, emptied and refused beyond 80 characters', async () => {
  const site = await newSite()
  await site.add('one', { name: 'one.txt' })
  const { id } = (await site.add('two', { name: 'two.txt' })).body.files[1]
  const label = async (json: object, file = id) => await site.call('PUT', `files/${file}/label`, { json })
  expect((await label({ label: 'Second' })).body.files[1]).toMatchObject({ id, label: 'Second' })
  expect((await label({ label: '' })).body.files[1].label).toBe(null)
  expect([(await label({ label: 'x'.repeat(81) })).status, (await label({})).status, (await label({ label: 1 })).status]).toEqual(
    [400, 400, 422],
  )
  expect((await site.call('DELETE', `files/${id}`)).body.files).toMatchObject([{ name: 'one.txt' }])
  expect([(await label({ label: 'x' })).status, (await site.call('DELETE', `files/${id}`)).status]).toEqual([404, 404])
})

test('C03: a file of another site or project is absent', async () => {
  const [site, other] = [await newSite(), await newSite()]
  const { id } = (await site.add('x')).body.files[0]
  expect((await other.call('DELETE', `files/${id}`)).status).toBe(404)
  const stranger = await w.project('pro')
  expect((await site.call('DELETE', `files/${id}`, { key: stranger.key })).status).toBe(404)
  expect((await site.view()).files).toHaveLength(1)
})

describe('J06: the tools', () => {
  test('add and remove files and say why they refuse', async () => {
    const site = await newSite()
    const content_base64 = Buffer.from('A guide').toString('base64')
    const call = async (name: string, args: object) =>
      (await w.tool(name, { site_id: site.id, ...args }, owner.key)).structuredContent
    const { files: added } = await call('add_autoreply_file', { file_name: '../guide.txt', content_base64, label: 'Guide' })
    expect(added).toMatchObject([{ name: '_guide.txt', label: 'Guide', size: 7 }])
    const html = Buffer.from('<html>').toString('base64')
    expect(await call('add_autoreply_file', { file_name: 'x', content_base64: html })).toMatchObject({ status: 400 })
    expect(await call('add_autoreply_file', { file_name: 'x', content_base64: '!' })).toMatchObject({ status: 400 })
    expect((await call('remove_autoreply_file', { file_id: added[0].id })).files).toEqual([])
  })
})

describe('R12: the reply to a submission', () => {
  test('has a link below its body, in both parts', async () => {
    const site = await makeFormSite(w, owner)
    const settings = { enabled: true, subject: 'Hi', body: 'Here it is.' }
    await w.call(`PUT /api/v1/sites/${site.id}/autoreply`, { key: owner.key, json: settings })
    const sent = { key: owner.key, bytes: Buffer.from('A guide'), type: 'text/plain' }
    await w.call(`POST /api/v1/sites/${site.id}/autoreply/files?name=guide.txt`, sent)
    const design = { link_ttl_days: 3, page_title: 'Guide & <more>', upsell_text: 'x' }
    await w.call(`PUT /api/v1/sites/${site.id}/autoreply/delivery`, { key: owner.key, json: design })
    await site.post({ email: 'ada@example.com' })
    const emails = () =>
      w.db.selectFrom('mails').selectAll().where('about', '=', site.id).where('kind', '=', 'autoreply').execute()
    await expect.poll(async () => (await emails()).length).toBe(1)
    const [email] = await emails()
    const [, link = ''] = /^Here it is\.\n\nGuide & <more>: (\S+)\n$/.exec(email?.text ?? '') ?? []
    expect(email?.html).toContain(`<p><a href="${link}">Guide &amp; &lt;more&gt;</a></p>`)
    const end = createDeliveryTokens(secretKey).endOf(site.id, link.slice(`${site.url}/__svc/d/`.length))
    expect(((end?.getTime() ?? 0) - (email?.created_at.getTime() ?? 0)) / (24 * 3_600_000)).toBeCloseTo(3, 3)
  }, 60_000)

  test('has none when the site has no files', async () => {
    const site = await makeFormSite(w, owner)
    await w.call(`PUT /api/v1/sites/${site.id}/autoreply`, { key: owner.key, json: { enabled: true, body: 'Here it is.' } })
    await site.post({ email: 'ada@example.com' })
    const emails = () =>
      w.db.selectFrom('mails').select('text').where('about', '=', site.id).where('kind', '=', 'autoreply').execute()
    await expect.poll(emails).toEqual([{ text: 'Here it is.\n' }])
  }, 60_000)
})

describe('the storage', () => {
  const later = () => new Date(Date.now() + 1000)
  const isNeeded = async (sha256: string) => (await findUnneeded(w.db, [sha256], later())).length === 0

  test('keeps the bytes for as long as a file needs them', async () => {
    const site = await newSite()
    const bytes = Buffer.from(randomBytes(20).toString('hex'))
    const { id } = (await site.add(bytes)).body.files[0]
    expect(await isNeeded(hashOf(bytes))).toBe(true)
    await site.call('DELETE', `files/${id}`)
    expect(await isNeeded(hashOf(bytes))).toBe(false)
    const released = await w.db.selectFrom('released_objects').select('published').where('sha256', '=', hashOf(bytes)).execute()
    // an edge that lags behind may still read them
    expect(released).toEqual([{ published: true }])
  })

  test('has no bytes left of a file that was refused', async () => {
    const site = await newSite()
    const bytes = Buffer.concat([Buffer.from(randomBytes(50_000).toString('hex')), Buffer.from([0xff])])
    expect((await site.add(bytes)).status).toBe(400)
    expect(await w.cas.stat(hashOf(bytes))).toBeUndefined()
    expect(await w.db.selectFrom('uploads').selectAll().where('project_id', '=', owner.id).execute()).toEqual([])
  })

  test('gives back what a removed site had', async () => {
    const project = await w.project('pro')
    const [site, keeper] = [await newSite(project), await makeSite(w, project)]
    const bytes = Buffer.from(randomBytes(20).toString('hex'))
    await site.add(bytes)
    await w.call(`DELETE /api/v1/sites/${site.id}`, { key: project.key })
    expect(await isNeeded(hashOf(bytes))).toBe(true)
    await w.call(`DELETE /operator/v1/projects/${project.id}?confirm=true`, { key: operatorToken })
    const left = () => w.db.selectFrom('sites').select('id').where('id', 'in', [site.id, keeper.id]).execute()
    await expect.poll(left).toEqual([])
    expect(await isNeeded(hashOf(bytes))).toBe(false)
    expect(await w.db.selectFrom('delivery_files').selectAll().where('project_id', '=', project.id).execute()).toEqual([])
  }, 90_000)
})
