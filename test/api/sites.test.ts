import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defaultPlans } from '../../core/plans.ts'
import { makeSite, randomName } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({
    worker: false,
    plans: { ...defaultPlans, free: { ...defaultPlans.free, sites: 2 }, enterprise: { ...defaultPlans.enterprise, sites: 1 } },
  })
  owner = await w.project()
})
afterAll(() => w[Symbol.asyncDispose]())

const create = (json: unknown, key = owner.key) => w.call('POST /api/v1/sites', { key, json })
const suspend = (project: TestProject, suspended: boolean) =>
  w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended } })

test('S01 S07 S08 S12 C01 C05: a created site has every field, its address and its form endpoint', async () => {
  const subdomain = randomName()
  const { status, headers, body } = await create({ name: 'Docs', subdomain })
  expect(status).toBe(200)
  expect(headers.get('content-type')).toMatch('application/json')
  expect(body).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/),
    name: 'Docs',
    description: null,
    subdomain,
    url: `http://${subdomain}.plinth.localhost:8080`,
    form_endpoint: `http://localhost:8080/f/${body.id}`,
    enabled: true,
    checks_enabled: true,
    permanent_links: false,
    canonical_urls: false,
    asset_retention_days: 0,
    install_command: null,
    build_command: null,
    output_dir: null,
    root_dir: null,
    node_version: null,
    deletion_scheduled_at: null,
    active_deploy_id: null,
    pending_subdomain: null,
    access_mode: null,
    previews_closed: false,
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    updated_at: expect.any(String),
  })
  expect((await w.call(`GET /api/v1/sites/${body.id}`, { key: owner.key })).body).toEqual(body)
  expect((await w.call('GET /api/v1/sites', { key: owner.key })).body).toContainEqual(body)
})

test.each([
  ['S02', { name: '', subdomain: 'some-good-name' }, 400],
  ['S02', { name: '   ', subdomain: 'some-good-name' }, 400],
  ['S02', { subdomain: 'some-good-name' }, 400],
  ['S03', { name: 'x' }, 400],
  ['S03', { name: 'x', subdomain: 'A_b!' }, 400],
  ['S03', { name: 'x', subdomain: '-x-abcdef' }, 400],
  ['S03', { name: 'x', subdomain: 'abcdef-' }, 400],
  ['S03', { name: 'x', subdomain: 'abcd' }, 400],
  ['S03', { name: 'x', subdomain: 'a'.repeat(64) }, 400],
  ['S03', { name: 'x', subdomain: 'xn--abcdefgh' }, 400],
  ['S04', { name: 'x', subdomain: 'www' }, 409],
  ['S04', { name: 'x', subdomain: 'Dashboard' }, 409],
  ['C02', { name: 5, subdomain: 'some-good-name' }, 422],
  ['C02', { name: 'x'.repeat(121), subdomain: 'some-good-name' }, 422],
  ['C02', { name: 'x\u0000', subdomain: 'some-good-name' }, 422],
  ['C02', [], 422],
])('%s: creating a site with %j is refused with %i and nothing but a message', async (_row, json, expected) => {
  const { status, body } = await create(json)
  expect([status, Object.keys(body)]).toEqual([expected, ['message']])
  expect(body.message).toMatch(/\w/)
})

test('S04: a taken subdomain is refused with 409 in whatever case it is written, also for another project', async () => {
  const { subdomain } = await makeSite(w, owner)
  const other = await w.project()
  expect((await create({ name: 'x', subdomain: subdomain.toUpperCase() }, other.key)).status).toBe(409)
})

test.each([
  ['free', 'a2345678', 400],
  ['free', 'a23456789', 200],
  ['start', 'b2345678', 200],
  ['start', 'b2345', 200],
] as const)('S05: on the %s plan the subdomain %s is answered %i', async (plan, subdomain, expected) => {
  const project = await w.project(plan)
  expect((await create({ name: 'x', subdomain }, project.key)).status).toBe(expected)
})

test('S06 Z03: the site quota is refused with 402 while a higher plan would help, else with 409', async () => {
  const free = await w.project('free')
  await makeSite(w, free)
  await makeSite(w, free)
  const refused = await create({ name: 'x', subdomain: randomName() }, free.key)
  expect([refused.status, refused.body.message]).toEqual([402, expect.stringContaining('Free')])
  const enterprise = await w.project('enterprise')
  await makeSite(w, enterprise)
  expect((await create({ name: 'x', subdomain: randomName() }, enterprise.key)).status).toBe(409)
})

test('S06 Z03: parallel creations never exceed the quota', async () => {
  const free = await w.project('free')
  const answers = await Promise.all(Array.from({ length: 6 }, () => create({ name: 'x', subdomain: randomName() }, free.key)))
  expect(answers.map((answer) => answer.status).sort()).toEqual([200, 200, 402, 402, 402, 402])
})

test('S06 S14 Z05: a suspended project cannot create or enable, but read, rename and disable', async () => {
  const project = await w.project()
  const site = await makeSite(w, project)
  await suspend(project, true)
  const enabled = (value: boolean) =>
    w.call(`POST /api/v1/sites/${site.id}/enabled`, { key: project.key, json: { enabled: value } })
  expect((await create({ name: 'x', subdomain: randomName() }, project.key)).status).toBe(402)
  expect((await enabled(false)).status).toBe(200)
  expect((await enabled(true)).status).toBe(402)
  expect((await w.call('GET /api/v1/sites', { key: project.key })).status).toBe(200)
  expect((await w.call(`PATCH /api/v1/sites/${site.id}`, { key: project.key, json: { name: 'y' } })).status).toBe(200)
  await suspend(project, false)
  expect((await enabled(true)).body.enabled).toBe(true)
})

describe('S11: updating a site', () => {
  test('sets what is given and keeps the rest', async () => {
    const site = await makeSite(w, owner)
    const patch = (json: unknown) => w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json })
    expect((await patch({ name: 'New', description: 'About' })).body).toMatchObject({ name: 'New', description: 'About' })
    expect((await patch({ name: 'Newer' })).body).toMatchObject({ name: 'Newer', description: 'About', checks_enabled: true })
    expect((await patch({ name: 'N', checks_enabled: false, unknown: 1 })).body.checks_enabled).toBe(false)
    expect((await patch({ name: 'N', description: null })).body.description).toBeNull()
  })

  test('the folder that is built is kept in one form, and forgotten with null or nothing', async () => {
    const site = await makeSite(w, owner)
    const set = async (root_dir: string | null) =>
      (await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json: { name: 'N', root_dir } })).body
    expect((await set('./apps/web/')).root_dir).toBe('apps/web')
    expect((await w.call(`GET /api/v1/sites/${site.id}`, { key: owner.key })).body.root_dir).toBe('apps/web')
    expect((await set('')).root_dir).toBeNull()
    expect((await set('docs')).root_dir).toBe('docs')
    expect((await set(null)).root_dir).toBeNull()
    expect(await set('../other')).toEqual({ message: 'root_dir contains ".."; name a folder of the source' })
  })

  test('E30: the build settings are kept in one form, member by member, and erased by null or nothing', async () => {
    const site = await makeSite(w, owner)
    const set = async (json: object) => (await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json })).body
    const given = {
      install_command: ' npm i ',
      build_command: 'make',
      output_dir: './www/',
      root_dir: 'web',
      node_version: 'v22.x',
    }
    const kept = { install_command: 'npm i', build_command: 'make', output_dir: 'www', root_dir: 'web', node_version: '22' }
    expect(await set(given)).toMatchObject(kept)
    expect(await set({ checks_enabled: true })).toMatchObject({ ...kept, name: site.name })
    expect((await w.call(`GET /api/v1/sites/${site.id}`, { key: owner.key })).body).toMatchObject(kept)
    expect(await set({ build_command: '', output_dir: null })).toMatchObject({ ...kept, build_command: null, output_dir: null })
    const none = { install_command: null, root_dir: null, node_version: '' }
    expect(await set(none)).toMatchObject({ install_command: null, root_dir: null, node_version: null })
  })

  test.each<[object, number, string]>([
    [{ build_command: 'a\nb' }, 422, 'build_command must be one line of 0 to 1000 characters'],
    [{ install_command: 'a'.repeat(1001) }, 422, 'install_command must be one line of 0 to 1000 characters'],
    [{ build_command: 1 }, 422, 'build_command'],
    [{ output_dir: '.' }, 400, 'output_dir is the root of the source; name the folder that the build writes'],
    [{ output_dir: '../a' }, 400, 'output_dir contains ".."; name a folder of the source'],
    [{ node_version: '21' }, 400, 'node_version must be 18, 20, 22 or 24'],
    [{ node_version: 'lts/*' }, 400, 'node_version must be'],
    [{ node_version: '2'.repeat(5000) }, 400, 'node_version must be'],
  ])('E30: %j is refused with %i', async (json, status, message) => {
    const site = await makeSite(w, owner)
    const answer = await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json })
    expect([answer.status, answer.body.message]).toEqual([status, expect.stringContaining(message)])
  })

  test('a site is changed without giving its name again', async () => {
    const site = await makeSite(w, owner)
    const answer = await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json: { description: 'x' } })
    expect(answer).toMatchObject({ status: 200, body: { name: site.name, description: 'x' } })
  })

  test.each([[{ name: '' }], [{ name: ' ' }]])('S02: %j is refused with 400', async (json) => {
    const site = await makeSite(w, owner)
    expect((await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json })).status).toBe(400)
  })
})
