import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { Client } from '@temporalio/client'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { maxTriesUnderWay, maxWaitingDeliveries } from '../../core/webhooks.ts'
import { openKeyring, seal } from '../../infra/crypto/seal.ts'
import { deleteExpired } from '../../services/removal/expired.ts'
import { transact } from '../../services/transact.ts'
import { recordEvent } from '../../services/webhooks/events.ts'
import { secretOf } from '../../services/webhooks/webhooks.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import { makeFormSite } from '../api/form-site.ts'
import { archiveOf, deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'
import { openProcesses } from './processes.ts'
import { openTemporalClient, showWorkflow } from './temporal-client.ts'

interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

const stack = new AsyncDisposableStack()
const received: Received[] = []
/** How the receiver answers at each path; 204 elsewhere. */
const answers = new Map<string, (res: ServerResponse) => void>()
let origin: string
let w: World
let temporal: Client
beforeAll(async () => {
  const server = createServer(async (req, res) => {
    const path = req.url ?? ''
    received.push({ path, headers: req.headers, body: (await buffer(req)).toString() })
    const answer = answers.get(path) ?? ((response) => response.writeHead(204).end())
    answer(res)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stack.defer(async () => {
    server.closeAllConnections()
    await new Promise((done) => server.close(done))
  })
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  w = stack.use(await world({ env: { PLINTH_ALLOW_PRIVATE_WEBHOOKS: 'true', PLINTH_WEBHOOK_RETRY_PAUSE: '1ms' } }))
  temporal = await openTemporalClient(w, stack)
})
afterAll(() => stack.disposeAsync())
beforeEach(() => {
  received.length = 0
})

const soon = { interval: 30 }
let paths = 0

/** A webhook with a path of its own at the receiver. */
async function makeWebhook(project: TestProject, { events = ['site.trashed'], ...more }: Record<string, unknown> = {}) {
  const path = `/hook-${++paths}`
  const json = { url: origin + path, events, ...more }
  const { status, body } = await w.call('POST /api/v1/webhooks', { key: project.key, json })
  if (status !== 200) throw new Error(JSON.stringify(body))
  return { ...body, path } as { id: string; secret: string; path: string }
}

const bodiesAt = (path: string) => received.filter((one) => one.path === path).map(({ body }) => JSON.parse(body))
const deliveriesOf = async (project: TestProject, { id }: { id: string }) =>
  (await w.call(`GET /api/v1/webhooks/${id}/deliveries`, { key: project.key })).body as any[]
const statesOf = async (project: TestProject, webhook: { id: string }) =>
  (await deliveriesOf(project, webhook)).map(({ state }) => state)

/** Records an event of a site that need not exist. */
const emit = (project: TestProject, data: Record<string, string> = {}) =>
  transact(w, (tx) => recordEvent(tx, { type: 'site.trashed', project_id: project.id, site_id: nowhere, data }, w.clock()))
const nowhere = '00000000-0000-7000-8000-000000000000'

describe('E33: the events of a project', () => {
  test('deploy.succeeded is delivered once for a deploy that goes live, and for one that is not to be published', async () => {
    const owner = await w.project()
    const site = await makeSite(w, owner)
    const webhook = await makeWebhook(owner, { events: ['deploy.succeeded', 'deploy.failed'] })
    const live = await deployFiles(w, owner, site.id, [page('one')])
    const ready = await deployFiles(w, owner, site.id, [page('two')], false)
    await expect.poll(() => bodiesAt(webhook.path).length, soon).toBe(2)
    const delivered = bodiesAt(webhook.path).sort((a, b) => a.timestamp.localeCompare(b.timestamp))
    const data = { site_id: site.id, is_preview: false }
    expect(delivered).toEqual([
      { type: 'deploy.succeeded', timestamp: expect.any(String), data: { ...data, deploy_id: live.id, status: 'active' } },
      {
        type: 'deploy.succeeded',
        timestamp: expect.any(String),
        data: { ...data, deploy_id: ready.id, status: 'ready', is_preview: true },
      },
    ])
  })

  test('deploy.failed is delivered for a cancelled deploy, and says so', async () => {
    const owner = await w.project()
    const site = await makeSite(w, owner)
    const webhook = await makeWebhook(owner, { events: ['deploy.failed'] })
    const sent = { key: owner.key, bytes: archiveOf({ 'index.html': 'x' }), type: 'application/gzip' }
    const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploys`, sent)
    await w.call(`POST /api/v1/deploys/${body.id}/cancel`, { key: owner.key })
    await expect
      .poll(() => bodiesAt(webhook.path), soon)
      .toMatchObject([
        { type: 'deploy.failed', data: { deploy_id: body.id, cancelled: true, error: expect.stringContaining('cancelled') } },
      ])
  })

  test('site.trashed goes to webhooks of the site and of the project, and to no other', async () => {
    const owner = await w.project()
    const stranger = await w.project()
    const site = await makeSite(w, owner)
    const other = await makeSite(w, owner)
    const wanted = [await makeWebhook(owner), await makeWebhook(owner, { site_id: site.id })]
    const silent = [
      await makeWebhook(owner, { site_id: other.id }),
      await makeWebhook(owner, { events: ['deploy.failed'] }),
      await makeWebhook(stranger),
    ]
    const { body } = await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
    for (const { path } of wanted) {
      await expect
        .poll(() => bodiesAt(path), soon)
        .toMatchObject([
          { type: 'site.trashed', data: { site_id: site.id, name: site.name, purge_at: body.deletion_scheduled_at } },
        ])
    }
    for (const webhook of silent) expect(bodiesAt(webhook.path)).toEqual([])
  })

  test('form.received carries the fields of the submission; spam and a form whose trap was filled in are no event', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner, { events: ['form.received'] })
    const site = await makeFormSite(w, owner)
    expect((await site.post({ message: 'a bot', _hp_name: 'x' })).status).toBe(200)
    expect((await site.post({ message: 'too quick', _submit_time: Date.now() })).status).toBe(200)
    expect((await site.post({ message: 'hello' })).status).toBe(200)
    const inbox = await w.call(`GET /api/v1/forms/submissions?site=${site.id}&status=verified`, { key: owner.key })
    const [{ id: submission_id }] = inbox.body.items
    await expect
      .poll(() => bodiesAt(webhook.path), soon)
      .toMatchObject([{ type: 'form.received', data: { site_id: site.id, submission_id, fields: { message: 'hello' } } }])
    const { body: deliveries } = await w.call(`GET /api/v1/webhooks/${webhook.id}/deliveries`, { key: owner.key })
    expect(deliveries).toHaveLength(1)
  })

  test.each([
    ['deleted', undefined, (id: string) => `DELETE /api/v1/forms/submissions/${id}`],
    ['marked as spam', { status: 'spam' }, (id: string) => `POST /api/v1/forms/submissions/${id}/status`],
  ])('form.received of a submission that was %s since is delivered again without its fields', async (_how, json, endpoint) => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner, { events: ['form.received'] })
    const site = await makeFormSite(w, owner)
    await site.post({ message: 'hello' })
    await expect.poll(() => bodiesAt(webhook.path).length, soon).toBe(1)
    const [{ data }] = bodiesAt(webhook.path)
    expect(data.fields).toEqual({ message: 'hello' })
    await w.call(endpoint(data.submission_id), { key: owner.key, json })
    const [{ id }] = await deliveriesOf(owner, webhook)
    await w.call(`POST /api/v1/webhooks/${webhook.id}/deliveries/${id}/redeliver`, { key: owner.key })
    await expect.poll(() => bodiesAt(webhook.path).length, soon).toBe(2)
    expect(bodiesAt(webhook.path)[1].data).toEqual({ site_id: site.id, submission_id: data.submission_id })
  })

  test('form.received keeps every field as it was posted, whatever its name', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner, { events: ['form.received'] })
    const site = await makeFormSite(w, owner)
    const posted = '{"__proto__":"x","topics":["a",{"b":null}],"text":"\\u0001 </script> 🧀"}'
    expect((await site.post(posted)).status).toBe(200)
    await expect.poll(() => bodiesAt(webhook.path).length, soon).toBe(1)
    expect(JSON.stringify(Object.entries(bodiesAt(webhook.path)[0].data.fields).sort())).toBe(
      JSON.stringify(Object.entries(JSON.parse(posted)).sort()),
    )
  })

  test('a change that is rolled back is no event', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner)
    const event = { type: 'site.trashed', project_id: owner.id, site_id: nowhere, data: {} } as const
    const undone = transact(w, async (tx) => {
      await recordEvent(tx, event, w.clock())
      throw new Error('undone')
    })
    await expect(undone).rejects.toThrow('undone')
    expect(await deliveriesOf(owner, webhook)).toEqual([])
  })
})

describe('E33: a delivery', () => {
  test('is signed over its id, its time and its exact bytes', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner)
    await emit(owner)
    await expect.poll(() => received.length, soon).toBe(1)
    const { headers, body } = received[0] as Received
    const id = String(headers['webhook-id'])
    const time = String(headers['webhook-timestamp'])
    const key = Buffer.from(webhook.secret.slice('whsec_'.length), 'base64')
    const expected = createHmac('sha256', key).update(`${id}.${time}.${body}`).digest('base64')
    expect(headers).toMatchObject({
      'webhook-id': expect.stringMatching(/^msg_[0-9a-f-]{36}$/),
      'webhook-timestamp': expect.stringMatching(/^\d{10}$/),
      'webhook-signature': `v1,${expected}`,
      'content-type': 'application/json',
    })
  })

  test('shows status and duration of its tries, and is listed newest first', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner)
    await emit(owner, { name: 'first' })
    await emit(owner, { name: 'second' })
    await expect.poll(() => statesOf(owner, webhook), soon).toEqual(['delivered', 'delivered'])
    const [newest, oldest] = await deliveriesOf(owner, webhook)
    expect(newest.id > oldest.id).toBe(true)
    expect(newest).toMatchObject({
      type: 'site.trashed',
      tries: [{ status: 204, duration_ms: expect.any(Number), error: null, at: expect.any(String) }],
      next_try_at: null,
      ended_at: expect.any(String),
    })
    const page = await w.call(`GET /api/v1/webhooks/${webhook.id}/deliveries?limit=1&before=${newest.id}`, { key: owner.key })
    expect(page.body).toEqual([oldest])
  })

  test.each([
    ['a redirect', (res: ServerResponse) => res.writeHead(302, { location: `${origin}/elsewhere` }).end(), 302, 'redirects'],
    ['an error', (res: ServerResponse) => res.writeHead(500).end('x'.repeat(100_000)), 500, 'the answer was 500'],
    ['a cut connection', (res: ServerResponse) => res.destroy(), null, 'cannot be reached'],
  ])(
    'that gets %s is tried again under the same id, and delivered when the receiver is back',
    async (_what, answer, status, error) => {
      const owner = await w.project()
      const webhook = await makeWebhook(owner)
      answers.set(webhook.path, answer)
      await emit(owner)
      await expect.poll(() => received.length, soon).toBeGreaterThan(1)
      answers.delete(webhook.path)
      await expect.poll(() => statesOf(owner, webhook), soon).toEqual(['delivered'])
      const [{ tries }] = await deliveriesOf(owner, webhook)
      expect(tries[0]).toMatchObject({ status, error: expect.stringContaining(error) })
      expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
      expect(received.some(({ path }) => path === '/elsewhere')).toBe(false)
    },
  )

  test('counts as delivered by its status, however long the body is that follows', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner)
    answers.set(webhook.path, (res) => {
      res.writeHead(200)
      const more = () => res.write(Buffer.alloc(65_536)) && setImmediate(more)
      res.on('drain', more)
      more()
    })
    await emit(owner)
    await expect.poll(() => statesOf(owner, webhook), soon).toEqual(['delivered'])
  })

  test('can be repeated, as a new delivery of the same message', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner)
    await emit(owner)
    await expect.poll(() => statesOf(owner, webhook), soon).toEqual(['delivered'])
    const [first] = await deliveriesOf(owner, webhook)
    const again = await w.call(`POST /api/v1/webhooks/${webhook.id}/deliveries/${first.id}/redeliver`, { key: owner.key })
    expect([again.status, again.body.message_id, again.body.id === first.id]).toEqual([200, first.message_id, false])
    await expect.poll(() => statesOf(owner, webhook), soon).toEqual(['delivered', 'delivered'])
    expect(received.map(({ headers }) => headers['webhook-id'])).toEqual([first.message_id, first.message_id])
  })

  test('whose workflow Temporal has lost is made after all', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner)
    answers.set(webhook.path, (res) => res.writeHead(503).end())
    await emit(owner)
    await expect.poll(() => received.length, soon).toBeGreaterThan(0)
    const [{ id }] = await deliveriesOf(owner, webhook)
    await temporal.workflow.getHandle(`webhook:${id}`).terminate()
    answers.delete(webhook.path)
    const options = { stalledAfterMs: 0, dueWithinMs: 0, checkIntervalMs: 1000, retryPauseMs: 60_000 }
    const later = new Date(Date.now() + 3_600_000)
    expect(await reconcile(w, w.workflows, later, options)).toContain(`webhook:${id}`)
    await expect.poll(() => statesOf(owner, webhook), { ...soon, timeout: 90_000 }).toEqual(['delivered'])
  }, 120_000)
})

describe('E33: a webhook that fails', () => {
  test('is disabled after 24 hours without any success, with a notification and no further call', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner)
    answers.set(webhook.path, (res) => res.writeHead(500).end())
    await w.db
      .updateTable('webhooks')
      .set({ failing_since: new Date(w.clock().getTime() - 24 * 3_600_000) })
      .where('id', '=', webhook.id)
      .execute()
    await emit(owner)
    await expect.poll(() => statesOf(owner, webhook), soon).toEqual(['failed'])
    const [shown] = (await w.call('GET /api/v1/webhooks', { key: owner.key })).body
    expect([shown.enabled, shown.disabled_reason]).toEqual([false, expect.stringContaining('24 hours')])
    const { notifications } = (await w.call('GET /api/v1/notifications', { key: owner.key })).body
    expect(notifications).toMatchObject([{ kind: 'webhook_disabled', message: expect.stringContaining(webhook.id) }])
    await emit(owner)
    expect(await deliveriesOf(owner, webhook)).toHaveLength(1)
    const enabled = await w.call(`PATCH /api/v1/webhooks/${webhook.id}`, { key: owner.key, json: { enabled: true } })
    expect(enabled.body).toMatchObject({ enabled: true, disabled_reason: null, failing_since: null })
  })

  test('is not to blame for what the platform cannot do: nothing counts as a try, and the event arrives when it can', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner)
    const row = w.db.selectFrom('webhooks').select(['secret_sealed', 'failing_since', 'enabled']).where('id', '=', webhook.id)
    const { secret_sealed } = await row.executeTakeFirstOrThrow()
    const setSecret = (sealed: string) =>
      w.db.updateTable('webhooks').set({ secret_sealed: sealed }).where('id', '=', webhook.id).execute()
    // sealed with another secret key
    await setSecret(seal(openKeyring(Buffer.alloc(32, 'other')), 'x', secretOf(webhook.id)))
    await emit(owner)
    const [{ id }] = await deliveriesOf(owner, webhook)
    const attempts = async () => {
      const { raw } = await temporal.workflow.getHandle(`webhook:${id}`).describe()
      return Math.max(0, ...(raw.pendingActivities ?? []).map(({ attempt }) => attempt ?? 0))
    }
    await expect.poll(attempts, { ...soon, timeout: 20_000 }).toBeGreaterThan(1)
    expect((await deliveriesOf(owner, webhook))[0]).toMatchObject({ tries: [], ended_at: null })
    expect(await row.executeTakeFirstOrThrow()).toMatchObject({ failing_since: null, enabled: true })
    await setSecret(secret_sealed)
    await expect.poll(() => statesOf(owner, webhook), { ...soon, timeout: 60_000 }).toEqual(['delivered'])
    expect((await deliveriesOf(owner, webhook))[0].tries).toHaveLength(1)
  }, 90_000)

  test('is not to blame for a worker that is killed during a try, which is repeated under the same id', async () => {
    const env = { PLINTH_ALLOW_PRIVATE_WEBHOOKS: 'true', PLINTH_WEBHOOK_RETRY_PAUSE: '1ms' }
    await using killed = await world({ worker: false, env })
    await using processes = openProcesses(killed)
    const owner = await killed.project()
    const path = `/hook-${++paths}`
    const json = { url: origin + path, events: ['site.trashed'] }
    const { body: webhook } = await killed.call('POST /api/v1/webhooks', { key: owner.key, json })
    answers.set(path, () => undefined)
    const event = { type: 'site.trashed', project_id: owner.id, site_id: nowhere, data: {} } as const
    await transact(killed, (tx) => recordEvent(tx, event, killed.clock()))
    processes.start('worker')
    await expect.poll(() => bodiesAt(path).length, { ...soon, timeout: 60_000 }).toBe(1)
    await processes.restart('worker')
    answers.delete(path)
    const read = async () => (await killed.call(`GET /api/v1/webhooks/${webhook.id}/deliveries`, { key: owner.key })).body
    await expect.poll(async () => (await read())[0].state, { interval: 200, timeout: 120_000 }).toBe('delivered')
    expect((await read())[0].tries).toHaveLength(1)
    const ids = received.filter((one) => one.path === path).map(({ headers }) => headers['webhook-id'])
    expect([ids.length, new Set(ids).size]).toEqual([2, 1])
    const [{ failing_since }] = (await killed.call('GET /api/v1/webhooks', { key: owner.key })).body
    expect(failing_since).toBeNull()
  }, 240_000)

  test('shows since when, and forgets that with a success', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner)
    const failing = async () => (await w.call('GET /api/v1/webhooks', { key: owner.key })).body[0].failing_since
    answers.set(webhook.path, (res) => res.writeHead(500).end())
    await emit(owner)
    await expect.poll(failing, soon).not.toBeNull()
    answers.delete(webhook.path)
    await expect.poll(failing, soon).toBeNull()
  })

  test('ends its waiting deliveries when its owner disables or deletes it', async () => {
    const owner = await w.project()
    const [disabled, deleted] = [await makeWebhook(owner), await makeWebhook(owner)]
    for (const { path } of [disabled, deleted]) answers.set(path, (res) => res.writeHead(500).end())
    await emit(owner)
    const triesOf = async (webhook: { id: string }) => (await deliveriesOf(owner, webhook))[0].tries.length
    for (const webhook of [disabled, deleted]) await expect.poll(() => triesOf(webhook), soon).toBeGreaterThan(3)
    const handles = [disabled, deleted].map(async (webhook) => {
      const [{ id }] = await deliveriesOf(owner, webhook)
      return temporal.workflow.getHandle(`webhook:${id}`)
    })
    const [ofDisabled, ofDeleted] = await Promise.all(handles)
    await w.call(`PATCH /api/v1/webhooks/${disabled.id}`, { key: owner.key, json: { enabled: false } })
    await w.call(`DELETE /api/v1/webhooks/${deleted.id}`, { key: owner.key })
    expect([await ofDisabled?.result(), await ofDeleted?.result()]).toEqual(['failed', 'gone'])
  })

  test('has a bounded number of waiting deliveries', async () => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner)
    await emit(owner)
    await expect.poll(() => statesOf(owner, webhook), soon).toEqual(['delivered'])
    const [{ id }] = await deliveriesOf(owner, webhook)
    const { event_id } = await w.db
      .selectFrom('webhook_deliveries')
      .select('event_id')
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    const row = { webhook_id: webhook.id, event_id, project_id: owner.id, created_at: w.clock() }
    await w.db
      .insertInto('webhook_deliveries')
      .values(Array.from({ length: maxWaitingDeliveries }, () => row))
      .execute()
    await emit(owner)
    const { count } = await w.db
      .selectFrom('webhook_deliveries')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('webhook_id', '=', webhook.id)
      .executeTakeFirstOrThrow()
    expect(count).toBe(maxWaitingDeliveries + 1)
    const [shown] = (await w.call('GET /api/v1/webhooks', { key: owner.key })).body
    expect(shown.overflowed_at).not.toBeNull()
    const again = await w.call(`POST /api/v1/webhooks/${webhook.id}/deliveries/${id}/redeliver`, { key: owner.key })
    expect(again.status).toBe(409)
  })
})

test('E33: of a project only some calls are under way at once, and its silent receiver delays no other project', async () => {
  const [slow, quick] = [await w.project(), await w.project()]
  const silent = await makeWebhook(slow)
  let open = 0
  let most = 0
  answers.set(silent.path, (res) => {
    most = Math.max(most, ++open)
    res.on('close', () => {
      open -= 1
    })
    setTimeout(() => res.writeHead(200).end(), 3000)
  })
  for (let i = 0; i < 10; i++) await emit(slow)
  await expect.poll(() => open, soon).toBe(maxTriesUnderWay)
  const webhook = await makeWebhook(quick)
  await emit(quick)
  await expect.poll(() => statesOf(quick, webhook), { ...soon, timeout: 2700 }).toEqual(['delivered'])
  await expect.poll(() => statesOf(slow, silent), soon).toEqual(Array.from({ length: 10 }, () => 'delivered'))
  expect(most).toBe(maxTriesUnderWay)
  const workflowId = `webhook:${(await deliveriesOf(slow, silent))[0].id}`
  await replay(await temporal.workflow.getHandle(workflowId).fetchHistory())
  record(w.temporal, workflowId, 'webhook-waited')
})

test('checks 65, 66: without the setting a delivery reaches no private address, by name or literal', async () => {
  await using strict = await world()
  const owner = await strict.project()
  for (const url of [
    'https://localhost/',
    'https://127.0.0.1/',
    'https://[::ffff:127.0.0.1]/',
    'https://1.1.1.1:8443/',
    origin,
  ]) {
    const json = { url: 'https://hooks.example.com/', events: ['site.trashed'] }
    const { body } = await strict.call('POST /api/v1/webhooks', { key: owner.key, json })
    // as if the name had been public when the webhook was created
    await strict.db.updateTable('webhooks').set({ url }).where('id', '=', body.id).execute()
  }
  const event = { type: 'site.trashed', project_id: owner.id, site_id: nowhere, data: {} } as const
  await transact(strict, (tx) => recordEvent(tx, event, strict.clock()))
  const tries = async () =>
    (await strict.db.selectFrom('webhook_deliveries').select('tries').execute()).map(({ tries }) => tries[0]?.error ?? '')
  await expect.poll(async () => (await tries()).filter((error) => error.includes('not ')).length, soon).toBe(5)
  expect(received).toEqual([])
})

test('E33: events and deliveries are kept 30 days', async () => {
  const owner = await w.project()
  const webhook = await makeWebhook(owner)
  await emit(owner)
  await expect.poll(() => statesOf(owner, webhook), soon).toEqual(['delivered'])
  await deleteExpired(w.db, new Date(w.clock().getTime() + 30 * 86_400_000 - 60_000))
  expect(await deliveriesOf(owner, webhook)).toHaveLength(1)
  await deleteExpired(w.db, new Date(w.clock().getTime() + 30 * 86_400_000 + 60_000))
  expect(await deliveriesOf(owner, webhook)).toEqual([])
})

describe('the workflow', () => {
  const endings = ['delivered', 'failed', 'gone'] as const

  test.each(endings)('of a delivery that is %s replays, and shows neither address nor content in Temporal', async (ending) => {
    const owner = await w.project()
    const webhook = await makeWebhook(owner)
    if (ending !== 'delivered') answers.set(webhook.path, (res) => res.writeHead(500).end('the response of the receiver'))
    await emit(owner, { name: 'content of the event' })
    const [{ id }] = await deliveriesOf(owner, webhook)
    const handle = temporal.workflow.getHandle(`webhook:${id}`)
    if (ending === 'gone') {
      await expect.poll(() => received.length, soon).toBeGreaterThan(2)
      await w.call(`DELETE /api/v1/webhooks/${webhook.id}`, { key: owner.key })
    }
    await expect.poll(() => handle.result().catch(() => undefined), soon).toBe(ending)
    await replay(await handle.fetchHistory())
    const shown = showWorkflow(w.temporal, `webhook:${id}`)
    for (const text of [webhook.path, 'content of the event', 'response of the receiver', 'whsec_'])
      expect(shown).not.toContain(text)
    if (ending === 'failed') expect(received.filter(({ path }) => path === webhook.path)).toHaveLength(8)
    record(w.temporal, `webhook:${id}`, `webhook-${ending}`)
  })
})

describeHistories(/^webhook-.*\.json$/, ['webhook-delivered', 'webhook-failed', 'webhook-gone', 'webhook-waited'])
