import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { memberActions, memberStatuses, memberTransitions } from '../../core/members.ts'
import { gatePaths } from '../../core/visits.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { type MemberSite, makeMemberSite, newEmail } from './member-site.ts'

let w: World
let owner: TestProject
let second: string
let site: MemberSite
beforeAll(async () => {
  w = await world({ edge: true })
  owner = await w.project('enterprise')
  second = await w.openSecondApi()
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await makeMemberSite(w, owner)
})

const call = (request: string, json?: unknown, key = owner.key) => {
  const [method, path] = request.split(' ')
  return w.call(`${method} /api/v1/sites/${site.id}/${path}`, { key, ...(json === undefined ? {} : { json }) })
}
const tool = async (name: string, args: object) => {
  const params = { name, arguments: { site_id: site.id, ...args } }
  const { body } = await w.call('POST /mcp', { key: owner.key, json: { jsonrpc: '2.0', id: 1, method: 'tools/call', params } })
  return body.result.structuredContent
}
const moderate = (id: string, action: string, more: object = {}) => call(`POST members/${id}/moderate`, { action, ...more })

/** A member, without a visitor. */
const add = async (values: Record<string, unknown> = {}) => {
  const row = { site_id: site.id, project_id: owner.id, email: newEmail(), status: 'pending', registered_at: new Date() } as const
  return await w.db
    .insertInto('members')
    .values({ ...row, host: 'www.example.com', ...values })
    .returningAll()
    .executeTakeFirstOrThrow()
}
const setPrice = (provider: 'manual' | 'test', period_days: number | null = null) =>
  w.db
    .insertInto('access_prices')
    .values({ site_id: site.id, project_id: owner.id, amount_minor: 500, currency: 'EUR', period_days, provider })
    .execute()

describe('M03: the mode members', () => {
  test('closes a site, keeps who is logged in, and lifts the limit of logins', async () => {
    const { id } = await makeSite(w, owner)
    const path = `POST /api/v1/sites/${id}/access`
    await w.call(`${path}/email-mode`, { key: owner.key, json: {} })
    await w.call(`PATCH /api/v1/sites/${id}/access/opens`, { key: owner.key, json: { max_opens: 5 } })
    const closed = await w.call(`${path}/members-mode`, { key: owner.key, json: { moderation: false } })
    expect(closed.status).toBe(200)
    expect(closed.body).toMatchObject({ mode: 'members', max_opens: null, max_seats: null, seats_taken: 0, documents: [] })
    expect(closed.body.settings).toEqual({
      moderation: true,
      ask_name: false,
      name_label: null,
      consent_mode: 'none',
      form_style: 'card',
      max_seats: null,
    })
    const epoch = () => w.db.selectFrom('access_locks').select('epoch').where('site_id', '=', id).executeTakeFirstOrThrow()
    const before = await epoch()
    expect((await w.call(`${path}/members-mode`, { key: owner.key })).status).toBe(200)
    expect(await epoch()).toEqual(before)
  })

  test('J09: the tool sets the settings too', async () => {
    expect(await tool('set_site_members_access', { moderation: false, max_seats: 3, name_label: '' })).toMatchObject({
      mode: 'members',
      max_seats: 3,
      settings: { moderation: false, name_label: null, max_seats: 3 },
    })
  })

  test.each(['free', 'start'] as const)('needs the Pro plan: %s', async (plan) => {
    const project = await w.project(plan)
    const { id } = await makeSite(w, project)
    const answer = await w.call(`POST /api/v1/sites/${id}/access/members-mode`, { key: project.key, json: {} })
    expect([answer.status, answer.body.message, answer.headers.get('plinth-error')]).toEqual([
      402,
      expect.stringContaining('Pro'),
      'plan_members_access',
    ])
    expect((await w.call(`GET /api/v1/sites/${id}/members`, { key: project.key })).status).toBe(200)
  })
})

describe('M04: the list', () => {
  test('has members, counters, seats, settings and documents', async () => {
    const [ada, grace] = [await add({ name: 'Ada', status: 'active' }), await add({ name: 'Grace' })]
    await add({ status: 'blocked' })
    await call('PATCH members-settings', { max_seats: 9 })
    await call('PUT documents', { documents: [{ title: 'Rules', url: 'https://example.com/rules' }] })
    const { status, body } = await call('GET members')
    expect([status, body.total, body.limit, body.offset]).toEqual([200, 3, 50, 0])
    expect(body.counters).toEqual({ pending: 1, active: 1, rejected: 0, blocked: 1 })
    expect(body.seats).toEqual({ taken: 1, max: 9 })
    expect(body.settings).toMatchObject({ moderation: false, max_seats: 9 })
    expect(body.documents).toEqual([{ id: expect.any(String), title: 'Rules', url: 'https://example.com/rules' }])
    expect(body.items.slice(1)).toEqual([
      {
        id: grace.id,
        email: grace.email,
        name: 'Grace',
        status: 'pending',
        consents: [],
        registered_at: expect.any(String),
        last_login_at: null,
        payment: null,
      },
      expect.objectContaining({ id: ada.id, name: 'Ada' }),
    ])
    expect(await tool('get_site_members', {})).toEqual(body)
  })

  test('q finds parts of addresses and names as they are written', async () => {
    const ada = await add({ name: 'Ada Lovelace' })
    await add({ name: '50% off_' })
    const found = async (q: string) => {
      const { body } = await call(`GET members?q=${encodeURIComponent(q)}`)
      return body.items.map(({ name }: any) => name)
    }
    expect(await found('LOVE')).toEqual(['Ada Lovelace'])
    expect(await found(ada.email.slice(0, 12).toUpperCase())).toEqual(['Ada Lovelace'])
    expect(await found('%')).toEqual(['50% off_'])
    expect(await found("'; drop table members; --")).toEqual([])
    expect((await call(`GET members?q=${'x'.repeat(201)}`)).status).toBe(422)
    expect((await call('GET members?limit=1&offset=1')).body.items.map(({ name }: any) => name)).toEqual(['Ada Lovelace'])
  })
})

describe('M05: moderation', () => {
  const pairs = memberStatuses.flatMap((status) => memberActions.map((action) => [status, action] as const))

  test.each(pairs)('%s: %s', async (status, action) => {
    const { id } = await add({ status })
    const { from, to } = memberTransitions[action]
    const answer = await moderate(id, action)
    if (from.includes(status)) expect([answer.status, answer.body.id, answer.body.status]).toEqual([200, id, to])
    else expect([answer.status, answer.headers.get('plinth-error')]).toEqual([409, 'member_status'])
    expect((await call('GET members')).body.items[0].status).toBe(from.includes(status) ? to : status)
  })

  test('an approved visitor gets in and an email, a blocked one is out, an unblocked one logs in again', async () => {
    await deployFiles(w, owner, site.id, [page('the content')])
    await call('PATCH members-settings', { moderation: true })
    const email = newEmail()
    expect((await site.login(email)).status).not.toBe(303)
    const { id } = await site.member(email)
    await moderate(id, 'approve')
    expect(await site.news(email)).toEqual([
      expect.stringContaining('Your registration at'),
      expect.stringContaining('is approved'),
    ])
    w.advance(61_000)
    const { cookie = '' } = await site.login(email)
    const seen = async () => (await w.visit(site.subdomain, '/', { cookie })).status
    await expect.poll(seen).toBe(200)
    await moderate(id, 'block')
    await expect.poll(seen).toBe(401)
    w.advance(61_000)
    expect(await site.visit(await site.login(email))).toBeUndefined()
    await moderate(id, 'unblock')
    expect(await seen()).toBe(401)
    w.advance(61_000)
    expect(await site.visit(await site.login(email))).toMatchObject({ subject: id, generation: 1 })
  })

  test('L06: of a login that races a block nothing is left that opens the site', async () => {
    await deployFiles(w, owner, site.id, [page('the content')])
    const cookies: string[] = []
    for (let i = 0; i < 8; i++) {
      const email = newEmail()
      const { id } = await add({ email, status: 'active' })
      const entered = await site.codeFor(email)
      const block = async () => {
        await new Promise((resolve) => setTimeout(resolve, 3 * i))
        return await moderate(id, 'block')
      }
      const [login, blocked] = await Promise.all([
        site.post(gatePaths.code, { email, ...entered, to: '/' }, { base: i % 2 ? w.base : second }),
        block(),
      ])
      expect(blocked.status).toBe(200)
      if (login.status === 303) cookies.push(login.cookie ?? '')
    }
    for (const cookie of cookies) await expect.poll(async () => (await w.visit(site.subdomain, '/', { cookie })).status).toBe(401)
  })

  test('REST deletes nobody, and refuses other actions', async () => {
    const { id } = await add()
    for (const action of ['delete', 'APPROVE', '', null]) {
      expect([action, (await call(`POST members/${id}/moderate`, { action })).status]).toEqual([action, 422])
    }
    expect((await moderate('00000000-0000-7000-8000-000000000000', 'approve')).status).toBe(404)
  })

  test('check 58: a member of another site is absent', async () => {
    const { id } = await add()
    const other = await makeMemberSite(w, owner)
    const answer = await w.call(`POST /api/v1/sites/${other.id}/members/${id}/moderate`, {
      key: owner.key,
      json: { action: 'approve' },
    })
    expect(answer.status).toBe(404)
    expect((await w.call(`GET /api/v1/sites/${other.id}/members/${id}/export`, { key: owner.key })).status).toBe(404)
  })
})

describe('M12 J10: deleting a member', () => {
  test('needs confirm: true, signs the member out, and sends an email in the name of the site', async () => {
    await deployFiles(w, owner, site.id, [page('the content')])
    await call('PATCH access/brand', { title: 'Studio "North" <north@evil.example>' })
    const email = newEmail()
    const { cookie = '' } = await site.login(email)
    const seen = async () => (await w.visit(site.subdomain, '/', { cookie })).status
    await expect.poll(seen).toBe(200)
    const { id } = await site.member(email)
    for (const confirm of [undefined, false]) {
      const refused = await tool('moderate_site_member', { member_id: id, action: 'delete', confirm })
      expect([refused.status, refused.message]).toEqual([400, expect.stringContaining('confirm: true')])
    }
    expect(await tool('moderate_site_member', { member_id: id, action: 'delete', confirm: true })).toMatchObject({ id, email })
    await expect.poll(seen).toBe(401)
    expect(await site.member(email)).toBeUndefined()
    const mails = await w.db.selectFrom('mails').select(['subject', 'sender']).where('recipient', '=', email).execute()
    expect(mails).toEqual([
      {
        subject: expect.stringContaining('is deleted'),
        sender: expect.stringMatching(/^Studio North north evil\[\.\]example </),
      },
    ])
    w.advance(61_000)
    await site.login(email)
    expect((await site.member(email)).id).not.toBe(id)
    expect(await seen()).toBe(401)
  })

  test('absent members are 404, also with confirm: true', async () => {
    const member_id = '00000000-0000-7000-8000-000000000000'
    for (const confirm of [true, false]) {
      expect((await tool('moderate_site_member', { member_id, action: 'delete', confirm })).status).toBe(404)
    }
  })
})

describe('M06: settings', () => {
  test('are set and read, and what is left out stays', async () => {
    const all = {
      moderation: true,
      ask_name: true,
      name_label: 'Call sign',
      consent_mode: 'checkbox',
      form_style: 'plain',
      max_seats: 12,
    }
    const { status, body } = await call('PATCH members-settings', all)
    expect([status, body.settings, body.max_seats, body.closed]).toEqual([200, all, 12, true])
    const changed = await call('PATCH members-settings', { max_seats: null, name_label: null })
    expect(changed.body.settings).toEqual({ ...all, max_seats: null, name_label: null })
    expect((await call('GET members')).body.settings).toEqual(changed.body.settings)
  })

  test.each([
    [{}],
    [{ max_seats: 0 }],
    [{ max_seats: 1.5 }],
    [{ consent_mode: 'maybe' }],
    [{ form_style: 'table' }],
    [{ name_label: 'a'.repeat(81) }],
    [{ name_label: 'a\nb' }],
    [{ moderation: 'yes' }],
  ])('%j is refused', async (json) => {
    expect((await call('PATCH members-settings', json)).status).toBe(422)
  })

  test('a label and documents are shown on the login page', async () => {
    await call('PATCH members-settings', { ask_name: true, name_label: 'Call sign <b>' })
    await call('PUT documents', { documents: [{ title: 'House rules', url: 'https://example.com/rules?a=1&b=2' }] })
    await expect
      .poll(async () => (await w.visit(site.subdomain, '/', { accept: 'text/html' })).body)
      .toContain('href="https://example.com/rules?a=1&amp;b=2"')
    const { body } = await site.login(newEmail())
    expect(body).toContain('Call sign &lt;b&gt;')
  })
})

describe('M07: reconsent', () => {
  test('counts active members, and their next visit has a lower version than the lock', async () => {
    await call('PATCH members-settings', { consent_mode: 'notice' })
    const email = newEmail()
    const visit = await site.visit(await site.login(email))
    expect(visit?.consent).toBe(1)
    await add({ status: 'pending' })
    expect((await call('POST members/reconsent')).body).toEqual({ ok: true, members_affected: 1 })
    const { consent_version } = await w.db
      .selectFrom('member_settings')
      .select('consent_version')
      .where('site_id', '=', site.id)
      .executeTakeFirstOrThrow()
    expect(consent_version).toBe(2)
  })

  test('who has registered before consent was asked for consents at the next login', async () => {
    const email = newEmail()
    expect((await site.login(email)).status).toBe(303)
    await call('PATCH members-settings', { consent_mode: 'checkbox' })
    w.advance(61_000)
    expect(await site.visit(await site.login(email))).toBeUndefined()
  })
})

describe('M08: documents', () => {
  const rules = { title: 'Rules', url: 'https://example.com/rules' }
  const terms = { title: 'Terms', url: 'https://example.com/terms' }

  test('are replaced as a whole, and one that stays keeps its id', async () => {
    const first = (await call('PUT documents', { documents: [rules, terms] })).body.documents
    const second = (await call('PUT documents', { documents: [{ ...rules, title: 'New' }, terms, rules] })).body.documents
    expect(second.map(({ title }: any) => title)).toEqual(['New', 'Terms', 'Rules'])
    expect([second[1].id, second[2].id]).toEqual([first[1].id, first[0].id])
    expect((await call('GET access')).body.documents).toEqual(second)
    expect((await call('PUT documents', { documents: [] })).body.documents).toEqual([])
  })

  test.each([
    ['four', Array.from({ length: 4 }, () => rules)],
    ['http', [{ ...rules, url: 'http://example.com' }]],
    ['a user name', [{ ...rules, url: 'https://ada@example.com' }]],
    ['a script', [{ ...rules, url: 'javascript:alert(1)' }]],
    ['a long title', [{ ...rules, title: 'a'.repeat(81) }]],
    ['no title', [{ ...rules, title: ' ' }]],
    ['a title of two lines', [{ ...rules, title: 'a\nb' }]],
    ['none', undefined],
  ])('%s: refused', async (_what, documents) => {
    expect((await call('PUT documents', { documents })).status).toBe(422)
  })

  test('J09: the tool asks for consent again', async () => {
    await call('PATCH members-settings', { consent_mode: 'checkbox' })
    const { documents } = await tool('set_site_documents', { documents: [rules], request_reconsent: true })
    expect(documents).toMatchObject([rules])
    const row = w.db.selectFrom('member_settings').select('consent_version').where('site_id', '=', site.id)
    expect(await row.executeTakeFirst()).toEqual({ consent_version: 2 })
  })
})

describe('M11: seats', () => {
  test('50 parallel approvals never exceed max_seats', async () => {
    await call('PATCH members-settings', { max_seats: 7 })
    const ids = await Promise.all(Array.from({ length: 50 }, async () => (await add()).id))
    const approve = async (id: string, i: number) =>
      await fetch(`${i % 2 ? w.base : second}/api/v1/sites/${site.id}/members/${id}/moderate`, {
        method: 'POST',
        headers: { authorization: `Bearer ${owner.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ action: 'approve' }),
      })
    const answers: Response[] = []
    for (let i = 0; i < 50; i += 10) answers.push(...(await Promise.all(ids.slice(i, i + 10).map(approve))))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(7)
    const refused = answers.filter(({ status }) => status !== 200)
    expect(new Set(refused.map(({ status, headers }) => `${status} ${headers.get('plinth-error')}`))).toEqual(
      new Set(['409 seats_taken']),
    )
    expect((await call('GET access')).body).toMatchObject({ max_seats: 7, seats_taken: 7 })
    const [blocked] = (await call('GET members?limit=200')).body.items.filter(({ status }: any) => status === 'active')
    await moderate(blocked.id, 'block')
    expect((await moderate(ids.find((id) => id !== blocked.id) ?? '', 'block')).status).toBeOneOf([200, 409])
    expect((await call('GET members')).body.seats.taken).toBeLessThan(7)
    expect((await moderate(blocked.id, 'unblock')).status).toBe(200)
  })

  test('50 parallel registrations and approvals never exceed max_seats', async () => {
    await call('PATCH members-settings', { max_seats: 7 })
    const ids = await Promise.all(Array.from({ length: 25 }, async () => (await add()).id))
    const people: { email: string; challenge: string; code: string }[] = []
    for (let i = 0; i < 25; i++) {
      const email = newEmail()
      people.push({ email, ...(await site.codeFor(email)) })
    }
    const answers = await Promise.all(
      people.flatMap((fields, i) => [
        site.post(gatePaths.code, { ...fields, to: '/' }, { base: i % 2 ? w.base : second }),
        moderate(ids[i] ?? '', 'approve'),
      ]),
    )
    expect(answers.filter(({ status }) => status === 200 || status === 303)).toHaveLength(7)
    expect((await call('GET members')).body.counters).toMatchObject({
      active: 7,
      pending: 25 - answers.filter(({ status }) => status === 200).length,
    })
  })

  test('PATCH access/opens sets max_seats at sites with members, and max_opens at others', async () => {
    expect((await call('PATCH access/opens', { max_seats: 5 })).body).toMatchObject({ max_seats: 5, max_opens: null })
    expect((await call('PATCH access/opens', { max_seats: null, reset_counter: true })).body.max_seats).toBeNull()
    expect((await call('PATCH access/opens', { max_opens: 5 })).status).toBe(409)
    expect((await call('PATCH access/opens', { max_opens: 5, max_seats: 5 })).status).toBe(422)
    await call('POST access/email-mode', {})
    expect((await call('PATCH access/opens', { max_opens: 5 })).status).toBe(200)
    expect((await call('PATCH access/opens', { max_seats: 5 })).status).toBe(409)
    await call('DELETE access')
    expect((await call('PATCH access/opens', { max_seats: 5 })).status).toBe(404)
  })
})

describe('M09: a payment that the owner takes', () => {
  beforeEach(async () => {
    site = await makeMemberSite(w, owner, 'paid', { moderation: false, max_seats: 1 })
    await setPrice('manual', 30)
  })
  const money = { amount_minor: 49_900, currency: 'RUB' }

  test('is recorded by the approval, and lets the member in for the period', async () => {
    const email = newEmail()
    expect(await site.visit(await site.login(email))).toBeUndefined()
    const { id } = await site.member(email)
    expect((await moderate(id, 'approve')).status).toBe(422)
    expect((await moderate(id, 'approve', { amount_minor: 1 })).status).toBe(422)
    expect((await moderate(id, 'approve', { ...money, currency: 'XXX' })).status).toBe(422)
    expect((await moderate(id, 'approve', { ...money, amount_minor: 0 })).status).toBe(422)
    const { status, body } = await moderate(id, 'approve', money)
    expect([status, body.status]).toEqual([200, 'active'])
    expect(body.payment).toEqual({
      amount: 49_900,
      currency: 'RUB',
      provider: 'manual',
      paid_at: expect.any(String),
      paid_until: expect.any(String),
    })
    w.advance(61_000)
    const visit = await site.visit(await site.login(email))
    expect(Math.abs((visit?.until.getTime() ?? 0) - Date.parse(body.payment.paid_until))).toBeLessThan(1001)
    expect((await moderate(id, 'approve', money)).status).toBe(409)
  })

  test('takes a seat, which is free again when its period is over; then the owner records another one', async () => {
    const [first, other] = [await add(), await add()]
    expect((await moderate(first.id, 'approve', money)).status).toBe(200)
    expect((await moderate(other.id, 'approve', money)).headers.get('plinth-error')).toBe('seats_taken')
    await w.db
      .updateTable('members')
      .set({ paid_until: new Date(w.clock().getTime() - 1000) })
      .where('id', '=', first.id)
      .execute()
    expect((await call('GET members')).body.seats).toEqual({ taken: 0, max: 1 })
    expect((await moderate(first.id, 'approve', money)).body.status).toBe('active')
    expect((await call('GET members')).body.seats).toEqual({ taken: 1, max: 1 })
  })

  test('is refused at other sites', async () => {
    site = await makeMemberSite(w, owner)
    const { id } = await add()
    expect((await moderate(id, 'approve', money)).status).toBe(409)
    expect((await moderate(id, 'reject', money)).status).toBe(409)
  })
})

test('E21: the export has everything that is kept about a member', async () => {
  await call('PATCH members-settings', { consent_mode: 'notice' })
  await call('PUT documents', { documents: [{ title: 'Rules', url: 'https://example.com/rules' }] })
  const email = newEmail()
  await site.login(email, { headers: { 'accept-language': 'ru' } })
  const { id } = await site.member(email)
  const { status, body } = await call(`GET members/${id}/export`)
  expect([status, body]).toEqual([
    200,
    {
      id,
      email,
      name: null,
      status: 'active',
      consents: [{ document_id: expect.any(String), at: expect.any(String) }],
      registered_at: expect.any(String),
      last_login_at: expect.any(String),
      payment: null,
      host: new URL(site.url).hostname,
      language: 'ru',
      payments: [],
      emails: [
        {
          subject: expect.stringContaining('Ваша регистрация'),
          text: expect.any(String),
          created_at: expect.any(String),
          sent_at: null,
        },
      ],
    },
  ])
})
