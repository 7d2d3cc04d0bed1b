import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxFormNotifications, maxNotifications, notificationPeriodMs } from '../../core/notifications.ts'
import { recordFailure } from '../../services/deploys/announcements.ts'
import { insertNotification } from '../../services/notifications/notifications.ts'
import { deleteExpired } from '../../services/removal/expired.ts'
import { transact } from '../../services/transact.ts'
import { archiveOf, deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

let w: World
beforeAll(async () => {
  w = await world({ fetcher: false })
})
afterAll(() => w[Symbol.asyncDispose]())

const sample = { kind: 'deploy_failed', title: 'A title', message: 'A message', site_id: null } as const
const notify = ({ id }: TestProject, change: Partial<typeof sample | { title: string; message: string }> = {}, now = w.clock()) =>
  transact(w, (tx) => insertNotification(tx, id, { ...sample, ...change }, now))
const list = async (project: TestProject, query = '') =>
  (await w.call(`GET /api/v1/notifications${query}`, { key: project.key })).body
const titles = async (project: TestProject, query = '') =>
  (await list(project, query)).notifications.map(({ title }: { title: string }) => title)
const read = (project: TestProject, json: object) => w.call('POST /api/v1/notifications/read', { key: project.key, json })

describe('E35: notifications', () => {
  test('are listed newest first, with the number of the unread', async () => {
    const owner = await w.project()
    for (const title of ['one', 'two', 'three']) await notify(owner, { title })
    expect(await titles(owner)).toEqual(['three', 'two', 'one'])
    expect(await titles(owner, '?limit=1&offset=1')).toEqual(['two'])
    expect((await list(owner)).unread).toBe(3)
    expect((await list(await w.project())).notifications).toEqual([])
  })

  test.each([
    ['?limit=0', 1],
    ['?limit=-5', 1],
    ['?limit=999', 3],
    ['?offset=-5', 3],
    ['?offset=99999999', 0],
  ])('%s is clamped', async (query, count) => {
    const owner = await w.project()
    for (const title of ['one', 'two', 'three']) await notify(owner, { title })
    expect(await titles(owner, query)).toHaveLength(count)
  })

  test('are marked as read by their ids, or all at once, and those of another project never', async () => {
    const owner = await w.project()
    const stranger = await w.project()
    for (const title of ['one', 'two', 'three']) await notify(owner, { title })
    const [newest] = (await list(owner)).notifications
    expect((await read(stranger, { ids: [newest.id] })).status).toBe(200)
    expect((await read(stranger, { all: true })).status).toBe(200)
    expect((await list(owner)).unread).toBe(3)
    await read(owner, { ids: [newest.id] })
    expect(await titles(owner, '?unread=true')).toEqual(['two', 'one'])
    expect((await list(owner)).notifications[0].read_at).toEqual(expect.any(String))
    await read(owner, { all: true })
    expect((await list(owner)).unread).toBe(0)
  })

  test.each([[{}], [{ ids: ['00000000-0000-7000-8000-000000000000'], all: true }]])('are not marked by %j', async (json) =>
    expect((await read(await w.project(), json)).status).toBe(422),
  )

  test.each([[{ ids: [] }], [{ ids: ['x'] }], [{ all: false }], [{ ids: Array.from({ length: 501 }, () => 'x') }]])(
    'are refused by their schema for %j',
    async (json) => expect((await read(await w.project(), json)).status).toBe(422),
  )

  test('are the newest 500 of a project', async () => {
    const owner = await w.project()
    const row = { ...sample, project_id: owner.id, created_at: w.clock() }
    await w.db
      .insertInto('notifications')
      .values(Array.from({ length: maxNotifications }, () => row))
      .execute()
    await notify(owner, { title: 'the newest' })
    expect((await list(owner)).unread).toBe(maxNotifications)
    expect((await titles(owner))[0]).toBe('the newest')
  })

  test('about form submissions are the newest 100, so that visitors push no other notification out', async () => {
    const owner = await w.project()
    await notify(owner, { title: 'a certificate' })
    const row = { ...sample, kind: 'form_submissions' as const, project_id: owner.id, created_at: w.clock() }
    await w.db
      .insertInto('notifications')
      .values(Array.from({ length: maxNotifications }, () => row))
      .execute()
    await transact(w, (tx) => insertNotification(tx, owner.id, { ...row, title: 'the newest form' }, w.clock()))
    expect((await list(owner)).unread).toBe(maxFormNotifications + 1)
    expect((await titles(owner, '?offset=100'))[0]).toBe('a certificate')
  })

  test('are kept 90 days', async () => {
    const owner = await w.project()
    const now = w.clock()
    await notify(owner, { title: 'old' }, new Date(now.getTime() - notificationPeriodMs - 1000))
    await notify(owner, { title: 'new' }, new Date(now.getTime() - notificationPeriodMs + 60_000))
    await deleteExpired(w.db, now)
    expect(await titles(owner)).toEqual(['new'])
  })

  test('hold what a tenant wrote as bounded text that PostgreSQL takes', async () => {
    const owner = await w.project()
    await notify(owner, { title: `${'x'.repeat(199)}😀`, message: `a\u0000b${'y'.repeat(5000)}` })
    const [{ title, message }] = (await list(owner)).notifications
    expect([title.length, title.isWellFormed(), message.length, message.slice(0, 3)]).toEqual([200, true, 2000, 'a\ufffdb'])
  })
})

describe('a failed deploy', () => {
  test('notifies the owner, in the transaction that ends it', async () => {
    const owner = await w.project()
    const site = await makeSite(w, owner)
    const { id } = await deployFiles(w, owner, site.id, [page('x')])
    const deploy = await w.db.selectFrom('deploys').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
    await transact(w, (tx) => recordFailure(tx, w, { ...deploy, status: 'failed', error: 'exit code 1' }, w.clock()))
    const expected = { kind: 'deploy_failed', title: `A deploy of ${site.name} has failed`, message: 'exit code 1' }
    expect((await list(owner)).notifications).toMatchObject([{ ...expected, site_id: site.id, deploy_id: id, read_at: null }])
  })

  test.each([
    ['that was to be published', false, 1],
    ['of a preview', true, 0],
  ])('%s: is_preview is %s, so the owner gets %d emails', async (_which, is_preview, count) => {
    const owner = await w.project()
    const site = await makeSite(w, owner)
    const { id } = await deployFiles(w, owner, site.id, [page('x')])
    const deploy = await w.db.selectFrom('deploys').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
    await transact(w, (tx) => recordFailure(tx, w, { ...deploy, is_preview, status: 'failed', error: '<b>1' }, w.clock()))
    const mails = await w.db.selectFrom('mails').selectAll().where('project_id', '=', owner.id).execute()
    expect(mails).toHaveLength(count)
    for (const { subject, html } of mails) {
      expect([subject, html.includes('&lt;b&gt;1')]).toEqual([`A deploy of ${site.name} has failed`, true])
    }
  })

  test('that somebody has cancelled notifies nobody', async () => {
    const owner = await w.project()
    const site = await makeSite(w, owner)
    const sent = { key: owner.key, bytes: archiveOf({ 'index.html': 'x' }), type: 'application/gzip' }
    const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploys`, sent)
    expect((await w.call(`POST /api/v1/deploys/${body.id}/cancel`, { key: owner.key })).status).toBe(200)
    expect((await list(owner)).notifications).toEqual([])
  })
})
