import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maskedEmail } from '../../core/access-login.ts'
import { recordLogin } from '../../services/access/login-log.ts'
import { deleteExpired } from '../../services/removal/expired.ts'
import { makeSite } from '../make.ts'
import { type CallOptions, operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

/** A site that asks for codes, with calls to its addresses. */
async function makeList(project = owner, closed = true) {
  const site = await makeSite(w, project)
  const path = `/api/v1/sites/${site.id}/access`
  const call = (verb: string, below = '', options: CallOptions = {}) =>
    w.call(`${verb} ${path}/emails${below}`, { key: project.key, ...options })
  if (closed) await w.call(`POST ${path}/email-mode`, { key: project.key, json: {} })
  return {
    ...site,
    call,
    add: async (email: string, label?: string) => (await call('POST', '', { json: { email, label } })).body,
    bulk: (raw: unknown) => call('POST', '/bulk', { json: { raw } }),
    remove: (json: object) => call('POST', '/remove', { json }),
    list: async () => (await call('GET')).body,
    emails: async () => (await call('GET')).body.items.map((item: any) => item.email),
    epoch: async () =>
      (await w.db.selectFrom('access_locks').select('epoch').where('site_id', '=', site.id).executeTakeFirst())?.epoch,
    generations: () =>
      w.db.selectFrom('access_generations').select(['subject', 'generation']).where('site_id', '=', site.id).execute(),
    version: async () =>
      (await w.db.selectFrom('sites').select('version').where('id', '=', site.id).executeTakeFirstOrThrow()).version,
  }
}

const many = (count: number, from = 0) => Array.from({ length: count }, (_, index) => `reader-${from + index}@example.com`)

describe('E04: an address', () => {
  test('is added, labelled and removed', async () => {
    const site = await makeList()
    const added = await site.add(' Ada@Example.COM ', 'Ada')
    const { id } = added
    expect(added).toEqual({
      id: expect.any(String),
      email: 'ada@example.com',
      label: 'Ada',
      created_at: expect.any(String),
      last_login_at: null,
      logins: [],
    })
    expect(await site.list()).toEqual({ items: [added], foreign_attempts: [], total: 1, limit: 1000 })
    const labelled = await site.call('PATCH', `/${id}`, { json: { label: 'Countess' } })
    expect([labelled.status, labelled.body]).toEqual([200, { ...added, label: 'Countess' }])
    expect((await site.call('PATCH', `/${id}`, { json: { label: '' } })).body.label).toBeNull()
    const removed = await site.call('DELETE', `/${id}`)
    expect([removed.status, removed.body]).toEqual([200, { ok: true }])
    expect((await site.call('DELETE', `/${id}`)).status).toBe(404)
    expect((await site.call('PATCH', `/${id}`, { json: { label: 'x' } })).status).toBe(404)
  })

  test('is counted in the state of the access', async () => {
    const site = await makeList()
    await site.add('ada@example.com')
    const { body } = await w.call(`GET /api/v1/sites/${site.id}/access`, { key: owner.key })
    expect(body.emails_count).toBe(1)
  })

  test('is not listed twice, whatever its case', async () => {
    const site = await makeList()
    await site.add('ada@example.com')
    const { status, body } = await site.call('POST', '', { json: { email: 'ADA@example.com' } })
    expect([status, body.message]).toEqual([409, 'the address is listed already'])
  })

  test.each([
    [{ email: 'not an address' }, 422, 'plain address'],
    [{ email: 'Ada <ada@example.com>' }, 422, 'plain address'],
    [{ email: 'a@example.com, b@example.com' }, 422, 'plain address'],
    [{ email: '"a b"@example.com' }, 422, 'plain address'],
    [{ email: 'ada@exämple.com' }, 422, 'plain address'],
    [{ email: `${'a'.repeat(65)}@example.com` }, 422, 'plain address'],
    [{ email: 'x'.repeat(900_000) }, 422, 'at most 320'],
    [{ email: 7 }, 422, 'must be a text'],
    [{}, 400, 'email is missing'],
    [{ email: 'ada@example.com', label: 'x'.repeat(81) }, 422, 'at most 80'],
    [{ email: 'ada@example.com', label: 'two\nlines' }, 422, 'one line'],
  ])('%# is refused', async (json, expected, message) => {
    const site = await makeList()
    const { status, body } = await site.call('POST', '', { json })
    expect([status, body.message]).toEqual([expected, expect.stringContaining(message)])
    expect((await site.list()).total).toBe(0)
  })

  test('of another site is absent', async () => {
    const [site, other] = [await makeList(), await makeList()]
    const { id } = await other.add('ada@example.com')
    expect((await site.call('DELETE', `/${id}`)).status).toBe(404)
    expect((await site.call('PATCH', `/${id}`, { json: { label: 'x' } })).status).toBe(404)
    expect(await other.emails()).toEqual(['ada@example.com'])
  })
})

describe('E05: a text with addresses', () => {
  test('is split at lines, commas and semicolons', async () => {
    const site = await makeList()
    await site.add('ada@example.com')
    const raw = 'Ada@example.com, grace@example.com;alan@example.com\r\n\n ; edsger@example.com\nnobody,GRACE@example.com'
    const { status, body } = await site.bulk(raw)
    expect([status, body]).toEqual([200, { added: 3, duplicates: 2, invalid: ['nobody'], total: 4 }])
    const expected = ['ada', 'grace', 'alan', 'edsger'].map((name) => `${name}@example.com`)
    expect((await site.emails()).sort()).toEqual(expected.sort())
  })

  test('without any address answers what is wrong with it', async () => {
    const site = await makeList()
    expect((await site.bulk('nobody')).body).toEqual({ added: 0, duplicates: 0, invalid: ['nobody'], total: 0 })
    const { body } = await site.bulk(`${'x'.repeat(5000)}\n${'y,'.repeat(500)}`)
    expect([body.invalid.length, body.invalid[0]]).toEqual([100, 'x'.repeat(100)])
  })

  test.each([
    ['without a part', ' ,;\n', 400, 'no address'],
    ['that is missing', undefined, 400, 'raw is missing'],
    ['that is a list', ['ada@example.com'], 422, 'must be a text'],
    ['of 1,000,000 characters', 'x'.repeat(1_000_000), 422, 'at most 262144'],
    ['with 5,000 addresses', many(5000).join('\n'), 409, '1000 addresses'],
    [
      'with 25,000 short ones',
      Array.from({ length: 25_000 }, (_, n) => `${n.toString(36)}@b.co`).join(','),
      409,
      '1000 addresses',
    ],
  ])('%s is refused', async (_what, raw, expected, message) => {
    const site = await makeList()
    const { status, body } = await site.bulk(raw)
    expect([status, body.message]).toEqual([expected, expect.stringContaining(message)])
    expect((await site.list()).total).toBe(0)
  })
})

describe('E08: a site lists 1,000 addresses', () => {
  test('and the next one is refused with 409, one by one and all at once', async () => {
    const site = await makeList()
    expect((await site.bulk(many(999).join('\n'))).body.total).toBe(999)
    const both = await site.bulk(many(2, 999).join('\n'))
    expect([both.status, both.headers.get('plinth-error')]).toEqual([409, 'quota_access_emails'])
    expect((await site.list()).total).toBe(999)
    expect((await site.call('POST', '', { json: { email: 'last@example.com' } })).status).toBe(200)
    const next = await site.call('POST', '', { json: { email: 'next@example.com' } })
    expect([next.status, next.body.message]).toEqual([409, expect.stringContaining('1000 addresses')])
    expect((await site.bulk(many(999).join(';'))).body).toMatchObject({ added: 0, duplicates: 999, total: 1000 })
    expect((await site.list()).items).toHaveLength(1000)
  })

  test('also when many are added at once', async () => {
    const site = await makeList()
    await site.bulk(many(995).join('\n'))
    const answers = await Promise.all(many(10, 995).map((email) => site.call('POST', '', { json: { email } })))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5)
    expect((await site.list()).total).toBe(1000)
  })
})

describe('E06: removing several', () => {
  test.each([
    [{ emails: ['ada@example.com'] }, 400, 'confirm: true'],
    [{ all: true }, 400, 'confirm: true'],
    [{ all: true, confirm: false }, 400, 'confirm: true'],
    [{ all: true, confirm: 'true' }, 422, 'true or false'],
    [{ confirm: true }, 422, 'either emails or all'],
    [{ emails: ['ada@example.com'], all: true, confirm: true }, 422, 'either emails or all'],
    [{ emails: [], confirm: true }, 422, 'at least 1'],
    [{ emails: many(1001), confirm: true }, 422, 'at most 1000'],
    [{ emails: 'ada@example.com', confirm: true }, 422, 'must be a list'],
    [{ all: false, confirm: true }, 422, 'all must be true'],
  ])('%# is refused', async (json, expected, message) => {
    const site = await makeList()
    await site.add('ada@example.com')
    const { status, body } = await site.remove(json)
    expect([status, body.message]).toEqual([expected, expect.stringContaining(message)])
    expect((await site.list()).total).toBe(1)
  })

  test('removes those that are listed, and raises their generations', async () => {
    const site = await makeList()
    await site.bulk(many(4).join('\n'))
    const { items } = await site.list()
    const before = [await site.epoch(), await site.version()] as const
    const { body } = await site.remove({ emails: ['READER-1@example.com', 'reader-2@example.com', 'nobody@b.c'], confirm: true })
    expect(body).toEqual({ removed: 2, total: 2 })
    const ids = items.filter(({ email }: any) => /reader-[12]@/.test(email)).map(({ id }: any) => id)
    expect((await site.generations()).map(({ subject }: any) => subject).sort()).toEqual(ids.sort())
    expect(await site.epoch()).toBe(before[0])
    expect(await site.version()).toBeGreaterThan(before[1])
  })

  test('of all gives the lock a new epoch', async () => {
    const site = await makeList()
    await site.bulk(many(4).join('\n'))
    const before = await site.epoch()
    expect((await site.remove({ all: true, confirm: true })).body).toEqual({ removed: 4, total: 0 })
    expect([await site.generations(), (await site.epoch()) === before]).toEqual([[], false])
  })

  test('of more than 200 in 30 days gives the lock a new epoch instead of generations', async () => {
    const site = await makeList()
    await site.bulk(many(202).join('\n'))
    const before = await site.epoch()
    await site.remove({ emails: many(200), confirm: true })
    expect([(await site.generations()).length, await site.epoch()]).toEqual([200, before])
    await site.remove({ emails: many(1, 200), confirm: true })
    expect([await site.generations(), (await site.epoch()) === before]).toEqual([[], false])
  })
})

test('E07: removing one address raises its generation and notifies the edge', async () => {
  const site = await makeList()
  const { id } = await site.add('ada@example.com')
  const before = await site.version()
  await site.call('DELETE', `/${id}`)
  expect(await site.generations()).toEqual([{ subject: id, generation: 1 }])
  expect(await site.version()).toBeGreaterThan(before)
})

test('E07: an address that is removed and added again has another subject', async () => {
  const site = await makeList()
  const { id } = await site.add('ada@example.com')
  await site.call('DELETE', `/${id}`)
  expect((await site.add('ada@example.com')).id).not.toBe(id)
})

test('the addresses outlive a switch of the mode and the lock, and removing them signs out nobody else', async () => {
  const site = await makeList()
  await site.bulk(many(3).join('\n'))
  const close = () => w.call(`PUT /api/v1/sites/${site.id}/access`, { key: owner.key, json: { level: 'easy' } })
  await close()
  const before = await site.epoch()
  expect((await site.remove({ emails: many(1), confirm: true })).body.total).toBe(2)
  expect((await site.remove({ all: true, confirm: true })).body.total).toBe(0)
  expect([await site.epoch(), await site.generations()]).toEqual([before, []])
  await site.add('ada@example.com')
  await w.call(`DELETE /api/v1/sites/${site.id}/access`, { key: owner.key })
  expect(await site.emails()).toEqual(['ada@example.com'])
  const { id } = (await site.list()).items[0]
  expect((await site.call('DELETE', `/${id}`)).status).toBe(200)
  expect(await site.generations()).toEqual([])
})

test('E03: the list has the last logins of each address and the attempts with others', async () => {
  const site = await makeList()
  const { id } = await site.add('ada@example.com', 'Ada')
  const record = { site_id: site.id, device: 'Firefox on Linux', network: '192.0.2.7' }
  for (let minute = 1; minute <= 22; minute++) {
    const at = new Date(Date.UTC(2026, 8, 7, 10, minute))
    await recordLogin(w.db, { ...record, access_email_id: id, email: 'ada@example.com', result: 'success', at })
  }
  const foreign = { ...record, access_email_id: null, email: 'mallory@example.org' }
  const at = new Date(Date.UTC(2026, 8, 7, 11))
  await recordLogin(w.db, { ...foreign, result: 'unlisted', at })
  const { items, foreign_attempts } = await site.list()
  const [{ logins }] = items
  expect(logins).toHaveLength(20)
  expect(logins[0]).toEqual({
    at: '2026-09-07T10:22:00.000Z',
    name: 'Ada',
    device: 'Firefox on Linux',
    ip_masked: expect.not.stringContaining('192.0.2.7'),
    result: 'success',
  })
  expect(logins[19].at).toBe('2026-09-07T10:03:00.000Z')
  expect(foreign_attempts).toEqual([
    { email_masked: maskedEmail('mallory@example.org'), at: at.toISOString(), device: 'Firefox on Linux' },
  ])
})

describe('J08 J10: the tools', () => {
  test('add a list of addresses and remove it', async () => {
    const site = await makeList()
    const site_id = site.id
    const added = await w.tool('add_site_access_emails', { site_id, emails: [...many(2), 'nobody'] }, owner.key)
    expect(added.structuredContent).toEqual({ added: 2, duplicates: 0, invalid: ['nobody'], total: 2 })
    const asked = await w.tool('remove_site_access_emails', { site_id, all: true }, owner.key)
    expect([asked.isError, asked.structuredContent]).toEqual([
      true,
      { status: 400, message: expect.stringContaining('confirm: true') },
    ])
    const removed = await w.tool('remove_site_access_emails', { site_id, all: true, confirm: true }, owner.key)
    expect(removed.structuredContent).toEqual({ removed: 2, total: 0 })
  })

  test('refuse 1,001 addresses', async () => {
    const { id: site_id } = await makeList()
    const { structuredContent } = await w.tool('add_site_access_emails', { site_id, emails: many(1001) }, owner.key)
    expect(structuredContent).toMatchObject({ status: 422, message: expect.stringContaining('at most 1000') })
  })
})

test('E38: a suspended project may not add addresses, and may remove them', async () => {
  const project = await w.project('pro')
  const site = await makeList(project)
  const { id } = await site.add('ada@example.com')
  await w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended: true } })
  const refused = [await site.call('POST', '', { json: { email: 'b@example.com' } }), await site.bulk('b@example.com')]
  expect(refused.map(({ status }) => status)).toEqual([402, 402])
  expect((await site.call('DELETE', `/${id}`)).status).toBe(200)
})

test('addresses can be listed beforehand on any plan: only closing the site is gated', async () => {
  const site = await makeList(await w.project('free'), false)
  expect((await site.add('ada@example.com')).email).toBe('ada@example.com')
})

test('codes are deleted after a day, and generations when no visit can be older', async () => {
  const site = await makeList()
  await site.bulk(many(2).join('\n'))
  await site.remove({ emails: many(1), confirm: true })
  const code = { site_id: site.id, email: 'reader-1@example.com', code_sha256: 'x', created_at: new Date() }
  await w.db.insertInto('access_codes').values(code).execute()
  const codes = () => w.db.selectFrom('access_codes').select('id').where('site_id', '=', site.id).execute()
  const after = async (days: number) => {
    await deleteExpired(w.db, new Date(Date.now() + days * 86_400_000))
    return [(await codes()).length, (await site.generations()).length]
  }
  expect([await after(0.9), await after(1.1), await after(29), await after(31)]).toEqual([
    [1, 1],
    [0, 1],
    [0, 1],
    [0, 0],
  ])
})
