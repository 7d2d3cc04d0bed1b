import { afterAll, beforeAll, expect, test } from 'vitest'
import { triesBeforeNotice } from '../../core/certificates.ts'
import { webhookEvents } from '../../core/webhooks.ts'
import { beginOrder } from '../../services/certificates/certificates.ts'
import { giveUpOrder, postponeOrder } from '../../services/certificates/failures.ts'
import { settleDomain } from '../../services/domains/connect.ts'
import { transact } from '../../services/transact.ts'
import { makeSite, randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

// Notifications and webhook events about the domains of a project.

let w: World
beforeAll(async () => {
  w = await world({ worker: false })
})
afterAll(() => w[Symbol.asyncDispose]())

/** A project with a webhook for every event, and a domain whose ownership is proved. */
async function verifiedDomain() {
  const owner = await w.project()
  const { key } = owner
  const site = await makeSite(w, owner)
  const domain = `${randomName()}.example.com`
  await w.call('POST /api/v1/webhooks', { key, json: { url: 'https://hooks.example.com/', events: [...webhookEvents] } })
  const { body } = await w.call(`POST /api/v1/sites/${site.id}/domains`, { key, json: { domain } })
  await w.db.updateTable('domains').set({ verified_at: w.clock(), proven_at: w.clock() }).where('id', '=', body.id).execute()
  return { owner, site_id: site.id as string, domain_id: body.id as string, domain }
}

const eventsOf = ({ id }: TestProject) =>
  w.db.selectFrom('webhook_events').select(['type', 'data']).where('project_id', '=', id).orderBy('id').execute()
const notificationsOf = async ({ key }: TestProject) =>
  (await w.call('GET /api/v1/notifications', { key })).body.notifications.map(({ kind, title, site_id }: any) => ({
    kind,
    title,
    site_id,
  }))

test('E33: a domain that goes live is announced once', async () => {
  const { owner, site_id, domain_id, domain } = await verifiedDomain()
  for (let i = 0; i < 2; i++) expect(await settleDomain(w, { domain_id, attempt: 1 })).toBe('live')
  expect(await eventsOf(owner)).toEqual([{ type: 'domain.live', data: { site_id, domain_id, domain } }])
  expect(await notificationsOf(owner)).toEqual([{ kind: 'domain_live', title: `${domain} is live`, site_id }])
})

test('E33: an order that keeps failing is announced once, at its third failure, and another order again', async () => {
  const { owner, site_id, domain_id, domain } = await verifiedDomain()
  const begin = () => transact(w, (tx) => beginOrder(tx, { domain_id, name: domain }, w.clock()))
  const fail = async (run: Awaited<ReturnType<typeof begin>>, tries: number) =>
    await postponeOrder(w, run, { error: 'no A record', tries, next_try_at: w.clock() })
  const first = await begin()
  for (let tries = 1; tries < triesBeforeNotice; tries++) await fail(first, tries)
  expect(await eventsOf(owner)).toEqual([])
  // the activity may be repeated
  for (const tries of [triesBeforeNotice, triesBeforeNotice, triesBeforeNotice + 1]) await fail(first, tries)
  const failing = { type: 'certificate.failing', data: { site_id, domain_id, domain, error: 'no A record', not_after: null } }
  expect(await eventsOf(owner)).toEqual([failing])
  const notice = { kind: 'certificate_failing', title: `${domain} gets no certificate`, site_id }
  expect(await notificationsOf(owner)).toEqual([notice])
  await giveUpOrder(w, first, { renew_at: w.clock(), error: 'no A record' })
  expect(await fail(first, 5)).toBe(false)
  expect(await eventsOf(owner)).toHaveLength(1)
  const second = await begin()
  for (let i = 0; i < 2; i++) await giveUpOrder(w, second, { renew_at: w.clock(), error: 'no A record' })
  expect(await eventsOf(owner)).toEqual([failing, failing])
})

test('an order that keeps failing while a certificate is in use is mailed to the owner once', async () => {
  const { owner, domain_id, domain } = await verifiedDomain()
  const run = await transact(w, (tx) => beginOrder(tx, { domain_id, name: domain }, w.clock()))
  const not_after = new Date('2030-01-02T03:04:00Z')
  await w.db.updateTable('certificates').set({ not_after }).where('domain_id', '=', domain_id).execute()
  for (let tries = 1; tries <= triesBeforeNotice + 1; tries++) {
    await postponeOrder(w, run, { error: 'no A record', tries, next_try_at: w.clock() })
  }
  const mails = await w.db.selectFrom('mails').select(['kind', 'subject', 'text']).where('project_id', '=', owner.id).execute()
  expect(mails).toEqual([
    {
      kind: 'certificate_failing',
      subject: `${domain} gets no new certificate`,
      text: expect.stringContaining('2 Jan 2030, 03:04 UTC'),
    },
  ])
  expect(await notificationsOf(owner)).toMatchObject([
    { kind: 'certificate_failing', title: `${domain} gets no new certificate` },
  ])
})

test('an order for a name of the platform notifies nobody', async () => {
  const run = await transact(w, (tx) => beginOrder(tx, { domain_id: null, name: 'platform.example' }, w.clock()))
  expect(await postponeOrder(w, run, { error: 'x', tries: 3, next_try_at: w.clock() })).toBe(true)
})
