import { randomBytes } from 'node:crypto'
import type { Client } from '@temporalio/client'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { describeCertificate } from '../../infra/acme/certificates.ts'
import { freePort } from '../../infra/local/ports.ts'
import { beginOrder, type OrderRun } from '../../services/certificates/certificates.ts'
import { startDueOrders } from '../../services/certificates/due-orders.ts'
import { transact } from '../../services/transact.ts'
import { startWorkflow } from '../../services/workflow-messages.ts'
import { type OrderInput, type OrderOutcome, orderRetrySignal, orderStart } from '../../workflows/contract/certificates.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import { registry } from '../../workflows/registry.ts'
import { startSchedules } from '../../workflows/schedules.ts'
import { type Fault, type Passed, type Pebble, startFaultProxy, startPebble } from '../infra/pebble.ts'
import { makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { startZone, type Zone } from '../zone.ts'
import { describeHistories, record, replay } from './histories.ts'
import { openTemporalClient } from './temporal-client.ts'

const soon = { interval: 30 }
const retryPauseMs = 200

/** A platform with a name server and an authority that misbehaves as the test wants; a second way to it is the one for rehearsals. */
async function openPlatform(stack: AsyncDisposableStack, pebbleEnv: Record<string, string> = {}) {
  const zone = stack.use(await startZone())
  const edgePort = await freePort()
  const pebble = stack.use(
    await startPebble({ dnsServer: zone.address, httpPort: edgePort, env: pebbleEnv, caaIdentities: ['ca.example'] }),
  )
  const authority = await openAuthority(stack, pebble)
  const env = {
    PLINTH_DNS_SERVERS: zone.address,
    PLINTH_HTTP_PORT: String(edgePort),
    PLINTH_BASE_URL: 'http://localhost:8080',
    PLINTH_ACME_DIRECTORY: authority.directoryUrl,
    PLINTH_ACME_CA_FILE: pebble.caFile,
    PLINTH_ACME_RETRY_PAUSE: `${retryPauseMs}ms`,
  }
  return { zone, pebble, authority, env, edgePort }
}

async function openAuthority(stack: AsyncDisposableStack, pebble: Pebble) {
  const state: { fault: Fault } = { fault: {} }
  const proxy = await startFaultProxy(stack, pebble, {
    instead: (request) => state.fault.instead?.(request),
    change: (request, body) => state.fault.change?.(request, body),
  })
  return {
    ...proxy,
    misbehave(fault: Fault): void {
      state.fault = fault
    },
  }
}

const isOrder = ({ path, body }: Passed) => path === '/order-plz' && body !== ''
const problem = (type: string, detail: string) => ({ type: `urn:ietf:params:acme:error:${type}`, detail })

type Platform = Awaited<ReturnType<typeof openPlatform>>

const stack = new AsyncDisposableStack()
let platform: Platform
let staging: Awaited<ReturnType<typeof openAuthority>>
let w: World
let owner: TestProject
let site: any
let temporal: Client
beforeAll(async () => {
  platform = await openPlatform(stack)
  staging = await openAuthority(stack, platform.pebble)
  const { env, edgePort } = platform
  w = stack.use(await world({ edge: true, edgePort, env: { ...env, PLINTH_ACME_STAGING_DIRECTORY: staging.directoryUrl } }))
  owner = await w.project('enterprise')
  site = await makeSite(w, owner)
  temporal = await openTemporalClient(w, stack)
})
afterAll(() => stack.disposeAsync())
afterEach(() => {
  platform.authority.misbehave({})
  staging.misbehave({})
  platform.authority.seen.length = staging.seen.length = 0
})

const randomDomain = () => `d${randomBytes(5).toString('hex')}.example.com`

/** A verified domain of the site; its address is ours unless another is given. */
async function addDomain(domain = randomDomain(), address = '127.0.0.1'): Promise<{ id: string; domain: string }> {
  platform.zone.set('A', domain, address)
  const now = new Date()
  const { id } = await w.db
    .insertInto('domains')
    .values({ domain, site_id: site.id, project_id: owner.id, verification_token: 'x', created_at: now, connecting_since: now })
    .returning('id')
    .executeTakeFirstOrThrow()
  await w.db.updateTable('domains').set({ verified_at: now }).where('id', '=', id).execute()
  await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json: { enabled: true } })
  return { id, domain }
}

async function order(domain: { id: string; domain: string }, more: Partial<OrderInput> = {}): Promise<OrderRun> {
  return await transact(w, async (tx) => {
    const run = await beginOrder(tx, { domain_id: domain.id, name: domain.domain }, new Date())
    const input = { ...run, name: domain.domain, retry_pause_ms: retryPauseMs, ...more }
    await startWorkflow(tx, orderStart(input, { project_id: owner.id, site_id: site.id }))
    return run
  })
}

const handleOf = ({ order_id }: OrderRun) => temporal.workflow.getHandle(`certificate:${order_id}`)
const rowOf = ({ certificate_id }: Pick<OrderRun, 'certificate_id'>) =>
  w.db.selectFrom('certificates').selectAll().where('id', '=', certificate_id).executeTakeFirst()

async function ended(run: OrderRun, kind?: string): Promise<OrderOutcome> {
  const handle = handleOf(run)
  await expect.poll(() => handle.describe().then(Boolean, () => false), soon).toBe(true)
  const outcome = (await handle.result()) as OrderOutcome
  const history = await handle.fetchHistory()
  await replay(history)
  expect(JSON.stringify(history)).not.toContain('PRIVATE KEY')
  if (kind) record(w.temporal, handle.workflowId, `issue-certificate-${kind}`)
  return outcome
}

const certificateOf = async (domain: string) => {
  const bundle = await w.certificateOf(domain)
  return bundle === undefined ? undefined : describeCertificate(bundle)
}
const issuedAt = (domain: string) => expect.poll(() => certificateOf(domain), soon).toMatchObject({ names: [domain] })

describe('issueCertificate', () => {
  test('N06: looks whether the proof would be found, orders, and the edge gives the certificate to handshakes', async () => {
    const domain = await addDomain()
    const run = await order(domain)
    const outcome = await ended(run, 'issued')
    const row = await rowOf(run)
    expect(outcome).toEqual({ outcome: 'issued', not_after: row?.not_after?.toISOString() })
    expect(row).toMatchObject({ order_id: null, issued_by: run.order_id, tries: 0, error: null, next_try_at: null, version: 2 })
    expect(row?.key_sealed).toMatch(/^v1\./)
    expect(row?.certificate).not.toContain('PRIVATE')
    const [from, to, renew] = [row?.not_before, row?.not_after, row?.renew_at].map((date) => date?.getTime() ?? 0) as [
      number,
      number,
      number,
    ]
    expect((renew - from) / (to - from)).toBeGreaterThan(0.6)
    expect((renew - from) / (to - from)).toBeLessThanOrEqual(2 / 3)
    await issuedAt(domain.domain)
    expect(staging.seen.filter(isOrder)).toEqual([])
    expect((await handleOf(run).describe()).memo).toEqual({ outcome: `✅ issued, good until ${row?.not_after?.toISOString()}` })
    const route = await w.db.selectFrom('sites').select('version').where('id', '=', site.id).executeTakeFirstOrThrow()
    expect(route.version).toBeGreaterThan(1)
  })

  test('a proof that would not be found is not asked for: the order waits and says why, and goes on when it is mended', async () => {
    const domain = await addDomain(undefined, '192.0.2.1')
    const run = await order(domain)
    await expect
      .poll(() => rowOf(run), soon)
      .toMatchObject({ tries: 1, error: expect.stringContaining('192.0.2.1'), order_id: run.order_id })
    // the row is written before the workflow goes on
    const query = () => handleOf(run).query<{ currentDetails?: string }>('__temporal_workflow_metadata')
    await expect.poll(async () => (await query()).currentDetails, soon).toMatch(/try 1: .*192\.0\.2\.1[\s\S]*tried again at 20/)
    expect(platform.authority.seen.filter(isOrder)).toEqual([])
    platform.zone.set('A', domain.domain, '127.0.0.1')
    expect(await ended(run, 'waited')).toMatchObject({ outcome: 'issued' })
  })

  test('a name that another server answers, one without an address and one that CAA forbids are told apart', async () => {
    const errorOf = async (domain: { id: string; domain: string }) => {
      const run = await order(domain)
      await expect.poll(async () => (await rowOf(run))?.error ?? null, soon).not.toBeNull()
      const error = (await rowOf(run))?.error
      await w.db.deleteFrom('domains').where('id', '=', domain.id).execute()
      expect(await ended(run)).toEqual({ outcome: 'stale' })
      return error
    }
    const bare = await addDomain()
    platform.zone.set('A', bare.domain)
    expect(await errorOf(bare)).toBe(
      `${bare.domain} has no A record that visitors can reach: add one that leads to this platform`,
    )
    const elsewhere = await addDomain(undefined, '127.0.0.9')
    expect(await errorOf(elsewhere)).toBe(
      `${elsewhere.domain} has no A record that visitors can reach: add one that leads to this platform`,
    )
    const forbidden = await addDomain()
    platform.zone.set('CAA', forbidden.domain, 'issue other.example')
    expect(await errorOf(forbidden)).toBe(
      'CAA records forbid the certificate: add one with the tag issue and the value ca.example',
    )
  })

  test('after three looks in vain the authority is asked all the same, first the one for rehearsals', async () => {
    const domain = await addDomain(undefined, '127.0.0.9')
    const run = await order(domain)
    await expect.poll(() => staging.seen.filter(isOrder).length, soon).toBe(1)
    await expect.poll(() => rowOf(run), soon).toMatchObject({ tries: 3, error: expect.stringContaining('could not check') })
    expect(platform.authority.seen.filter(isOrder)).toEqual([])
    platform.zone.set('A', domain.domain, '127.0.0.1')
    expect(await ended(run, 'asked-anyway')).toMatchObject({ outcome: 'issued' })
    expect(staging.seen.filter(isOrder).length).toBeGreaterThanOrEqual(2)
    expect(platform.authority.seen.filter(isOrder)).toHaveLength(1)
  })

  test('a refused order is rehearsed before the authority is asked again', async () => {
    let refusals = 0
    platform.authority.misbehave({
      instead: (request) =>
        isOrder(request) && refusals++ === 0 ? { status: 403, body: problem('rejectedIdentifier', 'not this one') } : undefined,
    })
    const domain = await addDomain()
    const run = await order(domain)
    expect(await ended(run)).toMatchObject({ outcome: 'issued' })
    expect([platform.authority, staging].map(({ seen }) => seen.filter(isOrder).length)).toEqual([2, 1])
  })

  test('an order that is refused to the end is given up with the reason, and begins anew a week later', async () => {
    const domain = await addDomain(`x${randomBytes(4).toString('hex')}.blocked.example`)
    const run = await order(domain, { give_up_after_ms: 1500 })
    const outcome = await ended(run, 'given-up')
    expect(outcome).toMatchObject({ outcome: 'given_up', error: expect.stringContaining('refused') })
    const row = await rowOf(run)
    expect(row).toMatchObject({ order_id: null, certificate: null, error: expect.stringContaining('refused') })
    const days = ((row?.renew_at?.getTime() ?? 0) - Date.now()) / 86_400_000
    expect(days).toBeGreaterThan(6.9)
    expect(days).toBeLessThan(7.1)
  })

  test('an operator or a change wakes an order that waits', async () => {
    const domain = await addDomain(undefined, '127.0.0.9')
    const run = await order(domain, { retry_pause_ms: 3_600_000 })
    await expect.poll(() => rowOf(run), soon).toMatchObject({ tries: 1 })
    platform.zone.set('A', domain.domain, '127.0.0.1')
    await handleOf(run).signal(orderRetrySignal(run).signal)
    expect(await ended(run, 'woken')).toMatchObject({ outcome: 'issued' })
  })

  test('an authority that does not work is asked again soon, with new nonces, and the row says so', async () => {
    const nonces: string[] = []
    let broken = true
    platform.authority.misbehave({
      instead: (request) => {
        if (!broken || !isOrder(request)) return undefined
        const { protected: header } = JSON.parse(request.body) as { protected: string }
        nonces.push((JSON.parse(Buffer.from(header, 'base64url').toString()) as { nonce: string }).nonce)
        return { status: 503 }
      },
    })
    const run = await order(await addDomain())
    await expect.poll(() => nonces.length, soon).toBeGreaterThanOrEqual(3)
    expect(new Set(nonces).size).toBe(nonces.length)
    expect(await rowOf(run)).toMatchObject({ tries: 0, error: expect.stringContaining('does not work at the moment') })
    broken = false
    expect(await ended(run)).toMatchObject({ outcome: 'issued' })
    expect(await rowOf(run)).toMatchObject({ error: null })
  })

  test('the wait that the authority asks for is honoured', async () => {
    const askedAt: number[] = []
    platform.authority.misbehave({
      instead: (request) => {
        if (!isOrder(request) || askedAt.push(Date.now()) > 1) return undefined
        return { status: 429, headers: { 'retry-after': '3' }, body: problem('rateLimited', 'too many') }
      },
    })
    const run = await order(await addDomain())
    expect(await ended(run)).toMatchObject({ outcome: 'issued' })
    const [first = 0, second = 0] = askedAt
    expect(second - first).toBeGreaterThanOrEqual(3000)
  })

  test('a name that is verified no more, or in the trash, is not ordered for; it is again when that has changed', async () => {
    const domain = await addDomain(undefined, '127.0.0.9')
    const run = await order(domain)
    await expect.poll(() => rowOf(run), soon).toMatchObject({ tries: 1 })
    await w.db.updateTable('domains').set({ verified_at: null }).where('id', '=', domain.id).execute()
    expect(await ended(run, 'stale')).toEqual({ outcome: 'stale' })
    expect(await rowOf(run)).toMatchObject({ order_id: null, renew_at: expect.any(Date) })
    expect(platform.authority.seen.filter(isOrder)).toEqual([])
  })

  test('an order under way is kept when it is begun a second time', async () => {
    const domain = await addDomain(undefined, '127.0.0.9')
    const run = await order(domain)
    expect(await order(domain)).toEqual(run)
    await w.db.deleteFrom('domains').where('id', '=', domain.id).execute()
    expect(await ended(run)).toEqual({ outcome: 'stale' })
  })
})

const depsOf = (at: World) => ({ ...at, relay: { wake: () => undefined }, log: pino({ level: 'silent' }) })

/** A verified domain of a new site, whose certificate is due. */
async function addDomainTo(at: World, zone: Zone): Promise<string> {
  const domain = randomDomain()
  zone.set('A', domain, '127.0.0.1')
  const project = await at.project('enterprise')
  await insertDue(at, project, (await makeSite(at, project)).id, [domain], new Date())
  return domain
}

async function insertDue(at: World, project: TestProject, site_id: string, names: readonly string[], renew_at: Date, more = {}) {
  const now = new Date()
  const ids = { site_id, project_id: project.id, verification_token: 'x' }
  const times = { created_at: now, connecting_since: now, verified_at: now }
  const domains = await at.db
    .insertInto('domains')
    .values(names.map((domain) => ({ ...ids, ...times, domain })))
    .returning(['id', 'domain'])
    .execute()
  await at.db
    .insertInto('certificates')
    .values(domains.map(({ id, domain }) => ({ domain_id: id, name: domain, renew_at, ...more })))
    .execute()
}

describe('a difficult authority', () => {
  test('an order that is stuck is given up in time, asked for anew, and ends well', async () => {
    await using own = new AsyncDisposableStack()
    const { zone, env, edgePort, authority } = await openPlatform(own)
    const other = own.use(await world({ edge: true, edgePort, env, orderPatienceMs: 3000 }))
    authority.misbehave({
      change: ({ path }, body) =>
        path.startsWith('/my-order/') ? body.replace(/"status": "(valid|processing)"/, '"status": "processing"') : undefined,
    })
    const domain = await addDomainTo(other, zone)
    await startDueOrders(depsOf(other), new Date())
    const row = () => other.db.selectFrom('certificates').selectAll().where('name', '=', domain).executeTakeFirst()
    await expect.poll(row, soon).toMatchObject({ error: expect.stringContaining('did not finish within 3 s'), tries: 0 })
    authority.misbehave({})
    await expect.poll(() => other.certificateOf(domain), soon).toContain('BEGIN CERTIFICATE')
    expect(authority.seen.filter(isOrder).length).toBeGreaterThanOrEqual(2)
  })

  test('N06: 15 % of good nonces refused and sleep before each check: all are issued within three tries', async () => {
    await using own = new AsyncDisposableStack()
    const { zone, env, edgePort } = await openPlatform(own, {
      PEBBLE_WFE_NONCEREJECT: '15',
      PEBBLE_VA_NOSLEEP: '0',
      PEBBLE_VA_SLEEPTIME: '3',
    })
    const other = own.use(await world({ edge: true, edgePort, env }))
    const names = []
    for (let i = 0; i < 8; i++) names.push(await addDomainTo(other, zone))
    const begun = await startDueOrders(depsOf(other), new Date())
    expect(begun).toBe(8)
    const certified = () =>
      other.db.selectFrom('certificates').select(['name', 'not_after', 'tries']).where('certificate', 'is not', null).execute()
    await expect.poll(async () => (await certified()).length, { timeout: 60_000, interval: 100 }).toBe(8)
    for (const name of names) await expect.poll(() => other.certificateOf(name), soon).toContain('BEGIN CERTIFICATE')
    const client = await openTemporalClient(other, own)
    const orders = await other.db.selectFrom('certificates').select('issued_by').execute()
    for (const { issued_by } of orders) {
      const { events } = await client.workflow.getHandle(`certificate:${issued_by}`).fetchHistory()
      const attempts = (events ?? []).map((event) => event.activityTaskStartedEventAttributes?.attempt ?? 0)
      expect(Math.max(...attempts)).toBeLessThanOrEqual(3)
    }
  }, 120_000)
})

describe('renewal', () => {
  const due = async (at: World, count: number) => {
    const project = await at.project('enterprise')
    const names = Array.from({ length: count }, randomDomain)
    const issued = { certificate: 'x', key_sealed: 'x', not_after: new Date() }
    await insertDue(at, project, (await makeSite(at, project)).id, names, new Date(), issued)
  }

  test('with the authority down past the time of renewal the old certificate is given, and the new one comes when it is back', async () => {
    const domain = await addDomain()
    const first = await order(domain)
    await ended(first)
    await issuedAt(domain.domain)
    const { serial } = (await certificateOf(domain.domain)) ?? { serial: '' }
    platform.authority.misbehave({ instead: () => ({ status: 502 }) })
    const past = new Date(Date.now() - 1000)
    await w.db
      .updateTable('certificates')
      .set({ renew_at: past, not_after: past })
      .where('id', '=', first.certificate_id)
      .execute()
    expect(
      await temporal.workflow.execute('renewCertificates', { taskQueue: 'control', workflowId: 'renew-certificates-1' }),
    ).toBe('began 1 order')
    record(w.temporal, 'renew-certificates-1', 'renew-certificates')
    await replay(await temporal.workflow.getHandle('renew-certificates-1').fetchHistory())
    await expect
      .poll(() => rowOf(first), soon)
      .toMatchObject({ error: expect.stringContaining('does not work'), order_id: expect.any(String) })
    expect(await certificateOf(domain.domain)).toMatchObject({ serial })
    platform.authority.misbehave({})
    await expect.poll(async () => (await certificateOf(domain.domain))?.serial, soon).not.toBe(serial)
    expect(await rowOf(first)).toMatchObject({ order_id: null, error: null, version: 3 })
  })

  test('five hundred certificates of one day are spread: ten at once, and never three hundred in three hours', async () => {
    await using own = new AsyncDisposableStack()
    const { env } = await openPlatform(own)
    const idle = own.use(await world({ worker: false, env }))
    await due(idle, 500)
    const deps = depsOf(idle)
    const startedAt = Date.now() + 1000
    const begunAt: number[] = []
    for (let minute = 0; begunAt.length < 500 && minute < 24 * 60; minute++) {
      const now = startedAt + minute * 60_000
      // those of the minute before have ended well
      await idle.db
        .updateTable('certificates')
        .set({ order_id: null, renew_at: new Date(now + 60 * 86_400_000) })
        .where('order_id', 'is not', null)
        .execute()
      const begun = await startDueOrders(deps, new Date(now))
      expect(begun).toBeLessThanOrEqual(10)
      begunAt.push(...Array.from({ length: begun }, () => now))
    }
    expect(begunAt).toHaveLength(500)
    const windows = begunAt.map((from) => begunAt.filter((at) => at >= from && at < from + 3 * 3_600_000).length)
    expect(Math.max(...windows)).toBeLessThan(300)
  })

  test('while ten orders are at their first try no other begins, and two processes do not begin more', async () => {
    await using own = new AsyncDisposableStack()
    const { env } = await openPlatform(own)
    const idle = own.use(await world({ worker: false, env }))
    await due(idle, 30)
    const deps = depsOf(idle)
    const now = new Date(Date.now() + 1000)
    const begun = await Promise.all(Array.from({ length: 5 }, () => startDueOrders(deps, now)))
    expect(begun.reduce((a, b) => a + b)).toBe(10)
    expect(await startDueOrders(deps, now)).toBe(0)
    // one that has failed, and all after an hour, leave their place
    const underWay = idle.db.selectFrom('certificates').select('id').where('order_id', 'is not', null).limit(1)
    await idle.db.updateTable('certificates').set({ tries: 1 }).where('id', '=', underWay).execute()
    expect(await startDueOrders(deps, now)).toBe(1)
    expect(await startDueOrders(deps, new Date(now.getTime() + 3_700_000))).toBe(10)
  })

  test('orders of a Temporal store that was lost go on when their time has come', async () => {
    await using own = new AsyncDisposableStack()
    const { zone, env, edgePort } = await openPlatform(own)
    const other = own.use(
      await world({ edge: true, edgePort, ownTemporal: true, env: { ...env, PLINTH_ACME_RETRY_PAUSE: '2s' } }),
    )
    const domain = await addDomainTo(other, zone)
    zone.set('A', domain, '127.0.0.9')
    await startDueOrders(depsOf(other), new Date())
    const row = () => other.db.selectFrom('certificates').selectAll().where('name', '=', domain).executeTakeFirstOrThrow()
    await expect.poll(row, soon).toMatchObject({ tries: 1 })
    await other.killTemporal()
    zone.set('A', domain, '127.0.0.1')
    await other.startTemporal({ forget: true })
    const pauses = { checkIntervalMs: 1000, retryPauseMs: 2000 }
    const { order_id } = await row()
    const restarted = () =>
      reconcile(other, other.workflows, new Date(), { stalledAfterMs: 0, dueWithinMs: 0, ...pauses }).catch(() => [])
    await expect.poll(restarted, soon).toEqual([`certificate:${order_id}`])
    await expect.poll(() => other.certificateOf(domain), soon).toContain('BEGIN CERTIFICATE')
  })

  test('N09: names of the platform are ordered as soon as an authority is set', async () => {
    await using own = new AsyncDisposableStack()
    const { env } = await openPlatform(own)
    const names = {
      PLINTH_BASE_URL: 'https://host.example',
      PLINTH_PREVIEW_URL: 'https://preview.example',
      PLINTH_PLATFORM_DOMAIN: 'sites.example',
    }
    const dns = { PLINTH_ACME_DNS_LISTEN: '127.0.0.1:5300', PLINTH_ACME_DNS_ZONE: 'acme.host.example' }
    const idle = own.use(await world({ worker: false, env: { ...env, ...names, ...dns } }))
    const deps = depsOf(idle)
    expect(await startDueOrders(deps, new Date())).toBe(4)
    const rows = await idle.db.selectFrom('certificates').select(['name', 'domain_id']).orderBy('name').execute()
    expect(rows.map(({ name }) => name).sort()).toEqual([
      '*.preview.example',
      '*.sites.example',
      'host.example',
      'preview.example',
    ])
    expect(await startDueOrders(deps, new Date())).toBe(0)
  })

  test('is looked for every five minutes by a schedule', async () => {
    await using _schedules = startSchedules(w.temporal, pino({ level: 'silent' }))
    const describeIt = () =>
      temporal.schedule
        .getHandle(registry.renewCertificates.schedule.schedule_id)
        .describe()
        .catch(() => undefined)
    await expect
      .poll(describeIt, soon)
      .toMatchObject({ spec: { intervals: [{ every: 300_000 }] }, policies: { overlap: 'SKIP' } })
  })
})

const historyKinds = ['asked-anyway', 'given-up', 'issued', 'stale', 'waited', 'woken']
describeHistories(/^(issue|renew)-certificates?.*\.json$/, [
  ...historyKinds.map((kind) => `issue-certificate-${kind}`),
  'renew-certificates',
])
