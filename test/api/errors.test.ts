import { afterAll, beforeAll, expect, test } from 'vitest'
import { codesOf, errorStatuses, statusOf } from '../../api/http-errors.ts'
import { ignoredMembers } from '../../api/ignored-members.ts'
import { errorCodes } from '../../core/errors.ts'
import { makeSite, page, randomName } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
})
afterAll(() => w[Symbol.asyncDispose]())

const missing = '00000000-0000-7000-8000-000000000000'
const errorOf = ({ status, headers }: { status: number; headers: Headers }) => [status, headers.get('plinth-error')]

test('E38: every code is in snake case, has a meaning and belongs to a status', () => {
  for (const [code, { meaning }] of Object.entries(errorCodes)) {
    expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/)
    expect(meaning).toMatch(/^[A-Z].*\.$/)
  }
  expect(Object.keys(errorCodes)).toEqual(expect.arrayContaining(Object.keys(statusOf)))
  const listed = errorStatuses.flatMap(codesOf)
  expect(Object.keys(errorCodes).filter((code) => !listed.includes(code as never))).toEqual(['request_timeout'])
})

test.each([
  ['GET /api/v1/whoami', {}, 401, 'unauthorized'],
  ['GET /api/v1/whoami', { key: 'svc_x' }, 401, 'unauthorized'],
  ['GET /operator/v1/projects', { key: 'wrong' }, 401, 'unauthorized'],
  ['GET /metrics', {}, 401, 'unauthorized'],
  ['GET /api/v1/nothing', {}, 404, 'not_found'],
  ['PUT /api/v1/sites', {}, 405, 'method_not_allowed'],
  ['GET /mcp', {}, 405, 'method_not_allowed'],
  [`POST /hooks/git/${missing}`, { json: {} }, 404, 'not_found'],
  [`GET /operator/v1/projects/${missing}`, { key: operatorToken }, 404, 'not_found'],
  ['POST /operator/v1/projects', { key: operatorToken, json: {} }, 400, 'invalid'],
] as const)('E38: %s with %j answers %i with the code %s', async (route, options, status, code) => {
  expect(errorOf(await w.call(route, options))).toEqual([status, code])
})

test('E38: refusals of an operation have codes of their own', async () => {
  const { key } = owner
  const site = await makeSite(w, owner)
  const create = (subdomain: string) => w.call('POST /api/v1/sites', { key, json: { name: 'x', subdomain } })
  expect(errorOf(await create(site.subdomain))).toEqual([409, 'name_taken'])
  expect(errorOf(await create('administrator'))).toEqual([409, 'name_reserved'])
  const readonly = await w.key(owner, 'readonly')
  expect(errorOf(await w.call(`DELETE /api/v1/sites/${site.id}`, { key: readonly }))).toEqual([403, 'scope_too_low'])
  const broken = { key, bytes: Buffer.from('{'), type: 'application/json' }
  expect(errorOf(await w.call('POST /api/v1/sites', broken))).toEqual([400, 'invalid_json'])
  expect(errorOf(await w.call(`POST /api/v1/sites/${site.id}/git/deploy`, { key }))).toEqual([409, 'not_connected'])
  const archive = { key, bytes: Buffer.from('no archive'), type: 'application/gzip' }
  expect(errorOf(await w.call(`POST /api/v1/sites/${site.id}/deploys`, archive))).toEqual([400, 'invalid_archive'])
  const files = [{ path: 'index.html', sha256: '0'.repeat(64), size: 1 }]
  const manifest = await w.call(`POST /api/v1/sites/${site.id}/deploys/manifest`, { key, json: { files } })
  expect(errorOf(manifest)).toEqual([400, 'missing_blobs'])
  await w.call(`DELETE /api/v1/sites/${site.id}`, { key })
  const deploy = await w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key, json: { files: [page('x')] } })
  expect(errorOf(deploy)).toEqual([409, 'in_trash'])
})

test('E38: plans and quotas have codes of their own', async () => {
  const free = await w.project('free')
  const { key } = free
  const short = await w.call('POST /api/v1/sites', { key, json: { name: 'x', subdomain: 'abcdef' } })
  expect(errorOf(short)).toEqual([400, 'plan_short_subdomain'])
  const [site] = [await makeSite(w, free), await makeSite(w, free), await makeSite(w, free)]
  const fourth = await w.call('POST /api/v1/sites', { key, json: { name: 'x', subdomain: randomName() } })
  expect(errorOf(fourth)).toEqual([402, 'quota_sites'])
  const json = { files: [page('x')], activate: false }
  expect(errorOf(await w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key, json }))).toEqual([402, 'plan_previews'])
  const deploy = () => w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key, json: { files: [page('x')] } })
  for (let deploys = 0; deploys < 10; deploys += 1) expect((await deploy()).status).toBe(200)
  expect(errorOf(await deploy())).toEqual([429, 'rate_deploys'])
})

test('E38: a tool that fails has its code in _meta, and its content is unchanged', async () => {
  const failed: any = await w.tool('get_site', { site_id: missing }, owner.key)
  expect(failed._meta).toEqual({ 'Plinth-Error': 'not_found' })
  expect(Object.keys(failed.structuredContent)).toEqual(['status', 'message'])
  const message = await w.call('POST /mcp', { key: owner.key, bytes: Buffer.from('{'), type: 'application/json' })
  expect(errorOf(message)).toEqual([400, 'invalid_json'])
})

test('E38: the OpenAPI document lists the codes of each status, and /docs says what each means', async () => {
  const { body: document } = await w.call('GET /api/v1/openapi.json')
  const { headers } = document.components.responses.Conflict
  expect(headers['Plinth-Error']).toMatchObject({ required: true, schema: { enum: codesOf(409) } })
  const { body: docs } = await w.call('GET /docs')
  for (const code of errorStatuses.flatMap(codesOf)) expect(docs).toContain(`<dt><code>${code}</code>`)
})

test('E38: ignored members of a body and parameters of a query are named, and the request is served', async () => {
  const json = { name: 'x', subdomain: randomName(), colour: 'red', site_id: missing }
  const created = await w.call('POST /api/v1/sites?dry_run=1', { key: owner.key, json })
  expect([created.status, created.headers.get('plinth-ignored')]).toEqual([200, 'dry_run, colour, site_id'])
  const listed = await w.call('GET /api/v1/sites?verbose=true', { key: owner.key })
  expect([listed.status, listed.headers.get('plinth-ignored')]).toEqual([200, 'verbose'])
  const bytes = { key: owner.key, bytes: Buffer.from('x'), type: 'application/gzip' }
  const archive = await w.call(`POST /api/v1/sites/${created.body.id}/deploys?activat=false`, bytes)
  expect(archive.headers.get('plinth-ignored')).toBe('activat')
  expect((await w.call('GET /api/v1/sites', { key: owner.key })).headers.has('plinth-ignored')).toBe(false)
})

test('E38: ignored members are named when the request is refused', async () => {
  const refused = await w.call('POST /api/v1/sites', { key: owner.key, json: { name: 5, subdomian: 'abcdefg' } })
  expect([refused.status, refused.headers.get('plinth-ignored')]).toEqual([422, 'subdomian'])
  const operator = await w.call('POST /operator/v1/projects', { key: operatorToken, json: { name: 'x', quota: 1 } })
  expect([operator.status, operator.headers.get('plinth-ignored')]).toEqual([400, 'quota'])
})

test('E38: a tool names ignored arguments in _meta', async () => {
  const listed: any = await w.tool('list_sites', { verbose: true }, owner.key)
  expect(listed._meta).toMatchObject({ 'Plinth-Ignored': ['verbose'] })
  const failed: any = await w.tool('get_site', { site_id: missing, verbose: true }, owner.key)
  expect(failed._meta).toEqual({ 'Plinth-Error': 'not_found', 'Plinth-Ignored': ['verbose'] })
  const confirmed: any = await w.tool('delete_site', { site_id: missing, confirm: true }, owner.key)
  expect(confirmed._meta).toEqual({ 'Plinth-Error': 'not_found' })
})

test.each([
  ['at most ten', Array.from({ length: 12 }, (_, index) => `m${index}`), Array.from({ length: 10 }, (_, index) => `m${index}`)],
  ['no line breaks', ['a\r\nset-cookie: x', 'b\n', 'c'], ['c']],
  ['no separators, spaces or other alphabets', ['a,b', 'a b', 'é', '', 'ok'], ['ok']],
  ['at most 64 characters', ['x'.repeat(65), 'y'.repeat(64)], ['y'.repeat(64)]],
  ['each once', ['a', 'a', '__proto__'], ['a', '__proto__']],
])('E38: ignored names are %s', (_what, given, expected) => {
  expect(ignoredMembers({ given, known: ['known'] })).toEqual(expected)
})
