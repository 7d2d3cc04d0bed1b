import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

// The variables of a site through REST.

let w: World
let owner: TestProject
let site: any
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await makeSite(w, owner)
})

const at = (name = '', siteId = site.id) => `/api/v1/sites/${siteId}/env${name && `/${name}`}`
const set = (name: string, json: object) => w.call(`PUT ${at(name)}`, { key: owner.key, json })
const list = async () => (await w.call(`GET ${at()}`, { key: owner.key })).body
const remove = (name: string) => w.call(`DELETE ${at(name)}`, { key: owner.key })
const updated_at = expect.stringMatching(/^\d{4}-\d\d-\d\dT/)

test('E30: a variable is set, listed by name, replaced and deleted', async () => {
  expect(await list()).toEqual([])
  const shown = { name: 'API_URL', value: 'https://a.test', secret: false, contexts: ['production', 'preview'], updated_at }
  expect(await set('API_URL', { value: 'https://a.test' })).toMatchObject({ status: 200, body: shown })
  await set('A', { value: 'ä\n', contexts: ['preview', 'preview'] })
  expect(await list()).toEqual([{ name: 'A', value: 'ä\n', secret: false, contexts: ['preview'], updated_at }, shown])
  expect((await set('A', { value: '' })).body).toEqual({ ...shown, name: 'A', value: '' })
  expect((await remove('A')).body).toEqual({ ok: true })
  expect(await list()).toEqual([shown])
  expect((await remove('A')).status).toBe(404)
})

test('E30: the value of a secret is never shown again, and PostgreSQL holds every value sealed', async () => {
  const value = 'canary-of-a-variable'
  expect((await set('TOKEN', { value, secret: true })).body).toMatchObject({ value: null, secret: true })
  await set('PLAIN', { value })
  expect((await list()).map((one: any) => one.value)).toEqual([value, null])
  const rows = await w.db.selectFrom('site_variables').selectAll().execute()
  expect(JSON.stringify(rows)).not.toContain(value)
})

test('a value that was sealed with another key is null', async () => {
  await set('PLAIN', { value: 'x' })
  await w.db.updateTable('site_variables').set({ value_sealed: 'v1.00000000.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' }).execute()
  expect((await list())[0].value).toBe(null)
})

const refusedNames =
  'PATH path HOME CI PLINTH plinth_site NODE_OPTIONS LD_PRELOAD ld_library_path npm_config_registry NPM_CONFIG_X https_proxy NO_PROXY ALL_PROXY 1A A-B A.B a%20b %C3%84'

test.each([...refusedNames.split(' '), 'A'.repeat(129)])('E30: a variable cannot be called %s', async (name) => {
  expect((await set(name, { value: 'x' })).status).toBe(400)
})

test.each(['A', '_', 'a1', 'LDX', 'PATHS', 'VITE_API_URL', 'A'.repeat(128)])('E30: a variable may be called %s', async (name) => {
  expect((await set(name, { value: 'x' })).status).toBe(200)
})

test('E30: a value has at most 32 KB of UTF-8 and no NUL', async () => {
  expect((await set('A', { value: 'x'.repeat(32 * 1024) })).status).toBe(200)
  expect((await set('A', { value: `${'ä'.repeat(16 * 1024)}x` })).status).toBe(400)
  expect((await set('A', { value: 'a\u0000b' })).status).toBe(400)
  expect((await set('A', { value: '\ud800' })).status).toBe(400)
  expect((await set('A', { value: 'x', contexts: [] })).status).toBe(422)
  expect((await set('A', { value: 'x', contexts: ['fork'] })).status).toBe(422)
})

test('E30: all values of a site have at most 64 KB, and there are at most 100', async () => {
  await set('A', { value: 'x'.repeat(32 * 1024) })
  await set('B', { value: 'x'.repeat(32 * 1024 - 99) })
  expect(await set('C', { value: 'x'.repeat(100) })).toMatchObject({ status: 409, body: { message: /64 KB together/ } })
  for (let at = 0; at < 98; at++) expect((await set(`V${at}`, { value: 'x' })).status).toBe(200)
  expect(await set('V98', { value: '' })).toMatchObject({ status: 409, body: { message: /100 variables/ } })
  expect((await set('V97', { value: '' })).status).toBe(200)
  expect((await set('B', { value: 'x'.repeat(32 * 1024) })).status).toBe(409)
})

test('E30: two variables that would exceed the limit together are never both set', async () => {
  await set('A', { value: 'x'.repeat(32 * 1024) })
  const both = await Promise.all(['B', 'C', 'D'].map((name) => set(name, { value: 'x'.repeat(20 * 1024) })))
  expect(both.map(({ status }) => status).sort()).toEqual([200, 409, 409])
})

test('E30: variables stay in the trash, where none is set', async () => {
  await set('A', { value: 'x' })
  await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
  expect((await set('B', { value: 'x' })).status).toBe(409)
  expect(await list()).toHaveLength(1)
  await w.call(`POST /api/v1/sites/${site.id}/restore`, { key: owner.key })
  expect(await list()).toHaveLength(1)
})
