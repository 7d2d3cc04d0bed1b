import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite, newAddress, type PostOptions } from './form-site.ts'

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
  const addDomain = async (domain: string, verified: boolean) => {
    await w.call(`POST /api/v1/sites/${site.id}/domains`, { key: owner.key, json: { domain } })
    if (verified) await w.db.updateTable('domains').set({ verified_at: new Date() }).where('domain', '=', domain).execute()
  }

  test('F03 F04 80: only pages of the site may post, at its subdomain and its verified domains', async () => {
    const name = site.subdomain
    await addDomain(`${name}.example.com`, true)
    await addDomain(`${name}.example.net`, false)
    const own = site.url
    const other = await makeFormSite(w, owner)
    const origins: [string | null, string][] = [
      [own, 'ok'],
      [`https://${name}.plinth.localhost:8443`, 'ok'],
      [`http://${name}.example.com:8080`, 'ok'],
      [`https://${name}.example.com`, 'ok'],
      [null, 'origin_required'],
      ['', 'origin_required'],
      ['null', 'origin_not_allowed'],
      [`${own}/`, 'origin_not_allowed'],
      [`${own}.evil.example`, 'origin_not_allowed'],
      [own.replace('://', '://evil'), 'origin_not_allowed'],
      [own.replace('://', '://evil.'), 'origin_not_allowed'],
      [own.replace('8080', '8081'), 'origin_not_allowed'],
      [own.replace(':8080', ''), 'origin_not_allowed'],
      [own.replace('http:', 'https:'), 'origin_not_allowed'],
      [own.toUpperCase(), 'origin_not_allowed'],
      [`${own}, ${own}`, 'origin_not_allowed'],
      [other.url, 'origin_not_allowed'],
      [`https://${name}.example.net`, 'origin_not_allowed'],
      [`https://${name}.example.com:4430`, 'origin_not_allowed'],
      [w.config.urls.base, 'origin_not_allowed'],
      [w.config.urls.preview, 'origin_not_allowed'],
      ['file://', 'origin_not_allowed'],
      ['%', 'origin_not_allowed'],
    ]
    const seen = []
    for (const [origin] of origins) {
      const { status, body } = await site.post({ a: 'x' }, { origin })
      seen.push([origin, status === 200 ? 'ok' : status === 403 && body.reason])
    }
    expect(seen).toEqual(origins)
  })

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

describe('what browsers without scripts see', () => {
  const html = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
  const submit = (fields: object, options: PostOptions = {}) => site.post(fields, { accept: html, ...options })

  test.each([
    ['en-GB,en;q=0.9', 'en', 'Thank you'],
    ['ru-RU,ru;q=0.9,en;q=0.5', 'ru', 'Спасибо'],
    ['fr', 'en', 'Thank you'],
    ['ru,'.repeat(5000), 'en', 'Thank you'],
  ])('a thank-you page for Accept-Language %.30s', async (languages, lang, text) => {
    const { status, headers, body } = await submit({ a: '<b>' }, { headers: { 'accept-language': languages } })
    expect([status, headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    expect(headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(body).toContain(`<html lang="${lang}">`)
    expect(body).toContain(text)
    expect(body).toContain(`<a href="${site.url}/">`)
  })

  test('a refusal is a page with its status and code', async () => {
    const { status, headers, body } = await submit({}, { origin: 'https://evil.example', headers: { 'accept-language': 'ru' } })
    expect([status, headers.get('plinth-error')]).toEqual([403, 'origin_not_allowed'])
    expect(body).toContain('Сообщение не отправлено')
    expect(body).not.toContain('evil')
  })

  test('E35: _next leads to a page of the site, for accepted, dropped and duplicate posts alike', async () => {
    const post = { _next: '/thanks?x=1', _request_id: crypto.randomUUID() }
    for (const fields of [post, post, { ...post, _hp_x: 'me' }]) {
      const { status, headers } = await submit(fields)
      expect([status, headers.get('location')]).toEqual([303, `${site.url}/thanks?x=1`])
    }
    expect((await submit({ _next: `${site.url}/a` })).headers.get('location')).toBe(`${site.url}/a`)
    expect((await site.post({ _next: '/thanks' })).body).toEqual({ ok: true })
  })

  test.each([
    '//evil.example',
    '/\\evil.example',
    'https://evil.example/',
    'javascript:alert(1)',
    '/\t/evil.example',
    'x',
    '',
    `/${'a'.repeat(3000)}`,
  ])('E35: _next=%.40s is ignored', async (next) => {
    const { status, headers } = await submit({ _next: next })
    expect([status, headers.get('location')]).toEqual([200, null])
  })

  test('E35: nothing in _next adds a header', async () => {
    const { headers } = await submit({ _next: '/a\r\nset-cookie: x=1' })
    expect([headers.get('location'), headers.get('set-cookie')]).toEqual([`${site.url}/aset-cookie:%20x=1`, null])
    expect((await submit({ _next: `http://user:pw@${new URL(site.url).host}/` })).status).toBe(200)
  })
})

describe('rates', () => {
  const count = (answers: { status: number }[], status: number) => answers.filter((answer) => answer.status === status).length

  test('F12 7: a site takes exactly 30 posts a minute, whichever process they reach', async () => {
    const second = await w.openSecondApi()
    const bases = [w.base, second]
    const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => site.post({ i }, { base: bases[i % 2] ?? w.base })))
    expect([count(answers, 200), count(answers, 429)]).toEqual([30, 70])
    const refusal = answers.find(({ status }) => status === 429)
    expect(refusal).toMatchObject(refused(429, 'rate_limited'))
    expect(Number(refusal?.headers.get('retry-after'))).toBeGreaterThan(50)
    expect(refusal?.headers.get('access-control-allow-origin')).toBe(site.url)
    expect(await stored()).toHaveLength(30)
    w.advance(30_000)
    expect((await site.post({})).status).toBe(429)
    w.advance(30_001)
    expect((await site.post({})).status).toBe(200)
  })

  test.each([
    ['192.0.2.', 'of one IPv4 address', (_i: number) => '192.0.2.7'],
    ['2001:db8::', 'of one IPv6 network', (i: number) => `2001:db8:7:7::${i + 1}`],
  ])('F12 7: %s… exactly 10 posts a minute %s are taken, whatever the site', async (_prefix, _what, address) => {
    const other = await makeFormSite(w, owner)
    const second = await w.openSecondApi()
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        (i % 3 === 0 ? other : site).post({ i }, { address: address(i), base: i % 2 === 0 ? second : w.base }),
      ),
    )
    expect([count(answers, 200), count(answers, 429)]).toEqual([10, 30])
    expect((await site.post({})).status).toBe(200)
    w.advance(61_000)
    expect((await site.post({}, { address: address(0) })).status).toBe(200)
  })

  test('an address that is refused takes nothing from the rate of the site', async () => {
    const address = newAddress()
    for (let i = 0; i < 40; i++) await site.post({ i }, { address })
    const answers = await Promise.all(Array.from({ length: 25 }, (_, i) => site.post({ i })))
    expect(count(answers, 200)).toBe(20)
  })
})
