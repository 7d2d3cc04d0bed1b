import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeSite } from '../make.ts'
import { type CallOptions, operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const dayMs = 86_400_000

/** A site of the project, with calls to its access. */
async function makeAccess(project = owner) {
  const site = await makeSite(w, project)
  const call = (verb: string, path = '', options: CallOptions = {}) =>
    w.call(`${verb} /api/v1/sites/${site.id}/access${path}`, { key: project.key, ...options })
  const lock = () => w.db.selectFrom('access_locks').selectAll().where('site_id', '=', site.id).executeTakeFirst()
  return {
    ...site,
    call,
    lock,
    get: async () => (await call('GET')).body,
    close: (json: object = { level: 'easy' }) => call('PUT', '', { json }),
    patch: (path: string, json: object) => call('PATCH', path, { json }),
    version: async () =>
      (await w.db.selectFrom('sites').select('version').where('id', '=', site.id).executeTakeFirstOrThrow()).version,
  }
}

const change = (project: TestProject, json: object) =>
  w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json })

test('L01: a new site is open, and the state says what the plan allows', async () => {
  const { status, body } = await (await makeAccess()).call('GET')
  expect([status, body]).toEqual([
    200,
    {
      closed: false,
      mode: null,
      expires_at: null,
      max_opens: null,
      opens_count: 0,
      max_seats: null,
      price: null,
      seats_taken: 0,
      channels: [],
      emails_count: 0,
      brand: {
        title: null,
        description: null,
        logo_url: null,
        logo_framed: false,
        logo_rounded: false,
        favicon_mode: 'site',
        favicon_url: null,
      },
      documents: [],
      entitlements: { password: true, email_code: true },
      updated_at: null,
    },
  ])
})

describe('L02: closing with a password', () => {
  test.each([
    ['easy', /^[0-9]{6}$/],
    ['medium', /^[A-HJKMNP-Za-hjkmnp-z2-9]{10}$/],
    ['strong', /^[A-HJKMNP-Za-hjkmnp-z2-9]{20}$/],
  ])('of the level %s answers a generated one', async (level, expected) => {
    const site = await makeAccess()
    const { status, body } = await site.close({ level })
    expect([status, body.closed, body.mode, body.password]).toEqual([200, true, 'password', expect.stringMatching(expected)])
    const { password: _, ...state } = body
    expect(await site.get()).toEqual(state)
  })

  test.each(['four', 'x'.repeat(128), 'pässwörd 👋👋'])('takes the own one %j', async (password) => {
    const site = await makeAccess()
    expect((await site.close({ password })).body).toMatchObject({ closed: true, password })
  })

  test.each([
    ['of three characters', { password: 'abc' }, 'at least 4'],
    ['of 129 characters', { password: 'x'.repeat(129) }, 'at most 128'],
    ['of 1 MB', { password: 'x'.repeat(1_000_000) }, 'at most 128'],
    ['of two lines', { password: 'two\nlines' }, 'one line'],
    ['that is a number', { password: 123456 }, 'must be a text'],
    ['with a level', { password: 'kite-and-river', level: 'easy' }, 'either a level or a password'],
    ['that is missing, without a level', {}, 'either a level or a password'],
    ['of an unknown level', { level: 'hard' }, 'must be one of easy, medium, strong'],
  ])('refuses a password %s with 422', async (_what, json, message) => {
    const site = await makeAccess()
    const { status, body } = await site.close(json)
    expect([status, body.message]).toEqual([422, expect.stringContaining(message)])
    expect(await site.lock()).toBeUndefined()
  })

  test('keeps the password sealed', async () => {
    const site = await makeAccess()
    await site.close({ password: 'kite-and-river' })
    expect((await site.lock())?.sealed_password).toMatch(/^v1\./)
  })

  test('notifies the edge', async () => {
    const site = await makeAccess()
    const before = await site.version()
    await site.close()
    expect(await site.version()).toBeGreaterThan(before)
  })
})

test('L01: get_site and list_sites name the mode', async () => {
  const site = await makeAccess()
  await site.close()
  expect((await w.call(`GET /api/v1/sites/${site.id}`, { key: owner.key })).body.access_mode).toBe('password')
  const { body } = await w.call('GET /api/v1/sites', { key: owner.key })
  expect(body.find((one: any) => one.id === site.id).access_mode).toBe('password')
  const renamed = await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json: { name: 'Renamed' } })
  expect(renamed.body.access_mode).toBe('password')
})

describe('L04: the password', () => {
  test('is shown to an editor, and never stored by caches', async () => {
    const site = await makeAccess()
    const { password } = (await site.close()).body
    const { status, body, headers } = await site.call('GET', '/password')
    expect([status, body, headers.get('cache-control')]).toEqual([200, { password }, 'no-store'])
  })

  test('is not shown to a readonly key', async () => {
    const site = await makeAccess()
    await site.close()
    expect((await site.call('GET', '/password', { key: await w.key(owner, 'readonly') })).status).toBe(403)
  })

  test('of an open site is a 404 that says how to close it', async () => {
    const { status, body } = await (await makeAccess()).call('GET', '/password')
    expect([status, body.message]).toEqual([404, expect.stringContaining('set_site_password')])
  })

  test('of a site closed with codes is a 409', async () => {
    const site = await makeAccess()
    await site.call('POST', '/email-mode', { json: {} })
    const { status, body } = await site.call('GET', '/password')
    expect([status, body.message]).toEqual([409, expect.stringContaining('the mode email')])
  })
})

test('L05: opening removes the lock with its password, its end and its counter, after a downgrade too', async () => {
  const project = await w.project('start')
  const site = await makeAccess(project)
  await site.close()
  await site.patch('/expiry', { days: 3 })
  await site.patch('/opens', { max_opens: 3 })
  await w.db.updateTable('access_locks').set({ opens_count: 2 }).where('site_id', '=', site.id).execute()
  await change(project, { plan: 'free', suspended: true })
  const { status, body } = await site.call('DELETE')
  const nothing = { closed: false, mode: null, expires_at: null, max_opens: null, opens_count: 0, updated_at: null }
  expect([status, body]).toEqual([200, expect.objectContaining(nothing)])
  expect(await site.lock()).toBeUndefined()
  expect((await site.call('DELETE')).status).toBe(200)
})

describe('L06: everybody is signed out by', () => {
  test.each([
    ['another password', (site: Access) => site.close({ password: 'another one' })],
    ['the switch to codes', (site: Access) => site.call('POST', '/email-mode', { json: {} })],
    ['opening and closing again', async (site: Access) => [await site.call('DELETE'), await site.close()]],
  ])('%s', async (_what, act) => {
    const site = await makeAccess()
    await site.close()
    const before = await site.lock()
    await act(site)
    expect((await site.lock())?.epoch).not.toBe(before?.epoch)
  })

  test('not by another end, another limit, or codes where codes are asked for already', async () => {
    const site = await makeAccess()
    await site.call('POST', '/email-mode', { json: {} })
    const before = await site.lock()
    await site.patch('/expiry', { days: 3 })
    await site.patch('/opens', { max_opens: 3, reset_counter: true })
    await site.call('POST', '/email-mode', { json: {} })
    expect((await site.lock())?.epoch).toBe(before?.epoch)
  })
})
type Access = Awaited<ReturnType<typeof makeAccess>>

describe('L07: the end of the access', () => {
  test('is extended from the current end: twice ten days are twenty', async () => {
    const site = await makeAccess()
    await site.close()
    const startedAt = w.clock().getTime()
    const first = Date.parse((await site.patch('/expiry', { days: 10 })).body.expires_at)
    expect(first).toBeGreaterThanOrEqual(startedAt + 10 * dayMs)
    expect(first).toBeLessThanOrEqual(w.clock().getTime() + 10 * dayMs)
    expect(Date.parse((await site.patch('/expiry', { days: 10 })).body.expires_at)).toBe(first + 10 * dayMs)
  })

  test('is extended from now when it has come', async () => {
    const site = await makeAccess()
    await site.close()
    const expires_at = new Date(w.clock().getTime() - 5 * dayMs)
    await w.db.updateTable('access_locks').set({ expires_at }).where('site_id', '=', site.id).execute()
    expect((await site.get()).closed).toBe(true)
    const end = Date.parse((await site.patch('/expiry', { days: 1 })).body.expires_at)
    expect(Math.abs(end - w.clock().getTime() - dayMs)).toBeLessThan(60_000)
  })

  test('can be set and removed', async () => {
    const site = await makeAccess()
    await site.close()
    const until = new Date(w.clock().getTime() + 40 * dayMs).toISOString()
    expect((await site.patch('/expiry', { until })).body.expires_at).toBe(until)
    expect((await site.patch('/expiry', { clear: true })).body.expires_at).toBeNull()
  })

  test.each([
    [{}, 'exactly one'],
    [{ days: 1, clear: true }, 'exactly one'],
    [{ days: 1, until: '2030-01-01T00:00:00Z' }, 'exactly one'],
    [{ clear: false }, 'clear must be true'],
    [{ days: 0 }, 'at least 1'],
    [{ days: 366 }, 'at most 365'],
    [{ days: 1.5 }, 'whole number'],
    [{ days: '10' }, 'must be a number'],
    [{ until: '9999-12-31T23:59:59Z' }, 'ten years'],
    [{ until: '2001-01-01T00:00:00Z' }, 'in the future'],
    [{ until: 'tomorrow' }, 'must be an instant'],
    [{ until: '2030-02-30T00:00:00Z' }, 'must be an instant'],
  ])('%j is refused with 422', async (json, message) => {
    const site = await makeAccess()
    await site.close()
    const { status, body } = await site.patch('/expiry', json)
    expect([status, body.message]).toEqual([422, expect.stringContaining(message)])
    expect((await site.get()).expires_at).toBeNull()
  })

  test('cannot be extended beyond ten years in small steps', async () => {
    const site = await makeAccess()
    await site.close()
    const statuses = []
    for (let year = 0; year < 11; year++) statuses.push((await site.patch('/expiry', { days: 365 })).status)
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => 200), 422])
  })
})

describe('L08: the limit of opens', () => {
  test('is set, kept by a reset of the counter, and lifted by null', async () => {
    const site = await makeAccess()
    await site.close()
    expect((await site.patch('/opens', { max_opens: 3 })).body).toMatchObject({ max_opens: 3, opens_count: 0 })
    await w.db.updateTable('access_locks').set({ opens_count: 3 }).where('site_id', '=', site.id).execute()
    expect((await site.patch('/opens', { max_opens: 5 })).body).toMatchObject({ max_opens: 5, opens_count: 3 })
    expect((await site.patch('/opens', { reset_counter: true })).body).toMatchObject({ max_opens: 5, opens_count: 0 })
    expect((await site.patch('/opens', { max_opens: null })).body).toMatchObject({ max_opens: null })
  })

  test.each([
    [{}, 'give max_opens'],
    [{ max_opens: 0 }, 'at least 1'],
    [{ max_opens: 1e12 }, 'at most'],
    [{ max_opens: '3' }, 'must be a number'],
    [{ reset_counter: 'yes' }, 'true or false'],
  ])('%j is refused with 422', async (json, message) => {
    const site = await makeAccess()
    await site.close()
    const { status, body } = await site.patch('/opens', json)
    expect([status, body.message]).toEqual([422, expect.stringContaining(message)])
  })
})

test.each([
  ['PATCH', '/expiry', { days: 1 }],
  ['PATCH', '/opens', { max_opens: 1 }],
  ['POST', '/bypass', undefined],
  ['DELETE', '/bypass', undefined],
])('%s %s of an open site is a 404 that says how to close it', async (verb, path, json) => {
  const { status, body } = await (await makeAccess()).call(verb, path, json ? { json } : {})
  expect([status, body.message]).toEqual([404, expect.stringContaining('open to everybody')])
})

describe('L03 L10 Z02: below Start', () => {
  test('a password is refused with 402 that names the plan', async () => {
    const site = await makeAccess(await w.project('free'))
    const { status, body, headers } = await site.close()
    expect([status, headers.get('plinth-error')]).toEqual([402, 'plan_password_access'])
    expect(body.message).toContain('Start')
    expect((await site.get()).entitlements).toEqual({ password: false, email_code: false })
  })

  test('a bypass token of a lock from a higher plan is refused with 402', async () => {
    const project = await w.project('start')
    const site = await makeAccess(project)
    await site.close()
    expect((await site.call('POST', '/bypass')).status).toBe(200)
    await change(project, { plan: 'free' })
    const { status, body } = await site.call('POST', '/bypass')
    expect([status, body.message]).toEqual([402, expect.stringContaining('Start')])
    expect((await site.call('DELETE', '/bypass')).status).toBe(200)
  })
})

describe('E01 L10 Z02: emailed codes', () => {
  test.each(['free', 'start'] as const)('are refused on %s with 402 that names the plan', async (plan) => {
    const site = await makeAccess(await w.project(plan))
    const { status, body, headers } = await site.call('POST', '/email-mode', { json: {} })
    expect([status, headers.get('plinth-error')]).toEqual([402, 'plan_email_access'])
    expect(body.message).toContain('Pro')
  })

  test.each(['pro', 'business', 'scale', 'enterprise'] as const)('are allowed on %s', async (plan) => {
    const site = await makeAccess(await w.project(plan))
    const { status, body } = await site.call('POST', '/email-mode', { json: {} })
    expect([status, body]).toEqual([200, expect.objectContaining({ closed: true, mode: 'email' })])
  })

  test('W04: are allowed on every plan by the option of the site, which the operator sets', async () => {
    const site = await makeAccess(await w.project('free'))
    const option = (json: object) => w.call(`PATCH /operator/v1/sites/${site.id}`, { key: operatorToken, json })
    expect((await option({ email_access: true })).body).toMatchObject({ id: site.id, email_access: true })
    expect((await site.get()).entitlements).toEqual({ password: false, email_code: true })
    expect((await site.call('POST', '/email-mode', { json: {} })).body.mode).toBe('email')
    expect((await site.call('POST', '/bypass')).status).toBe(200)
    expect((await option({ email_access: false })).status).toBe(200)
    expect((await site.get()).mode).toBe('email')
    expect((await site.call('POST', '/email-mode', { json: {} })).status).toBe(402)
  })

  test('E38: the option of an unknown site is a 404, and its value must be true or false', async () => {
    const option = (id: string, json: object) => w.call(`PATCH /operator/v1/sites/${id}`, { key: operatorToken, json })
    const { id } = await makeAccess()
    expect((await option('00000000-0000-7000-8000-000000000000', { email_access: true })).status).toBe(404)
    expect((await option('x', { email_access: true })).status).toBe(404)
    expect([(await option(id, {})).status, (await option(id, { email_access: 'yes' })).status]).toEqual([422, 422])
    expect((await w.call(`PATCH /operator/v1/sites/${id}`, { key: owner.key, json: { email_access: true } })).status).toBe(401)
  })

  test('keep the end and the limits of the lock, and delete its password', async () => {
    const site = await makeAccess()
    await site.close()
    await site.patch('/opens', { max_opens: 7 })
    const { body } = await site.call('POST', '/email-mode', { json: {} })
    expect(body).toMatchObject({ mode: 'email', max_opens: 7 })
    expect((await site.lock())?.sealed_password).toBeNull()
  })
})

describe('E36: the bypass token', () => {
  test('is shown once, kept as a hash, and ended by the next one and by the removal', async () => {
    const site = await makeAccess()
    await site.close()
    const { token } = (await site.call('POST', '/bypass')).body
    expect(token).toMatch(/^[\w-]{43}$/)
    const first = (await site.lock())?.bypass_sha256
    expect(first).toBe(createHash('sha256').update(token).digest('hex'))
    await site.call('POST', '/bypass')
    expect((await site.lock())?.bypass_sha256).not.toBe(first)
    expect((await site.call('DELETE', '/bypass')).status).toBe(200)
    expect((await site.lock())?.bypass_sha256).toBeNull()
  })
})

test('E36: previews_closed is an option of the site that the edge gets', async () => {
  const site = await makeAccess()
  const before = await site.version()
  const url = `/api/v1/sites/${site.id}`
  expect((await w.call(`GET ${url}`, { key: owner.key })).body.previews_closed).toBe(false)
  const { body } = await w.call(`PATCH ${url}`, { key: owner.key, json: { previews_closed: true } })
  expect(body.previews_closed).toBe(true)
  expect(await site.version()).toBeGreaterThan(before)
})

test('E38: a suspended project may not close its sites, and may open them and end what opens them', async () => {
  const project = await w.project('pro')
  const site = await makeAccess(project)
  await site.close()
  await change(project, { suspended: true })
  const refused = [await site.close(), await site.call('POST', '/email-mode', { json: {} }), await site.call('POST', '/bypass')]
  expect(refused.map(({ status, headers }) => [status, headers.get('plinth-error')])).toEqual(
    refused.map(() => [402, 'suspended']),
  )
  const open = [await site.call('DELETE', '/bypass'), await site.call('GET', '/password'), await site.call('DELETE')]
  expect(open.map(({ status }) => status)).toEqual([200, 200, 200])
})

test('the access of a site in the trash can be read and not changed', async () => {
  const site = await makeAccess()
  await site.close()
  await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
  expect((await site.get()).mode).toBe('password')
  const refused = [await site.close(), await site.call('DELETE'), await site.patch('/expiry', { days: 1 })]
  expect(refused.map(({ status, headers }) => [status, headers.get('plinth-error')])).toEqual(
    refused.map(() => [409, 'in_trash']),
  )
})

test('of many changes at once each leaves one lock, with the password of the last', async () => {
  const site = await makeAccess()
  const answers = await Promise.all(Array.from({ length: 8 }, () => site.close()))
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
  const shown = (await site.call('GET', '/password')).body.password
  expect(answers.map(({ body }) => body.password)).toContain(shown)
})
