import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { listDueDigests, sendDigest } from '../../services/forms/digests.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import type { World } from '../world.ts'
import { type EmailedSites, openEmailedSites, soon } from './emailed-sites.ts'
import { openProcesses } from './processes.ts'

let sites: EmailedSites
let w: World
beforeAll(async () => {
  sites = await openEmailedSites()
  w = sites.w
})
afterAll(() => sites?.[Symbol.asyncDispose]())
beforeEach(() => {
  sites.server.state.mood = 'takes'
  sites.server.state.tries = 0
})

describe('checks 39: emails about submissions', () => {
  test.each(['puts off', 'hangs'] as const)(
    'come once from a mail server that %s for a while; the form answers 200',
    async (mood) => {
      sites.server.state.mood = mood
      const site = await sites.makeSite()
      expect((await site.post({ message: 'one' })).status).toBe(200)
      await expect.poll(() => sites.server.state.tries, soon).toBeGreaterThan(0)
      expect(sites.receivedBy(site)).toEqual([])
      sites.server.state.mood = 'takes'
      await expect.poll(() => sites.receivedBy(site).length, { timeout: 100_000, interval: 200 }).toBe(1)
    },
    180_000,
  )

  test("are not tried again when the owner's address is refused for good; the form answers 200", async () => {
    sites.server.state.mood = 'refuses'
    const site = await sites.makeSite()
    expect((await site.post({ message: 'one' })).status).toBe(200)
    const outcome = () => w.db.selectFrom('mails').select('outcome').where('project_id', '=', site.owner.id).executeTakeFirst()
    await expect.poll(outcome, soon).toEqual({ outcome: 'failed' })
    expect(sites.server.state.tries).toBe(1)
  })

  test('whose workflow Temporal has lost are written after all, once', async () => {
    const site = await sites.makeSite()
    await sites.beginGathering(site)
    await site.post({ message: 'two' })
    const id = `form-digest:${site.id}:${(await sites.stateOf(site)).digest_no}`
    await sites.temporal.workflow.getHandle(id).terminate()
    await sites.makeDue(site)
    const due = await listDueDigests(w.db, new Date(Date.now() + 1000), { limit: 10 })
    expect(due.map(({ site_id }) => site_id)).toContain(site.id)
    const options = { stalledAfterMs: 0, dueWithinMs: 1000, checkIntervalMs: 1000, retryPauseMs: 60_000 }
    expect(await reconcile(w, w.workflows, new Date(), options)).toContain(id)
    await sites.wake(id)
    await expect.poll(() => sites.subjectsOf(site).length, soon).toBe(2)
    expect(sites.receivedBy(site)[1]?.text).toContain('two')
  })

  test('hold a submission whose post is under way when the gathering of submissions would end', async () => {
    const site = await sites.makeSite()
    await sites.beginGathering(site)
    const { digest_no } = await sites.stateOf(site)
    await sites.makeDue(site)
    const digest = { site_id: site.id, digest_no, due_at: new Date().toISOString() }
    const [written, posted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const post = w.db.transaction().execute(async (tx) => {
      await sql`
        insert into form_submissions (project_id, site_id, status, charged, data, created_at, email_pending)
        values (${site.owner.id}, ${site.id}, 'verified', true, '{"message":"late"}', now(), true)`.execute(tx)
      await tx.updateTable('site_forms').set({ verified: 2 }).where('site_id', '=', site.id).execute()
      written.resolve()
      await posted.promise
    })
    await Promise.race([written.promise, post])
    const isBlocked = async () => {
      const { rows } = await sql`select from pg_locks where not granted and database = (
        select oid from pg_database where datname = current_database()) or not granted and locktype = 'transactionid'`.execute(
        w.db,
      )
      return rows.length > 0
    }
    const sent = sendDigest(w, digest)
    await expect.poll(isBlocked, soon).toBe(true)
    posted.resolve()
    await post
    expect(await sent).toEqual({ kind: 'sent', count: 1 })
  })
})

test('checks 39: kill -9 of the worker loses no submission and puts none into two emails', async () => {
  await using killed = await openEmailedSites({ worker: false, env: { PLINTH_FORM_DIGEST_PAUSE: '2s' } })
  await using processes = openProcesses(killed.w)
  const site = await killed.makeSite()
  processes.start('worker')
  const kills = 3
  for (let i = 0; i < 4 * (kills + 1); i++) {
    expect((await site.post({ message: `number ${i}` })).status).toBe(200)
    if (i % 4 === 3 && i < 4 * kills) {
      // whatever it is doing
      await new Promise((resolve) => setTimeout(resolve, 1000 + 700 * i))
      await processes.restart('worker')
    }
  }
  const outcomes = async () => {
    const mails = await killed.w.db.selectFrom('mails').selectAll().where('project_id', '=', site.owner.id).execute()
    const count = mails.reduce((sum, { subject }) => sum + (Number.parseInt(subject, 10) || 1), 0)
    return { count, waiting: mails.filter(({ outcome }) => outcome !== 'sent').length }
  }
  await expect.poll(outcomes, { timeout: 250_000, interval: 500 }).toEqual({ count: 4 * (kills + 1), waiting: 0 })
  const ids = killed.receivedBy(site).map(({ messageId }) => messageId)
  // one more only when the mail server had taken it and the worker had not yet stored that
  expect(ids.length - new Set(ids).size).toBeLessThanOrEqual(kills)
}, 300_000)
