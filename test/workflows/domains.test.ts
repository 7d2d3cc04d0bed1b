import { randomBytes } from 'node:crypto'
import { Client, Connection } from '@temporalio/client'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { connectPeriodMs, domainProofPeriodMs, domainRecheckMs } from '../../core/limits.ts'
import { listStalledDomains, retryDomain } from '../../services/domains/connecting.ts'
import { transact } from '../../services/transact.ts'
import { registry } from '../../workflows/registry.ts'
import { startSchedules } from '../../workflows/schedules.ts'
import { makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { startZone, type Zone } from '../zone.ts'
import { describeHistories, record, replay } from './histories.ts'

const hourMs = 3_600_000
const soon = { interval: 30 }

let zone: Zone
let w: World
let owner: TestProject
let site: any
let temporal: Client
let connection: Connection
beforeAll(async () => {
  zone = await startZone()
  // so long a pause never ends here: whatever goes on was woken
  w = await world({ env: { PLINTH_DNS_SERVERS: zone.address, PLINTH_DNS_CHECK_INTERVAL: '1h' } })
  connection = await Connection.connect({ address: w.temporal.address })
  temporal = new Client({ connection, namespace: w.temporal.namespace })
})
afterAll(async () => {
  await connection?.close()
  await w?.[Symbol.asyncDispose]()
  await zone?.[Symbol.asyncDispose]()
})
beforeEach(async () => {
  // a project has so many look-ups within a pause
  owner = await w.project('enterprise')
  site = await makeSite(w, owner)
})

let advanced = 0
function advance(ms: number): void {
  advanced += ms
  w.advance(ms)
}
afterEach(() => {
  advance(-advanced)
  zone.misbehave(undefined)
})

async function added(at = w, project = owner, siteId = site.id): Promise<any> {
  const json = { domain: `d${randomBytes(5).toString('hex')}.example.com` }
  const { status, body } = await at.call(`POST /api/v1/sites/${siteId}/domains`, { key: project.key, json })
  if (status !== 200) throw new Error(JSON.stringify(body))
  return body
}
const rowOf = (id: string, at = w) => at.db.selectFrom('domains').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
const handleOf = (id: string, attempt = 1) => temporal.workflow.getHandle(`domain:${id}:${attempt}`)
const detailsOf = async (id: string, attempt = 1) =>
  await handleOf(id, attempt)
    .query<string>('__temporal_workflow_metadata')
    .then(
      (metadata: any) => metadata.currentDetails as string,
      () => '',
    )
/** Resolves when the workflow has looked at the row and rests. */
const resting = (id: string, text: string, attempt = 1) => expect.poll(() => detailsOf(id, attempt), soon).toContain(text)
const wake = (id: string, attempt = 1) => handleOf(id, attempt).signal('changed')
const prove = ({ txt }: any) => zone.set('TXT', txt.name, txt.value)
const verify = async (id: string) => (await w.call(`POST /api/v1/domains/${id}/verify`, { key: owner.key })).body
const mailsAbout = async (domain: string, at = w) => {
  const mails = await at.db.selectFrom('mails').select('subject').where('subject', 'like', `%${domain}%`).orderBy('id').execute()
  return mails.map(({ subject }) => subject.replace(domain, '…'))
}

/** The workflow is started after the answer of the api. */
async function resultOf(id: string, attempt = 1): Promise<unknown> {
  const handle = handleOf(id, attempt)
  const isThere = () => handle.describe().then(Boolean, () => false)
  await expect.poll(isThere, soon).toBe(true)
  return await handle.result()
}

async function ended(id: string, kind: string, attempt = 1): Promise<unknown> {
  const handle = handleOf(id, attempt)
  const outcome = await resultOf(id, attempt)
  await replay(await handle.fetchHistory())
  record(w.temporal, handle.workflowId, `connect-domain-${kind}`)
  return outcome
}

async function pausesOf(at: World, id: string): Promise<number[]> {
  const own = await Connection.connect({ address: at.temporal.address })
  const { events } = await new Client({ connection: own, namespace: at.temporal.namespace }).workflow
    .getHandle(`domain:${id}:1`)
    .fetchHistory()
  await own.close()
  const timers = (events ?? []).flatMap((event) => event.timerStartedEventAttributes ?? [])
  return timers.map(({ startToFireTimeout: time }) => Number(time?.seconds ?? 0) * 1000 + (time?.nanos ?? 0) / 1_000_000)
}

describe('connectDomain', () => {
  test('N03: looks in growing pauses and verifies by itself when the record comes', async () => {
    await using quick = await world({ env: { PLINTH_DNS_SERVERS: zone.address, PLINTH_DNS_CHECK_INTERVAL: '100ms' } })
    const project = await quick.project('enterprise')
    const { id: siteId } = await makeSite(quick, project)
    const domain = await added(quick, project, siteId)
    const looks = () => zone.asked.filter((asked) => asked === `udp ${domain.txt.name}`).length
    await expect.poll(looks, soon).toBeGreaterThanOrEqual(4)
    const listed = async () => (await quick.call(`GET /api/v1/sites/${siteId}/domains`, { key: project.key })).body[0]
    const waiting = await listed()
    expect(waiting).toMatchObject({ verified: false, a_record: { ok: false } })
    expect(waiting.diagnostics[0]).toMatchObject({ check: 'txt', ok: false })
    prove(domain)
    await expect.poll(async () => (await listed()).verified, soon).toBe(true)
    await expect.poll(() => mailsAbout(domain.domain, quick), soon).toEqual(['… is live'])
    expect((await rowOf(domain.id, quick)).connected_at).not.toBeNull()
    expect((await pausesOf(quick, domain.id)).slice(0, 4)).toEqual([100, 100, 200, 400])
  })

  test('N03: is woken when the owner verifies by hand, tells the owner once, and ends', async () => {
    const domain = await added()
    await resting(domain.id, 'looks next at')
    prove(domain)
    expect((await verify(domain.id)).verified).toBe(true)
    expect(await ended(domain.id, 'by-hand')).toBe('live')
    expect(await mailsAbout(domain.domain)).toEqual(['… is live'])
    expect(await detailsOf(domain.id)).toContain('✅ live')
    const { memo, typedSearchAttributes } = await handleOf(domain.id).describe()
    expect(memo).toEqual({ outcome: '✅ live' })
    expect(JSON.stringify(typedSearchAttributes)).toContain(domain.domain)
    const history = JSON.stringify(await handleOf(domain.id).fetchHistory())
    for (const secret of [domain.verification_token, 'owner@example.com']) expect(history).not.toContain(secret)
  })

  test('N03: finds the record when it is woken, and tells operators what is missing before', async () => {
    const domain = await added()
    await resting(domain.id, 'looks next at')
    zone.set('TXT', domain.txt.name, 'another value')
    await wake(domain.id)
    await resting(domain.id, 'has another value')
    prove(domain)
    await wake(domain.id)
    expect(await ended(domain.id, 'by-itself')).toBe('live')
    expect(await rowOf(domain.id)).toMatchObject({
      verified_at: expect.any(Date),
      proven_at: expect.any(Date),
      missing_since: null,
    })
  })

  test('E14: gives up after 30 days with a mail; a proof by hand begins anew', async () => {
    const domain = await added()
    await resting(domain.id, 'looks next at')
    advance(connectPeriodMs - hourMs)
    await wake(domain.id)
    await resting(domain.id, 'there is no TXT record')
    expect(await mailsAbout(domain.domain)).toEqual([])
    advance(2 * hourMs)
    await wake(domain.id)
    expect(await ended(domain.id, 'given-up')).toBe('given_up')
    expect(await mailsAbout(domain.domain)).toEqual(['… could not be verified'])
    expect((await rowOf(domain.id)).next_check_at).toBeNull()
    prove(domain)
    expect((await verify(domain.id)).verified).toBe(true)
    expect(await ended(domain.id, 'by-hand-after-giving-up', 2)).toBe('live')
    expect(await mailsAbout(domain.domain)).toEqual(['… could not be verified', '… is live'])
  })

  test('E14: ends when the domain is removed or given to another', async () => {
    const domain = await added()
    await resting(domain.id, 'looks next at')
    await w.call(`DELETE /api/v1/domains/${domain.id}`, { key: owner.key })
    expect(await ended(domain.id, 'removed')).toBe('stale')
    const retried = await added()
    await resting(retried.id, 'looks next at')
    await w.db.updateTable('domains').set({ attempt: 2 }).where('id', '=', retried.id).execute()
    await wake(retried.id)
    expect(await resultOf(retried.id)).toBe('stale')
    expect(await mailsAbout(retried.domain)).toEqual([])
  })

  test('E12: waits while the site is in the trash, whatever the DNS says', async () => {
    const domain = await added()
    await resting(domain.id, 'looks next at')
    prove(domain)
    await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
    await wake(domain.id)
    await resting(domain.id, 'the site is in the trash')
    expect((await rowOf(domain.id)).verified_at).toBeNull()
    await w.call(`POST /api/v1/sites/${site.id}/restore`, { key: owner.key })
    await wake(domain.id)
    expect(await ended(domain.id, 'out-of-the-trash')).toBe('live')
  })
})

test('a domain whose workflow is lost is found by its row, and one that has ended is not', async () => {
  const [lost, live, gone] = [await added(), await added(), await added()]
  prove(live)
  await verify(live.id)
  await resultOf(live.id)
  await w.db.updateTable('domains').set({ next_check_at: null }).where('id', '=', gone.id).execute()
  const stalled = async (ms: number) =>
    (await listStalledDomains(w.db, new Date(Date.now() + ms), { limit: 1000 })).map(({ domain_id }) => domain_id)
  expect(await stalled(0)).not.toContain(lost.id)
  const found = await stalled(2 * hourMs)
  expect([lost, live, gone].map(({ id }) => found.includes(id))).toEqual([true, false, false])
  const retry = (attempt: number) => transact(w, (tx) => retryDomain(tx, { domain_id: lost.id, attempt }, new Date()))
  expect([await retry(1), await retry(1), await retry(2)]).toEqual([true, false, true])
  // verified, but the owner was not notified yet
  await w.db.updateTable('domains').set({ connected_at: null }).where('id', '=', live.id).execute()
  expect(await stalled(hourMs)).toContain(live.id)
})

describe('recheckDomains', () => {
  let runs = 0
  async function recheck(): Promise<string> {
    runs += 1
    const options = { workflowId: `${registry.recheckDomains.schedule.workflow_id}-${runs}`, taskQueue: 'control' }
    return await temporal.workflow.execute('recheckDomains', options)
  }
  const version = async () =>
    (await w.db.selectFrom('sites').select('version').where('id', '=', site.id).executeTakeFirstOrThrow()).version
  async function live(): Promise<any> {
    // those of other tests are of no interest here
    await w.db.updateTable('domains').set({ next_check_at: null }).execute()
    const domain = await added()
    prove(domain)
    expect((await verify(domain.id)).verified).toBe(true)
    expect(await resultOf(domain.id)).toBe('live')
    return domain
  }

  test('E14: looks once a day, and what is there stays verified', async () => {
    const domain = await live()
    const before = await rowOf(domain.id)
    expect(await recheck()).toContain('0 proven')
    advance(domainRecheckMs + 2 * hourMs)
    expect(await recheck()).toBe('1 proven, 0 without a TXT record, 0 not verified any more, 0 without an answer')
    const after = await rowOf(domain.id)
    expect((after.proven_at?.getTime() ?? 0) - (before.proven_at?.getTime() ?? 0)).toBeGreaterThan(domainRecheckMs)
    const pauseMs = (after.next_check_at?.getTime() ?? 0) - (after.proven_at?.getTime() ?? 0)
    expect(Math.abs(pauseMs - domainRecheckMs)).toBeLessThanOrEqual(hourMs)
    expect(after.verified_at).toEqual(before.verified_at)
    expect(await recheck()).toContain('0 proven')
  })

  test('E14: warns when the TXT record is gone, ends the verification after 7 days, and verifies again when it is back', async () => {
    const domain = await live()
    zone.set('TXT', domain.txt.name)
    advance(domainRecheckMs + 2 * hourMs)
    expect(await recheck()).toContain('1 without a TXT record')
    for (let day = 2; day < 7; day++) {
      advance(domainRecheckMs)
      await recheck()
    }
    expect((await rowOf(domain.id)).verified_at).not.toBeNull()
    expect(await mailsAbout(domain.domain)).toEqual(['… is live', 'The proof for … is gone'])
    const before = await version()
    advance(domainProofPeriodMs - 5 * domainRecheckMs)
    expect(await recheck()).toContain('1 not verified any more')
    expect(await rowOf(domain.id)).toMatchObject({ verified_at: null, attempt: 2, connected_at: null })
    expect(await version()).toBeGreaterThan(before)
    expect((await mailsAbout(domain.domain)).at(-1)).toBe('… does not show your site any more')
    await resting(domain.id, 'looks next at', 2)
    prove(domain)
    await wake(domain.id, 2)
    expect(await resultOf(domain.id, 2)).toBe('live')
    expect((await rowOf(domain.id)).verified_at).not.toBeNull()
  })

  test('E14: a record that is back in time is forgiven', async () => {
    const domain = await live()
    zone.set('TXT', domain.txt.name)
    advance(domainRecheckMs + 2 * hourMs)
    await recheck()
    expect((await rowOf(domain.id)).missing_since).not.toBeNull()
    prove(domain)
    advance(domainRecheckMs + 2 * hourMs)
    expect(await recheck()).toContain('1 proven')
    expect((await rowOf(domain.id)).missing_since).toBeNull()
    zone.set('TXT', domain.txt.name)
    advance(domainRecheckMs + 2 * hourMs)
    await recheck()
    expect(await mailsAbout(domain.domain)).toEqual(['… is live', 'The proof for … is gone', 'The proof for … is gone'])
  })

  test('E14: name servers that do not answer end nothing, and are asked again an hour later', async () => {
    const domain = await live()
    zone.misbehave((query) => Buffer.concat([query.bytes.subarray(0, 2), randomBytes(40)]))
    advance(domainProofPeriodMs + domainRecheckMs)
    expect(await recheck()).toContain('1 without an answer')
    const row = await rowOf(domain.id)
    expect([row.verified_at === null, row.missing_since]).toEqual([false, null])
    expect((row.next_check_at?.getTime() ?? 0) - Date.now() - advanced).toBeLessThanOrEqual(hourMs)
    // the owner is warned before the end, however long nobody could look
    zone.misbehave(undefined)
    zone.set('TXT', domain.txt.name)
    advance(2 * hourMs)
    expect(await recheck()).toContain('1 without a TXT record')
    expect((await rowOf(domain.id)).verified_at).not.toBeNull()
    advance(domainRecheckMs + 2 * hourMs)
    expect(await recheck()).toContain('1 not verified any more')
  })

  test('E12: domains of a site in the trash are left alone', async () => {
    const domain = await live()
    await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
    zone.set('TXT', domain.txt.name)
    advance(domainRecheckMs + 2 * hourMs)
    expect(await recheck()).toContain('0 proven, 0 without a TXT record')
    expect((await rowOf(domain.id)).missing_since).toBeNull()
  })

  test('many domains are looked at, each once', async () => {
    await live()
    const many = await Promise.all(Array.from({ length: 25 }, () => added()))
    const past = new Date(Date.now() - hourMs)
    await w.db
      .updateTable('domains')
      .set({ verified_at: past, proven_at: past, connected_at: past, next_check_at: past })
      .where(
        'id',
        'in',
        many.map(({ id }) => id),
      )
      .execute()
    many.forEach(prove)
    const before = zone.asked.length
    expect(await recheck()).toContain('25 proven')
    const asked = zone.asked.slice(before)
    expect(many.map(({ txt }) => asked.filter((one) => one === `udp ${txt.name}`).length)).toEqual(Array(25).fill(1))
  })

  test('tells operators what it found, and its history replays', async () => {
    const text = await recheck()
    const handle = temporal.workflow.getHandle(`${registry.recheckDomains.schedule.workflow_id}-${runs}`)
    expect((await handle.describe()).memo).toEqual({ outcome: text })
    await replay(await handle.fetchHistory())
    record(w.temporal, handle.workflowId, 'recheck-domains')
  })

  test('is started every hour by a schedule', async () => {
    await using _schedules = startSchedules(w.temporal, pino({ level: 'silent' }))
    const handle = temporal.schedule.getHandle(registry.recheckDomains.schedule.schedule_id)
    const describeIt = () => handle.describe().catch(() => undefined)
    await expect.poll(describeIt, soon).toMatchObject({
      spec: { intervals: [{ every: hourMs }] },
      policies: { overlap: 'SKIP' },
    })
    await handle.trigger()
    const started = async () => (await handle.describe()).info.recentActions.map(({ action }) => action.workflow.workflowId)
    await expect.poll(started, soon).toHaveLength(1)
    const [workflowId = ''] = await started()
    expect(await temporal.workflow.getHandle(workflowId).result()).toContain('proven')
  })
})

describe('with a certificate authority', () => {
  let ca: World
  let client: Client
  let own: Connection
  let project: TestProject
  let siteId: string
  beforeAll(async () => {
    ca = await world({
      env: {
        PLINTH_DNS_SERVERS: zone.address,
        PLINTH_DNS_CHECK_INTERVAL: '10s',
        // nobody answers there; before it is asked, a name has to lead here
        PLINTH_ACME_DIRECTORY: 'https://127.0.0.1:9/directory',
        PLINTH_ACME_RETRY_PAUSE: '1h',
      },
    })
    own = await Connection.connect({ address: ca.temporal.address })
    client = new Client({ connection: own, namespace: ca.temporal.namespace })
    project = await ca.project('enterprise')
    siteId = (await makeSite(ca, project)).id
  })
  afterAll(async () => {
    await own?.close()
    await ca?.[Symbol.asyncDispose]()
  })

  const call = async (endpoint: string) => (await ca.call(endpoint, { key: project.key })).body
  const listed = async (id: string) => (await call(`GET /api/v1/sites/${siteId}/domains`)).find((one: any) => one.id === id)
  const orderOf = (id: string) =>
    ca.db.selectFrom('certificates').selectAll().where('domain_id', '=', id).executeTakeFirstOrThrow()
  const workflow = (id: string) => client.workflow.getHandle(id)

  /** A verified domain whose order waits for its next try. */
  async function ordered(): Promise<any> {
    const domain = await added(ca, project, siteId)
    prove(domain)
    expect((await call(`POST /api/v1/domains/${domain.id}/verify`)).verified).toBe(true)
    await expect.poll(async () => (await listed(domain.id)).certificate.status, soon).toBe('error')
    return domain
  }

  /** Ends the order in the way that the row tells. */
  async function endOrder(id: string, row: { certificate?: string; error?: string | null }): Promise<void> {
    const { order_id } = await orderOf(id)
    await ca.db
      .updateTable('certificates')
      .set({ ...row, order_id: null, next_try_at: null })
      .where('domain_id', '=', id)
      .execute()
    await workflow(`certificate:${order_id}`).signal('changed')
  }

  async function outcomeOf(id: string, kind: string): Promise<unknown> {
    const handle = workflow(`domain:${id}:1`)
    const outcome = await handle.result()
    await replay(await handle.fetchHistory())
    record(ca.temporal, handle.workflowId, `connect-domain-${kind}`)
    return outcome
  }

  test('N06: a verified domain has a certificate ordered, and the owner is notified when it is there', async () => {
    const domain = await ordered()
    const { certificate } = await listed(domain.id)
    expect(certificate).toEqual({
      status: 'error',
      expires_at: null,
      error: expect.stringContaining(domain.domain),
      next_try_at: expect.any(String),
    })
    expect(await mailsAbout(domain.domain, ca)).toEqual([])
    expect((await rowOf(domain.id, ca)).connected_at).toBeNull()
    await endOrder(domain.id, { certificate: 'chain', error: null })
    expect(await outcomeOf(domain.id, 'certified')).toBe('live')
    expect(await mailsAbout(domain.domain, ca)).toEqual(['… is live'])
    const { text } = await ca.db
      .selectFrom('mails')
      .select('text')
      .where('subject', 'like', `${domain.domain}%`)
      .executeTakeFirstOrThrow()
    expect(text).toContain(`https://${domain.domain}:${ca.config.http.httpsPort}`)
    expect((await listed(domain.id)).certificate).toMatchObject({ status: 'issued', error: null })
  })

  test('N06: the owner learns why there is no certificate, and verifying again orders another', async () => {
    const domain = await ordered()
    await endOrder(domain.id, { error: 'CAA forbids it' })
    expect(await outcomeOf(domain.id, 'without-certificate')).toBe('without_certificate')
    expect(await mailsAbout(domain.domain, ca)).toEqual(['… has no certificate yet'])
    expect((await listed(domain.id)).certificate).toMatchObject({ status: 'error', error: 'CAA forbids it' })
    ca.advance(10_000)
    await call(`POST /api/v1/domains/${domain.id}/verify`)
    const order = async () => (await orderOf(domain.id)).order_id
    await expect.poll(order, soon).not.toBeNull()
    expect((await rowOf(domain.id, ca)).attempt).toBe(2)
  })

  test('N08: deleting the domain ends its order, and its certificate is gone', async () => {
    const domain = await ordered()
    const { order_id } = await orderOf(domain.id)
    expect(await call(`DELETE /api/v1/domains/${domain.id}`)).toEqual({ ok: true })
    expect(await workflow(`certificate:${order_id}`).result()).toEqual({ outcome: 'stale' })
    expect(await outcomeOf(domain.id, 'removed-while-ordered')).toBe('stale')
    const left = await ca.db.selectFrom('certificates').select('id').where('name', '=', domain.domain).execute()
    expect(left).toEqual([])
  })
})

const certified = ['certified', 'removed-while-ordered', 'without-certificate']
const historyKinds = [...certified, 'by-hand', 'by-hand-after-giving-up', 'by-itself', 'given-up', 'out-of-the-trash', 'removed']
describeHistories(/^(connect|recheck)-domains?.*\.json$/, [
  ...historyKinds.map((kind) => `connect-domain-${kind}`),
  'recheck-domains',
])
