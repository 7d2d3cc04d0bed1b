import { afterAll, beforeAll, expect, test } from 'vitest'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { type DeliverySite, makeDeliverySite } from './delivery-site.ts'
import { smallImage } from './operation-inputs.ts'

let w: World
let owner: TestProject
let site: DeliverySite
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('start')
  site = await makeDeliverySite(w, owner)
})
afterAll(() => w?.[Symbol.asyncDispose]())

const damaged = async () => (await w.call('GET /operator/v1/storage', { key: operatorToken })).body.damaged
const damage = (sha256: string) => w.db.insertInto('damaged_objects').values({ sha256, found_at: new Date() }).execute()

test('25: operators see which site lacks a file for visitors and a logo', async () => {
  expect((await site.add('a guide', { name: 'guide.txt' })).status).toBe(200)
  expect((await site.design({ page_title: 'Guide', upsell_text: 'x' })).status).toBe(200)
  const logo = { bytes: smallImage, type: 'image/png' }
  expect((await site.call('PUT', 'page-logo', logo)).status).toBe(200)
  const file = await w.db.selectFrom('delivery_files').select('sha256').executeTakeFirstOrThrow()
  const page = await w.db.selectFrom('delivery_pages').select('logo_sha256').executeTakeFirstOrThrow()
  await damage(file.sha256)
  await damage(page.logo_sha256 ?? '')
  const use = { project_id: owner.id, site_id: site.id, deploy_id: null, live: true }
  expect((await damaged()).flatMap((one: any) => one.uses).sort((a: any, b: any) => (a.path < b.path ? -1 : 1))).toEqual([
    { ...use, path: 'guide.txt' },
    { ...use, path: 'logo' },
  ])
})
