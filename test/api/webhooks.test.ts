import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxRedeliveriesPerHour, maxWebhooksPerProject } from '../../core/webhooks.ts'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project()
})
afterAll(() => w[Symbol.asyncDispose]())

const url = 'https://hooks.example.com/plinth?token=x'
const create = (json: object, project = owner) => w.call('POST /api/v1/webhooks', { key: project.key, json })
const list = async (project = owner) => (await w.call('GET /api/v1/webhooks', { key: project.key })).body

describe('E33: a webhook', () => {
  test('has a secret that is shown once, and is sealed at rest', async () => {
    const made = await create({ url, events: ['deploy.failed'] })
    const { secret, ...shown } = made.body
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(shown).toMatchObject({ url, events: ['deploy.failed'], site_id: null, enabled: true, disabled_reason: null })
    expect(await list()).toContainEqual(shown)
    const row = await w.db.selectFrom('webhooks').selectAll().where('id', '=', shown.id).executeTakeFirstOrThrow()
    expect(JSON.stringify(row)).not.toContain(secret.slice(6, 40))
  })

  test('may be about one site of the project, and about no other', async () => {
    const site = await makeSite(w, owner)
    const foreign = await makeSite(w, await w.project())
    expect((await create({ url, events: ['deploy.failed'], site_id: site.id })).body).toMatchObject({ site_id: site.id })
    expect((await create({ url, events: ['deploy.failed'], site_id: foreign.id })).status).toBe(404)
  })

  test.each([
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://0x7f.1/',
    'https://10.0.0.1/',
    'https://169.254.169.254/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[fd00::1]/',
    'https://localhost/',
    'https://LOCALHOST/',
    'https://api.internal/',
    'https://printer.local/',
    'https://hooks.example.com:8443/',
    'https://hooks.example.com:80/',
    'http://hooks.example.com/',
    'https://user:secret@hooks.example.com/',
    'https://hooks.example.com/#part',
    'https://hooks.example.com/a b',
    'https://hooks.example.com\\@127.0.0.1/',
    'ftp://hooks.example.com/',
    'file:///etc/passwd',
    'hooks.example.com',
    'https://',
    '',
    `https://hooks.example.com/${'ä'.repeat(1000)}`,
  ])('check 65: is not made for the address %j', async (address) => {
    const { status, body } = await create({ url: address, events: ['deploy.failed'] })
    expect([status, body.message]).toEqual([400, expect.stringMatching(/^url /)])
    const [webhook] = await list()
    const changed = await w.call(`PATCH /api/v1/webhooks/${webhook.id}`, { key: owner.key, json: { url: address } })
    expect(changed.status).toBe(400)
  })

  test.each([[[]], [['deploy']], ['deploy.failed'], [undefined], [Array.from({ length: 7 }, () => 'deploy.failed')]])(
    'is not made for the events %j',
    async (events) => expect((await create({ url, events })).status).toBe(422),
  )

  test('is changed member by member', async () => {
    const { id } = (await create({ url, events: ['deploy.failed'] })).body
    const patch = async (json: object) => (await w.call(`PATCH /api/v1/webhooks/${id}`, { key: owner.key, json })).body
    expect(await patch({ events: ['domain.live'] })).toMatchObject({ url, events: ['domain.live'], enabled: true })
    expect(await patch({ enabled: false })).toMatchObject({ events: ['domain.live'], enabled: false })
    expect(await patch({})).toMatchObject({ events: ['domain.live'], enabled: false })
  })

  test('is one of 20 of a project at most, however many are made at once', async () => {
    const project = await w.project()
    const made = await Promise.all(Array.from({ length: 25 }, () => create({ url, events: ['deploy.failed'] }, project)))
    expect(made.filter(({ status }) => status === 200)).toHaveLength(maxWebhooksPerProject)
    const refused = made.filter(({ status }) => status === 409)
    expect(new Set(refused.map(({ headers }) => headers.get('plinth-error')))).toEqual(new Set(['quota_webhooks']))
  })

  test('goes with its site and with its project', async () => {
    const project = await w.project()
    await create({ url, events: ['deploy.failed'] }, project)
    await w.call(`DELETE /operator/v1/projects/${project.id}?confirm=true`, { key: operatorToken })
    expect(await w.db.selectFrom('webhooks').selectAll().where('project_id', '=', project.id).execute()).toEqual([])
  })

  test('of a suspended project is not made or enabled, but may be disabled and deleted', async () => {
    const project = await w.project()
    const { id } = (await create({ url, events: ['deploy.failed'] }, project)).body
    await w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended: true } })
    const patch = (json: object) => w.call(`PATCH /api/v1/webhooks/${id}`, { key: project.key, json })
    expect((await create({ url, events: ['deploy.failed'] }, project)).status).toBe(402)
    expect((await patch({ enabled: false })).status).toBe(200)
    expect((await patch({ enabled: true })).status).toBe(402)
    expect((await w.call(`DELETE /api/v1/webhooks/${id}`, { key: project.key })).status).toBe(200)
  })
})

describe('E33: a repeated delivery', () => {
  async function madeDelivery(project: TestProject) {
    const { id } = (await create({ url, events: ['site.trashed'] }, project)).body
    const site = await makeSite(w, project)
    await w.call(`DELETE /api/v1/sites/${site.id}`, { key: project.key })
    const deliveries = await w.call(`GET /api/v1/webhooks/${id}/deliveries`, { key: project.key })
    return `/api/v1/webhooks/${id}/deliveries/${deliveries.body[0].id}/redeliver`
  }

  test('is refused for a disabled webhook', async () => {
    const project = await w.project()
    const path = await madeDelivery(project)
    await w.call(`PATCH ${path.split('/deliveries')[0]}`, { key: project.key, json: { enabled: false } })
    const { status, headers } = await w.call(`POST ${path}`, { key: project.key })
    expect([status, headers.get('plinth-error')]).toEqual([409, 'webhook_disabled'])
  })

  test('is allowed so often in an hour', async () => {
    const project = await w.project()
    const path = await madeDelivery(project)
    const taken_at = Array.from({ length: maxRedeliveriesPerHour - 1 }, () => w.clock())
    await w.db.insertInto('allowances').values({ project_id: project.id, kind: 'webhook_redeliveries', taken_at }).execute()
    expect((await w.call(`POST ${path}`, { key: project.key })).status).toBe(200)
    const { status, headers } = await w.call(`POST ${path}`, { key: project.key })
    expect([status, headers.get('plinth-error')]).toEqual([429, 'rate_redeliveries'])
    expect(await w.db.selectFrom('webhook_deliveries').select('id').where('project_id', '=', project.id).execute()).toHaveLength(
      2,
    )
  })
})
