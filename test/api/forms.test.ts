import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite } from './form-site.ts'

// The endpoint that visitors post to: bodies, origins, answers.

let w: World
let owner: TestProject
let site: FormSite
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await makeFormSite(w, owner)
})

const stored = (siteId = site.id) =>
  w.db.selectFrom('form_submissions').selectAll().where('site_id', '=', siteId).orderBy('id').execute()
const contents = async () => (await stored()).map(({ data }) => data)
const form = 'application/x-www-form-urlencoded'
const refused = (status: number, reason: string) => ({ status, body: { message: expect.stringMatching(/\S/), reason } })

describe('bodies', () => {
  test('F01: a form is taken as JSON, urlencoded and multipart, with names and texts of any script', async () => {
    const multipart = new FormData()
    multipart.append('имя', 'Ада')
    multipart.append('topic', 'a')
    multipart.append('topic', 'b')
    multipart.append('photo', new File(['bytes'], 'photo.png'))
    const answers = [
      await site.post({ name: 'Ada', age: 36, subscribed: true, topics: ['a', 'b'], note: null, address: { city: 'London' } }),
      await site.post('name=Ada+L%C3%B6v&topic=a&topic=b&%D0%B8=%F0%9F%A6%AB', { type: form }),
      await site.post(multipart),
    ]
    expect(answers.map(({ status, body }) => [status, body])).toEqual(Array.from({ length: 3 }, () => [200, { ok: true }]))
    expect(await contents()).toEqual([
      { name: 'Ada', age: 36, subscribed: true, topics: ['a', 'b'], note: null, address: { city: 'London' } },
      { name: 'Ada Löv', topic: ['a', 'b'], и: '🦫' },
      { имя: 'Ада', topic: ['a', 'b'] },
    ])
  })

  test.each([
    ['text/plain', {}],
    ['', {}],
    ['application/json; charset=utf-16', {}],
    [`${form}; charset=utf-7`, {}],
    ['application/json', { 'content-encoding': 'gzip' }],
    ['__proto__', {}],
    ['constructor', {}],
  ])('F02: a body of %j %j is refused', async (type, headers) => {
    const answer = await site.post('{}', { type, headers })
    expect(answer).toMatchObject(refused(415, 'unsupported_content_type'))
    expect(answer.headers.get('plinth-error')).toBe('unsupported_content_type')
  })

  test.each([
    ['application/json', '{"a":'],
    ['application/json', ''],
    ['application/json', '[]'],
    ['application/json', '"text"'],
    ['application/json', 'null'],
    ['application/json', '{"a":1e400}'],
    ['application/json', `{"a":${'['.repeat(5000)}${']'.repeat(5000)}}`],
    ['application/json', `{"a":[${'1,'.repeat(20_000)}1]}`],
    ['application/json', Buffer.from([0x22, 0xff, 0x22])],
    [form, Buffer.from([0x61, 0x3d, 0xff])],
    ['multipart/form-data', '--x--'],
    ['multipart/form-data; boundary=x', 'nothing of a form'],
    ['multipart/form-data; boundary=x', '--x\r\ncontent-disposition: form-data; name="a"\r\n\r\ncut off'],
  ])('F08: a body of %s that does not parse is refused: %.20s', async (type, body) => {
    expect(await site.post(body, { type })).toMatchObject(refused(400, 'invalid_body'))
  })

  test('F13: a body has at most 50 KB', async () => {
    const padded = (bytes: number) => `{"a":"${'x'.repeat(bytes - 8)}"}`
    expect((await site.post(padded(51_200))).status).toBe(200)
    expect(await site.post(padded(51_201))).toMatchObject(refused(413, 'body_too_large'))
  })

  test('F13: a form has at most 30 fields, besides those of the platform; a repeated one counts once', async () => {
    const fields = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, 'x']))
    expect((await site.post({ ...fields(30), _submit_time: 0, _hp_x: '', _next: '/' })).status).toBe(200)
    expect(await site.post(fields(31))).toMatchObject(refused(400, 'too_many_fields'))
    expect((await site.post('a=1&'.repeat(900), { type: form })).status).toBe(200)
    expect(await site.post('a=1&'.repeat(1001), { type: form })).toMatchObject(refused(400, 'too_many_fields'))
  })

  test.each([
    [
      'application/json',
      '{"__proto__":"x","constructor":1,"":"empty name"}',
      { ['__proto__']: 'x', constructor: 1, '': 'empty name' },
    ],
    [form, '__proto__=x&toString=y', { ['__proto__']: 'x', toString: 'y' }],
    ['application/json', '{"a\\u0000b":"c\\u0000\\ud800"}', { 'a\ufffdb': 'c\ufffd\ufffd' }],
    [form, 'a=%00&b=%zz&c=%ff', { a: '\ufffd', b: '%zz', c: '\ufffd' }],
    ['application/json', '{"big":12345678901234567890,"a[b][c]":"x"}', { big: 12345678901234567000, 'a[b][c]': 'x' }],
    [form, '', {}],
  ])('47: a hostile body of %s is stored as text: %s', async (type, body, expected) => {
    expect((await site.post(body, { type })).status).toBe(200)
    const [data] = await contents()
    expect(JSON.stringify(data)).toBe(JSON.stringify(sorted(expected)))
  })

  /** As jsonb keeps names: by length, then by bytes. */
  function sorted(data: object): object {
    const byName = ([a]: [string, unknown], [b]: [string, unknown]) => a.length - b.length || (a < b ? -1 : 1)
    return Object.fromEntries(Object.entries(data).sort(byName))
  }
})

describe('service fields', () => {
  test('F20: they are not content', async () => {
    await site.post({ a: 'x', _submit_time: 1, _request_id: crypto.randomUUID(), _next: '/thanks', _hp_abc: ' ', _other: 'y' })
    expect(await contents()).toEqual([{ a: 'x', _other: 'y' }])
  })

  test.each<[string, (now: number) => unknown, string]>([
    ['now', (now) => now, 'spam'],
    ['2.5 s ago', (now) => now - 2500, 'spam'],
    ['3.1 s ago', (now) => now - 3100, 'verified'],
    ['4 s ago, as text', (now) => String(now - 4000), 'verified'],
    ['a year ago', (now) => now - 365 * 86_400_000, 'verified'],
    ['before 1970', () => -5, 'verified'],
    ['in an hour', (now) => now + 3_600_000, 'spam'],
    ['no number', () => 'soon', 'verified'],
    ['empty', () => '', 'verified'],
    ['NaN', () => 'NaN', 'verified'],
    ['an object', () => ({ a: 1 }), 'verified'],
  ])('F05: a form that was shown %s', async (_when, shown, status) => {
    expect(await site.post({ a: 'x', _submit_time: shown(w.clock().getTime()) })).toMatchObject({
      status: 200,
      body: { ok: true },
    })
    expect((await stored()).map((row) => row.status)).toEqual([status])
  })

  test('F06: a repeated request is stored once for each site, also when both come at once', async () => {
    const post = { a: 'x', _request_id: crypto.randomUUID() }
    const answers = [await site.post(post), await site.post({ ...post, _request_id: post._request_id.toUpperCase() })]
    const at = { a: 'y', _request_id: crypto.randomUUID() }
    answers.push(...(await Promise.all(Array.from({ length: 8 }, () => site.post(at)))))
    expect(answers.every(({ status, body }) => status === 200 && body.ok)).toBe(true)
    expect(await stored()).toHaveLength(2)
    const other = await makeFormSite(w, owner)
    await other.post(post)
    expect(await stored(other.id)).toHaveLength(1)
    await site.post({ a: 'z', _request_id: 'no uuid' })
    await site.post({ a: 'z', _request_id: 'no uuid' })
    expect(await stored()).toHaveLength(4)
  })

  test.each([
    ['filled', { _hp_x: 'me' }, 0],
    ['filled with a number', { _hp_x: 0 }, 0],
    ['filled twice', { _hp_x: ['', 'me'] }, 0],
    ['blank', { _hp_x: '  ' }, 1],
    ['null', { _hp_x: null }, 1],
  ])('F07: a honeypot that is %s', async (_what, field, count) => {
    expect(await site.post({ a: 'x', ...field })).toMatchObject({ status: 200, body: { ok: true } })
    expect(await stored()).toHaveLength(count)
  })
})

describe('origins', () => {
  test('F04: after a change of the subdomain only the new one counts', async () => {
    const subdomain = `${site.subdomain.slice(0, 20)}-new`
    await w.call(`POST /api/v1/sites/${site.id}/subdomain-change`, { key: owner.key, json: { subdomain } })
    const changed = site.url.replace(site.subdomain, subdomain)
    expect((await site.post({}, { origin: changed })).status).toBe(403)
    await w.db.updateTable('sites').set({ subdomain }).where('id', '=', site.id).execute()
    expect((await site.post({}, { origin: changed })).status).toBe(200)
    expect((await site.post({})).status).toBe(403)
  })

  test('E15: pages of the site may read the answer, and get a preflight response', async () => {
    const preflight = (origin: string) =>
      fetch(site.form_endpoint.replace(w.config.urls.base, w.base), { method: 'OPTIONS', headers: { origin } })
    const allowed = await preflight(site.url)
    expect([allowed.status, allowed.headers.get('access-control-allow-origin')]).toEqual([204, site.url])
    expect(allowed.headers.get('access-control-allow-headers')).toContain('content-type')
    expect(allowed.headers.get('vary')).toContain('Origin')
    const foreign = await preflight('https://evil.example')
    expect([foreign.status, foreign.headers.get('access-control-allow-origin')]).toEqual([204, null])
    expect((await site.post({})).headers.get('access-control-allow-origin')).toBe(site.url)
    expect((await site.post('{')).headers.get('access-control-allow-origin')).toBe(site.url)
    expect((await site.post({}, { origin: 'https://evil.example' })).headers.get('access-control-allow-origin')).toBe(null)
  })
})

test('E15 E12: unknown, malformed and trashed sites are not found; the form of a disabled site works', async () => {
  for (const id of ['00000000-0000-7000-8000-000000000000', 'x', '%00']) {
    const options = { headers: { origin: site.url }, json: { a: 'x' } }
    expect(await w.call(`POST /f/${id}`, options)).toMatchObject(refused(404, 'site_not_found'))
  }
  await w.call(`POST /api/v1/sites/${site.id}/enabled`, { key: owner.key, json: { enabled: false } })
  expect((await site.post({ a: 'x' })).status).toBe(200)
  await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
  expect(await site.post({ a: 'x' })).toMatchObject(refused(404, 'site_not_found'))
})

test('F10: a suspended project gets 402, before any rate', async () => {
  const project = await w.project('free')
  const suspended = await makeFormSite(w, project)
  await w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended: true } })
  expect(await suspended.post({ a: 'x' })).toMatchObject(refused(402, 'suspended'))
})
