import { afterAll, beforeAll, expect, test } from 'vitest'
import { defaultPlans } from '../../core/plans.ts'
import { makeSite, page, randomName } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
beforeAll(async () => {
  const none = { ...defaultPlans.start, sites: 1, domains: 0, storage_bytes: 0, deploys_per_hour: 0 }
  w = await world({ worker: false, plans: { ...defaultPlans, start: none } })
})
afterAll(() => w[Symbol.asyncDispose]())

const change = (project: TestProject, json: object) =>
  w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json })
const errorOf = ({ status, headers }: { status: number; headers: Headers }) => [status, headers.get('plinth-error')]
const emailsTo = async (to: string) =>
  (await w.call(`GET /operator/v1/mails?to=${encodeURIComponent(to)}`, { key: operatorToken })).body

test('E38: suspension is answered before every rate and quota', async () => {
  const project = await w.project('start')
  const { key } = project
  const site = await makeSite(w, project)
  const trashed = await w.project('start')
  const inTrash = await makeSite(w, trashed)
  await w.call(`DELETE /api/v1/sites/${inTrash.id}`, { key: trashed.key })
  await makeSite(w, trashed)
  const requests = [
    ['POST /api/v1/sites', { key, json: { name: 'x', subdomain: randomName() } }, 402, 'quota_sites'],
    [`POST /api/v1/sites/${site.id}/deploy-files`, { key, json: { files: [page('x')] } }, 409, 'quota_storage'],
    [`POST /api/v1/sites/${site.id}/deploys`, { key, bytes: Buffer.from('x'), type: 'application/gzip' }, 409, 'quota_storage'],
    [`POST /api/v1/sites/${site.id}/domains`, { key, json: { domain: 'www.example.com' } }, 409, 'quota_domains'],
    [`POST /api/v1/sites/${inTrash.id}/restore`, { key: trashed.key }, 402, 'quota_sites'],
  ] as const
  for (const [route, options, status, code] of requests) expect(errorOf(await w.call(route, options))).toEqual([status, code])
  await change(project, { suspended: true })
  await change(trashed, { suspended: true })
  for (const [route, options] of requests)
    expect([route, ...errorOf(await w.call(route, options))]).toEqual([route, 402, 'suspended'])
})

test('E38: the reason of a suspension is in the refusal, in whoami and in an email to the owner', async () => {
  const project = await w.project()
  const owner_email = `${randomName('owner')}@example.com`
  const site = await makeSite(w, project)
  const deploy = () => w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: project.key, json: { files: [page('x')] } })
  const whoami = async () => (await w.call('GET /api/v1/whoami', { key: project.key })).body
  expect(await whoami()).toMatchObject({ suspended: false, suspended_reason: null })
  const reason = 'phishing was reported on one of the sites; write to abuse@example.com'
  const { status, body } = await change(project, { owner_email, suspended: true, suspended_reason: reason })
  expect([status, body]).toMatchObject([200, { owner_email, suspended: true, suspended_reason: reason }])
  expect((await deploy()).body.message).toBe(`the project is suspended: ${reason}`)
  expect(await whoami()).toMatchObject({ suspended: true, suspended_reason: reason })
  const [email] = await emailsTo(owner_email)
  expect(email).toMatchObject({ kind: 'project_suspended', text: expect.stringContaining(reason) })
  await change(project, { plan: 'scale' })
  expect(await emailsTo(owner_email)).toHaveLength(1)
  await change(project, { suspended_reason: 'the invoice of May is open' })
  expect((await emailsTo(owner_email))[0].text).toContain('the invoice of May is open')
})

test('E38: without a reason the refusal does not speak of bills', async () => {
  const project = await w.project()
  await change(project, { suspended: true })
  const { body } = await w.call('POST /api/v1/sites', { key: project.key, json: { name: 'x', subdomain: randomName() } })
  expect(body.message).toBe('the project is suspended; ask the operator of this platform about it')
})

test('E38: the reason goes when the project is resumed, and needs a suspension', async () => {
  const project = await w.project()
  await change(project, { suspended: true, suspended_reason: 'a test' })
  expect((await change(project, { suspended: false })).body).toMatchObject({ suspended: false, suspended_reason: null })
  expect((await change(project, { suspended_reason: 'a test' })).status).toBe(400)
  expect((await change(project, { suspended: true })).body.suspended_reason).toBeNull()
})

test.each(['', ' ', 'x'.repeat(501), 'two\nlines', 7])('E38: %j is no reason', async (suspended_reason) => {
  const project = await w.project()
  expect((await change(project, { suspended: true, suspended_reason })).status).toBe(422)
})

test('E38: the operator changes the name and the owner of a project', async () => {
  const project = await w.project()
  const { body } = await change(project, { name: 'Another name', owner_email: 'new@example.com' })
  expect(body).toMatchObject({ name: 'Another name', owner_email: 'new@example.com', plan: 'pro' })
  expect((await w.call('GET /api/v1/whoami', { key: project.key })).body.project_name).toBe('Another name')
  expect((await change(project, { name: ' ' })).status).toBe(400)
  expect((await change(project, { owner_email: 'nobody' })).status).toBe(422)
})
