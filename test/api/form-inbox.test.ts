import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { defaultPlans } from '../../core/plans.ts'
import { deleteOldSpam } from '../../services/forms/remove.ts'
import { purgeSite } from '../../services/removal/purge-site.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite } from './form-site.ts'

// What owners see of submissions, and what the quota of a month does to them.

/** The plan business allows 150 submissions a month, more than PostgreSQL has connections. */
const plans = { ...defaultPlans, business: { ...defaultPlans.business, forms_per_month: 150 } }
const minuteMs = 60_001
const dayMs = 86_400_000

let w: World
beforeAll(async () => {
  w = await world({ worker: false, plans })
})
afterAll(() => w?.[Symbol.asyncDispose]())

const get = (project: TestProject, path: string) => w.call(`GET /api/v1/forms/${path}`, { key: project.key })
const list = async (project: TestProject, query = '') => (await get(project, `submissions${query}`)).body
const overview = async (project: TestProject) => (await get(project, 'overview')).body
const change = (project: TestProject, json: object) =>
  w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json })
const setStatus = (project: TestProject, id: string, status: string) =>
  w.call(`POST /api/v1/forms/submissions/${id}/status`, { key: project.key, json: { status } })
const remove = (project: TestProject, id: string) => w.call(`DELETE /api/v1/forms/submissions/${id}`, { key: project.key })

/** Posts one after the other, within the rate of the site. */
async function post(site: FormSite, bodies: readonly object[]): Promise<number[]> {
  const statuses = []
  for (const [i, body] of bodies.entries()) {
    if (i > 0 && i % 30 === 0) w.advance(minuteMs)
    statuses.push((await site.post(body)).status)
  }
  w.advance(minuteMs)
  return statuses
}
const numbered = (count: number, from = 1) => Array.from({ length: count }, (_, i) => ({ n: from + i }))
const spam = (fields: object) => ({ ...fields, _submit_time: w.clock().getTime() })
const numbers = (page: any) => page.items.map(({ data }: any) => data.n)
const hiddenOnes = (page: any) => page.items.filter(({ hidden }: any) => hidden).length

describe('the list', () => {
  let owner: TestProject
  let site: FormSite
  let other: FormSite
  beforeAll(async () => {
    owner = await w.project('enterprise')
    site = await makeFormSite(w, owner)
    other = await makeFormSite(w, owner)
    await post(site, [
      { name: 'Ада', text: '50% of A_B' },
      { name: 'Bob', tags: ['Red', 'blue'] },
      { name: 'Carl', city: 'RED' },
    ])
    await post(other, [{ name: 'Dan' }, spam({ name: 'Eve' })])
  })
  const names = (page: any) => page.items.map(({ data }: any) => data.name)

  test('F14: it is newest first, over all sites or one', async () => {
    const all = await list(owner)
    expect([names(all), all.total, all.limit, all.offset]).toEqual([['Dan', 'Carl', 'Bob', 'Ада'], 4, 50, 0])
    expect(names(await list(owner, `?site=${site.id}`))).toEqual(['Carl', 'Bob', 'Ада'])
    expect(names(await list(owner, '?limit=2&offset=1'))).toEqual(['Carl', 'Bob'])
    expect(all.items[0]).toMatchObject({
      site_id: other.id,
      status: 'verified',
      hidden: false,
      ip_country: null,
      user_agent: 'node',
    })
  })

  test.each([
    ['?limit=0', 1, 0],
    ['?limit=999', 200, 0],
    ['?limit=-3', 1, 0],
    ['?offset=-5', 50, 0],
    ['?offset=999999999999', 50, 10_000_000],
  ])('F15: %s is limit %i and offset %i', async (query, limit, offset) => {
    expect(await list(owner, query)).toMatchObject({ limit, offset })
  })

  test.each([
    ['?status=spam', ['Eve']],
    ['?status=archive', []],
    ['?status=verified', ['Dan', 'Carl', 'Bob', 'Ада']],
    ['?status=zzz', ['Dan', 'Carl', 'Bob', 'Ада']],
    ['?status=', ['Dan', 'Carl', 'Bob', 'Ада']],
  ])('F16: %s', async (query, expected) => expect(names(await list(owner, query))).toEqual(expected))

  test.each([
    ['?q=АДА', ['Ада']],
    ['?q=red', ['Carl', 'Bob']],
    ['?q=red&field=tags', ['Bob']],
    ['?q=red&field=nothing', []],
    ['?q=%25 of a_b', ['Ада']],
    ['?q=%25', ['Ада']],
    ['?q=o', ['Bob', 'Ада']],
    ['?q=name', []],
    ['?q=&field=city', ['Dan', 'Carl', 'Bob', 'Ада']],
    ['?q=red&limit=1', ['Carl']],
    ['?q=eve&status=spam', ['Eve']],
  ])('F17: %s', async (query, expected) => expect(names(await list(owner, query))).toEqual(expected))

  test('F17: the total of a search counts what it finds', async () => {
    expect(await list(owner, '?q=red&limit=1')).toMatchObject({ total: 2, limit: 1 })
    expect(await list(owner, '?q=red&offset=2')).toMatchObject({ total: 2, items: [] })
  })

  test('F18: a site of another project has nothing', async () => {
    const stranger = await w.project('free')
    expect(await list(stranger, `?site=${site.id}`)).toMatchObject({ items: [], total: 0 })
    const { items } = await list(owner)
    for (const answer of [await setStatus(stranger, items[0].id, 'spam'), await remove(stranger, items[0].id)]) {
      expect(answer.status).toBe(404)
    }
  })

  test('parameters of the wrong form are refused, and NUL costs no 500', async () => {
    const status = async (query: string) => (await get(owner, `submissions${query}`)).status
    expect([await status('?site=x'), await status('?limit=x'), await status('?q=%00'), await status('?field=%00&q=a')]).toEqual([
      422, 422, 422, 422,
    ])
  })

  test('the tool takes site_id', async () => {
    const result = await w.tool('get_form_submissions', { site_id: other.id, limit: 1 }, owner.key)
    expect(names(result.structuredContent)).toEqual(['Dan'])
  })

  test('F19: the overview has counters, settings and ready HTML of every site', async () => {
    const before = await overview(owner)
    expect(before).toMatchObject({
      month: w.clock().toISOString().slice(0, 7),
      quota: null,
      used: 4,
      purchased_balance: 0,
      hidden_count: 0,
      counters: { verified: 4, spam: 1, archive: 0, hidden: 0 },
    })
    expect(before.sites.map((one: any) => [one.site_id, one.counters.verified, one.notify_email])).toEqual([
      [site.id, 3, false],
      [other.id, 1, false],
    ])
    const json = { notify_email: true }
    const set = await w.call(`PATCH /api/v1/sites/${site.id}/form`, { key: owner.key, json })
    expect(set.body).toMatchObject({ site_id: site.id, notify_email: true, counters: { verified: 3 } })
    expect((await overview(owner)).sites[0]).toEqual(set.body)
  })
})

describe('quotas', () => {
  let owner: TestProject
  let site: FormSite
  beforeEach(async () => {
    owner = await w.project('free')
    site = await makeFormSite(w, owner)
  })

  test('F09 Z04: over the quota of 10 a submission is stored hidden', async () => {
    expect(await post(site, numbered(12))).toEqual(Array.from({ length: 12 }, () => 200))
    const page = await list(owner)
    expect(page.items.slice(0, 3).map(({ hidden, data, user_agent }: any) => [hidden, data, user_agent])).toEqual([
      [true, {}, null],
      [true, {}, null],
      [false, { n: 10 }, 'node'],
    ])
    expect(await overview(owner)).toMatchObject({ quota: 10, used: 10, hidden_count: 2, counters: { verified: 10, hidden: 2 } })
    expect((await list(owner, '?q=1')).total).toBe(2)
    expect(await setStatus(owner, page.items[0].id, 'archive')).toMatchObject({ status: 409 })
  })

  test('F11: what is bought reveals the oldest first, and pays after the month', async () => {
    await post(site, numbered(14))
    expect((await change(owner, { form_balance_add: 3 })).body.form_balance).toBe(0)
    expect(numbers(await list(owner)).slice(0, 4)).toEqual([undefined, 13, 12, 11])
    expect((await change(owner, { form_balance_add: 3 })).body.form_balance).toBe(2)
    await post(site, numbered(3, 15))
    expect(numbers(await list(owner)).slice(0, 4)).toEqual([undefined, 16, 15, 14])
    expect(await overview(owner)).toMatchObject({ used: 10, purchased_balance: 0, hidden_count: 1 })
  })

  test('F11: the change of the month reveals nothing, and a higher plan all that it pays for', async () => {
    await post(site, numbered(12))
    w.advance(31 * dayMs)
    expect(hiddenOnes(await list(owner))).toBe(2)
    await post(site, numbered(1, 13))
    expect(await overview(owner)).toMatchObject({ used: 1, hidden_count: 2 })
    await change(owner, { name: 'renamed' })
    expect(hiddenOnes(await list(owner))).toBe(2)
    await change(owner, { plan: 'start' })
    expect(await overview(owner)).toMatchObject({ used: 3, quota: 100, hidden_count: 0, counters: { verified: 13, hidden: 0 } })
    expect(hiddenOnes(await list(owner))).toBe(0)
    await change(owner, { plan: 'free' })
    expect(hiddenOnes(await list(owner))).toBe(0)
  })

  test('F11: an unlimited plan reveals everything', async () => {
    await post(site, numbered(12))
    await change(owner, { plan: 'enterprise' })
    expect(await overview(owner)).toMatchObject({ hidden_count: 0, used: 12 })
  })

  test('F10: ten times the quota is stored hidden, then posts get 402', async () => {
    const statuses = await post(site, numbered(112))
    expect([statuses.slice(0, 110).every((status) => status === 200), statuses.slice(110)]).toEqual([true, [402, 402]])
    expect(await site.post({ n: 1 })).toMatchObject({ status: 402, body: { reason: 'quota_exhausted' } })
    const { items } = await list(owner)
    await remove(owner, items[0].id)
    expect((await site.post({ n: 1 })).status).toBe(200)
    expect(await overview(owner)).toMatchObject({ hidden_count: 100 })
  })

  test('spam takes no quota until it is marked as verified; then it takes some, or becomes hidden', async () => {
    await post(site, [...numbered(9), spam({ n: 'a' }), spam({ n: 'b' })])
    expect((await overview(owner)).used).toBe(9)
    const [b, a] = (await list(owner, '?status=spam')).items
    expect((await setStatus(owner, a.id, 'archive')).body).toMatchObject({ status: 'archive', hidden: false, data: { n: 'a' } })
    expect((await setStatus(owner, b.id, 'archive')).body).toMatchObject({ status: 'verified', hidden: true, data: {} })
    expect(await overview(owner)).toMatchObject({ used: 10, counters: { verified: 9, spam: 0, archive: 1, hidden: 1 } })
    // it is paid for once
    for (const status of ['spam', 'verified', 'spam', 'archive']) await setStatus(owner, a.id, status)
    expect((await overview(owner)).used).toBe(10)
    expect((await remove(owner, a.id)).body).toEqual({ ok: true })
    expect((await remove(owner, a.id)).status).toBe(404)
    expect(await overview(owner)).toMatchObject({ used: 10, counters: { archive: 0 } })
  })

  test('spam is kept up to ten times the quota, and for 30 days', async () => {
    const statuses = await post(
      site,
      Array.from({ length: 103 }, (_, n) => ({ n, _submit_time: w.clock().getTime() + dayMs })),
    )
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect((await overview(owner)).counters.spam).toBe(100)
    await deleteOldSpam(w.db, w.clock())
    expect((await overview(owner)).counters.spam).toBe(100)
    w.advance(30 * dayMs)
    expect(await deleteOldSpam(w.db, w.clock())).toBeGreaterThanOrEqual(100)
    expect([(await overview(owner)).counters.spam, (await list(owner, '?status=spam')).items]).toEqual([0, []])
  })

  test('exactly the quota is charged, whatever comes at once', async () => {
    const project = await w.project('business')
    const sites = await Promise.all(Array.from({ length: 9 }, () => makeFormSite(w, project)))
    const second = await w.openSecondApi()
    const posts = sites.flatMap((one, at) => numbered(20).map((body) => one.post(body, { base: at % 2 === 0 ? second : w.base })))
    expect((await Promise.all(posts)).filter(({ status }) => status === 200)).toHaveLength(180)
    expect(await overview(project)).toMatchObject({ used: 150, hidden_count: 30, counters: { verified: 150, hidden: 30 } })
    expect(hiddenOnes(await list(project, '?limit=200'))).toBe(30)
  })

  test('a site that is removed takes its submissions with it', async () => {
    const project = await w.project('enterprise')
    const gone = await makeFormSite(w, project)
    const kept = await makeFormSite(w, project)
    await post(gone, numbered(3))
    await post(kept, numbered(2))
    const { body } = await w.call(`DELETE /api/v1/sites/${gone.id}`, { key: project.key })
    expect((await overview(project)).sites.map((one: any) => one.site_id)).toEqual([kept.id])
    const purge_at = new Date(body.deletion_scheduled_at)
    w.advance(purge_at.getTime() - w.clock().getTime() + 1000)
    expect(await purgeSite(w, { site_id: gone.id, purge_at }, () => undefined)).toBe('purged')
    expect((await list(project)).total).toBe(2)
    await w.call(`DELETE /operator/v1/projects/${project.id}?confirm=true`, { key: operatorToken })
    await purgeSite(w, { site_id: kept.id, purge_at: await trashedAt(kept.id) }, () => undefined)
    const left = await w.db.selectFrom('form_usage').selectAll().where('project_id', '=', project.id).execute()
    const rows = await w.db.selectFrom('form_submissions').selectAll().where('project_id', '=', project.id).execute()
    expect([left, rows]).toEqual([[], []])
  })
  const trashedAt = async (id: string) =>
    (await w.db.selectFrom('sites').select('deletion_scheduled_at').where('id', '=', id).executeTakeFirstOrThrow())
      .deletion_scheduled_at as Date
})
