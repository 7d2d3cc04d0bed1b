import { randomUUID } from 'node:crypto'
import type { Client } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxFormEmailsPerHour } from '../../core/form-emails.ts'
import { findFormSite } from '../../services/forms/form-site.ts'
import { hasFollowUps } from '../../services/forms/received.ts'
import { makeFormSite } from '../api/form-site.ts'
import type { World } from '../world.ts'
import { type EmailedSites, openEmailedSites, soon } from './emailed-sites.ts'
import { describeHistories, record, replay } from './histories.ts'
import { showWorkflow } from './temporal-client.ts'

let sites: EmailedSites
let w: World
let temporal: Client
beforeAll(async () => {
  sites = await openEmailedSites()
  w = sites.w
  temporal = sites.temporal
})
afterAll(() => sites?.[Symbol.asyncDispose]())

describe('W02: with notify_email', () => {
  test('a submission is mailed to the owner at once, as text that the visitor cannot turn into anything else', async () => {
    const site = await sites.makeSite()
    const message = '<script>alert(1)</script>\r\nBcc: b@example.com'
    expect((await site.post({ email: 'ann@visitor.example', 'na\r\nme': 'x', message })).status).toBe(200)
    await expect.poll(() => sites.receivedBy(site).length, soon).toBe(1)
    const [mail] = sites.receivedBy(site)
    expect(mail).toMatchObject({
      envelope: { to: [site.email] },
      to: [{ address: site.email }],
      replyTo: [{ address: 'ann@visitor.example' }],
      subject: 'A new form submission on A site',
    })
    expect([mail?.bcc, mail?.cc]).toEqual([undefined, undefined])
    expect(mail?.headers).toContainEqual(expect.objectContaining({ key: 'auto-submitted', value: 'auto-generated' }))
    expect(mail?.text).toContain('message:\n    <script>alert(1)</script>\n    Bcc: b[@]example[.]com\n')
    expect(mail?.text).toContain('na me:\n    x\n')
    expect(mail?.html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;')
    expect(mail?.html).not.toContain('<script')
    expect(await sites.notificationsOf(site.owner)).toMatchObject([
      { kind: 'form_submissions', title: 'A new form submission on A site', site_id: site.id },
    ])
  })

  test('the submissions of the next minutes come in one digest, and those after a quiet pause at once again', async () => {
    const site = await sites.makeSite()
    await sites.beginGathering(site)
    for (const message of ['two', 'three', 'four']) await site.post({ message })
    await sites.endPause(site)
    await expect.poll(() => sites.subjectsOf(site).slice(1), soon).toEqual(['3 new form submissions on A site'])
    const text = sites.receivedBy(site)[1]?.text ?? ''
    expect(['the first', 'two', 'three', 'four'].filter((message) => text.includes(message))).toEqual(['two', 'three', 'four'])
    await sites.endPause(site)
    expect((await sites.stateOf(site)).digest_at).toBeNull()
    await site.post({ message: 'five' })
    await expect.poll(() => sites.subjectsOf(site).slice(2), soon).toEqual(['A new form submission on A site'])
    expect((await sites.notificationsOf(site.owner)).map(({ title }) => title)).toEqual([
      'A new form submission on A site',
      '3 new form submissions on A site',
      'A new form submission on A site',
    ])
  })

  test('a post costs nothing more while an email waits that will hold it', async () => {
    const site = await sites.makeSite()
    const isFollowed = async () => {
      const found = await findFormSite(w.db, site.id)
      return found && hasFollowUps(found, w.clock())
    }
    expect(await isFollowed()).toBe(true)
    await sites.beginGathering(site)
    expect(await isFollowed()).toBe(false)
  })

  test('each of many submissions at once is in exactly one email', async () => {
    const site = await sites.makeSite()
    await Promise.all(Array.from({ length: 25 }, (_, i) => site.post({ message: `number ${i}` })))
    await expect.poll(() => sites.receivedBy(site).length, soon).toBe(1)
    await sites.endPause(site)
    if ((await sites.stateOf(site)).digest_at) await sites.endPause(site)
    await expect.poll(() => sites.countOf(site), soon).toBe(25)
    expect(sites.receivedBy(site).length).toBeLessThanOrEqual(2)
  })

  test('spam, a filled trap, a repeated post and what is hidden make no email', async () => {
    const site = await sites.makeSite('start')
    const _request_id = randomUUID()
    await site.post({ message: 'a bot', _hp_x: 'x' })
    await site.post({ message: 'too quick', _submit_time: Date.now() })
    for (let i = 0; i < 2; i++) await site.post({ message: 'one', _request_id })
    await expect.poll(() => sites.subjectsOf(site), soon).toEqual(['A new form submission on A site'])
    for (const message of ['two', 'three, which is hidden']) expect((await site.post({ message })).status).toBe(200)
    await sites.endPause(site)
    await expect.poll(() => sites.subjectsOf(site).length, soon).toBe(2)
    expect(sites.subjectsOf(site)[1]).toBe('A new form submission on A site')
    expect(sites.receivedBy(site)[1]?.text).toContain('two')
    expect(sites.receivedBy(site).some(({ text }) => text?.includes('hidden') || text?.includes('too quick'))).toBe(false)
  })

  test('a submission that was deleted or marked as spam while it waited is in no email', async () => {
    const site = await sites.makeSite()
    await sites.beginGathering(site)
    for (const message of ['deleted', 'spam', 'kept']) await site.post({ message })
    const { body } = await w.call(`GET /api/v1/forms/submissions?site=${site.id}`, { key: site.owner.key })
    const idOf = (message: string) => body.items.find((item: { data: { message: string } }) => item.data.message === message).id
    const path = '/api/v1/forms/submissions'
    await w.call(`DELETE ${path}/${idOf('deleted')}`, { key: site.owner.key })
    await w.call(`POST ${path}/${idOf('spam')}/status`, { key: site.owner.key, json: { status: 'spam' } })
    await sites.endPause(site)
    await expect.poll(() => sites.subjectsOf(site).slice(1), soon).toEqual(['A new form submission on A site'])
    expect(sites.receivedBy(site)[1]?.text).toContain('kept')
  })

  test('what waits when the owner turns emails off is not mailed', async () => {
    const site = await sites.makeSite()
    await sites.beginGathering(site)
    await site.post({ message: 'two' })
    await sites.setEmails(site, false)
    await sites.endPause(site)
    expect(sites.subjectsOf(site)).toHaveLength(1)
  })

  test('the first hour of a project holds 60 emails about forms; what comes over this is mailed later', async () => {
    const site = await sites.makeSite()
    const taken_at = Array.from({ length: maxFormEmailsPerHour }, () => w.clock())
    await w.db.insertInto('allowances').values({ project_id: site.owner.id, kind: 'form_emails', taken_at }).execute()
    await site.post({ message: 'one' })
    const first = `form-digest:${site.id}:1`
    await expect
      .poll(
        () =>
          temporal.workflow
            .getHandle(first)
            .result()
            .catch(() => ''),
        soon,
      )
      .toBe('postponed')
    record(w.temporal, first, 'form-digest-postponed')
    expect((await sites.stateOf(site)).digest_at?.getTime()).toBeGreaterThan(w.clock().getTime() + 3_000_000)
    await w.db.deleteFrom('allowances').where('project_id', '=', site.owner.id).execute()
    await sites.endPause(site)
    await expect.poll(() => sites.subjectsOf(site), soon).toEqual(['A new form submission on A site'])
  })
})

describe('without notify_email', () => {
  test('a site makes one notification an hour and no email', async () => {
    const owner = await w.project('pro')
    const site = await makeFormSite(w, owner)
    for (const message of ['one', 'two', 'three']) await site.post({ message })
    const title = 'A new form submission on A site'
    expect(await sites.notificationsOf(owner)).toMatchObject([{ kind: 'form_submissions', title }])
    const hourAgo = new Date(w.clock().getTime() - 3_600_000)
    await w.db.updateTable('site_forms').set({ notified_at: hourAgo }).where('site_id', '=', site.id).execute()
    await site.post({ message: 'four' })
    expect((await sites.notificationsOf(owner)).map((one) => one.title)).toEqual([title, title])
    expect(await w.db.selectFrom('mails').select('id').where('project_id', '=', owner.id).execute()).toEqual([])
  })
})

describe('the workflow', () => {
  test('replays, and shows Temporal neither the owner nor what visitors wrote', async () => {
    const site = await sites.makeSite()
    await site.post({ email: 'ann@visitor.example', message: 'between us' })
    await expect.poll(() => sites.receivedBy(site).length, soon).toBe(1)
    const sent = `form-digest:${site.id}:1`
    const nothing = await sites.endPause(site)
    for (const [id, name, memo] of [
      [sent, 'form-digest-sent', '✅ an email about 1 submission'],
      [nothing, 'form-digest-nothing', '➖ no submissions'],
    ] as const) {
      const handle = temporal.workflow.getHandle(id)
      expect((await handle.describe()).memo).toEqual({ outcome: memo })
      await replay(await handle.fetchHistory())
      const shown = showWorkflow(w.temporal, id)
      for (const secret of ['example.com', 'visitor.example', 'between us']) expect(shown).not.toContain(secret)
      record(w.temporal, id, name)
    }
  })
})

describeHistories(
  /^form-digest-.*\.json$/,
  ['sent', 'nothing', 'postponed'].map((ending) => `form-digest-${ending}`),
)
