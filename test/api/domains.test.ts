import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { unprovenDomainPeriodMs } from '../../core/limits.ts'
import { freePort } from '../../infra/local/ports.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { startZone, type Zone } from '../zone.ts'

// Custom domains through REST, the tools and the edge; the name server is ours.

const servingIp = '127.0.0.1'
const intervalMs = 10_000

let zone: Zone
let w: World
let owner: TestProject
let site: any
beforeAll(async () => {
  zone = await startZone()
  const env = { PLINTH_DNS_SERVERS: zone.address, PLINTH_SERVING_IPS: `${servingIp},2001:db8::1` }
  const edgePort = await freePort()
  // the way to the edge when nothing listens on port 80
  const http = { PLINTH_HTTP_PORT: String(edgePort), PLINTH_DNS_CHECK_INTERVAL: `${intervalMs}ms` }
  w = await world({ edge: true, edgePort, env: { ...env, ...http } })
})
afterAll(async () => {
  await w?.[Symbol.asyncDispose]()
  await zone?.[Symbol.asyncDispose]()
})
beforeEach(async () => {
  // look-ups are counted by project
  owner = await w.project('enterprise')
  site = await makeSite(w, owner)
})

const newName = (parent = 'example.com') => `d${randomBytes(5).toString('hex')}.${parent}`
const add = (domain: unknown, siteId = site.id, project = owner) =>
  w.call(`POST /api/v1/sites/${siteId}/domains`, { key: project.key, json: { domain } })
async function added(domain: string, siteId = site.id, project = owner): Promise<any> {
  const { status, body } = await add(domain, siteId, project)
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
  return body
}
const verify = (id: string, project = owner) => w.call(`POST /api/v1/domains/${id}/verify`, { key: project.key })
const list = async (siteId = site.id, project = owner): Promise<any[]> =>
  (await w.call(`GET /api/v1/sites/${siteId}/domains`, { key: project.key })).body
const remove = (id: string, project = owner) => w.call(`DELETE /api/v1/domains/${id}`, { key: project.key })
const prove = ({ txt }: any) => zone.set('TXT', txt.name, txt.value)
async function verified(domain: string, siteId = site.id, project = owner): Promise<any> {
  const record = await added(domain, siteId, project)
  prove(record)
  expect((await verify(record.id, project)).body).toMatchObject({ verified: true })
  return record
}
const shown = async (host: string) => {
  const { status, headers, body } = await w.open(`http://${host}/`)
  return headers.location ?? (status === 200 ? (/<title>(.*)<\/title>/.exec(body)?.[1] ?? '') : status)
}
/** The first step of the domain's workflow puts its next check off by the milliseconds that have passed. */
const asListed = (record: any) => ({ ...record, next_check_at: expect.any(String) })
const polled = (host: string) => expect.poll(() => shown(host), { interval: 20 })
const publish = (siteId: string, title: string, project = owner) => deployFiles(w, project, siteId, [page(title)])

describe('adding', () => {
  test('N01 E14: answers the record with the TXT record to add, and list_domains the same', async () => {
    const domain = newName()
    const record = await added(domain)
    expect(record).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      site_id: site.id,
      domain,
      verified: false,
      verification_token: expect.stringMatching(/^[0-9a-f]{64}$/),
      txt: { type: 'TXT', name: `_svc-verify.${domain}`, value: record.verification_token },
      a: { type: 'A', name: domain, values: [servingIp] },
      cname: null,
      warning: null,
      redirects_to: null,
      a_record: null,
      certificate: { status: 'none', expires_at: null, error: null, next_try_at: null },
      diagnostics: [],
      next_check_at: expect.any(String),
      created_at: expect.any(String),
      verified_at: null,
    })
    expect(await list()).toEqual([asListed(record)])
  })

  test.each([
    ['WWW.Example.COM', 'www.example.com'],
    ['example.com.', 'example.com'],
    ['bücher.de', 'xn--bcher-kva.de'],
    ['  spaced.com ', 'spaced.com'],
  ])('N01: %s is kept in one form', async (typed, kept) => {
    expect((await added(typed)).domain).toBe(kept)
    for (const again of [typed, typed.toUpperCase(), `${kept}.`, kept]) expect((await add(again)).status).toBe(409)
  })

  test.each([
    '',
    ' ',
    'example',
    'a_b.com',
    'https://example.com',
    'example.com/path',
    'example.com:80',
    'user@example.com',
    '127.0.0.1',
    '[::1]',
    'a..com',
    '-a.com',
    'exam\u0000ple.com',
    'xn--zzz--.com',
    `${'a'.repeat(64)}.com`,
    'co.uk',
    'github.io',
    '*.example.com',
    'plinth.localhost',
    'a.plinth.localhost',
    'localhost',
    'api.localhost',
    'x.preview.localhost',
  ])('N01: %j is refused with 400', async (domain) => {
    const { status, body } = await add(domain)
    expect([status, body.message]).toEqual([400, expect.stringContaining('the domain ')])
  })

  test('N01: a missing domain is a 400, another type a 422, a foreign site a 404', async () => {
    expect((await add(undefined)).status).toBe(400)
    expect((await add(7)).status).toBe(422)
    const other = await w.project('enterprise')
    expect((await add(newName(), site.id, other)).status).toBe(404)
  })

  test('N02: a domain that is attached anywhere is refused, to its own site as well', async () => {
    const { domain } = await added(newName())
    const other = await w.project('enterprise')
    const foreign = await add(domain, (await makeSite(w, other)).id, other)
    expect([foreign.status, foreign.body.message]).toEqual([409, expect.stringContaining('attached')])
    expect((await add(domain)).status).toBe(409)
  })

  test('N02: two projects that add a domain at once: one has it', async () => {
    const rivals = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const project = await w.project('enterprise')
        return { project, siteId: (await makeSite(w, project)).id }
      }),
    )
    const domain = newName()
    const answers = await Promise.all(rivals.map(({ project, siteId }) => add(domain, siteId, project)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409, 409])
  })

  test('N02 Z03 E38: the gates come in the order attached, suspension, quota', async () => {
    const project = await w.project('free')
    const { id } = await makeSite(w, project)
    const { domain } = await added(newName(), id, project)
    const suspend = (suspended: boolean) =>
      w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended } })
    await suspend(true)
    const taken = await add(domain, id, project)
    expect([taken.status, taken.body.message]).toEqual([409, expect.stringContaining('attached')])
    expect((await add(newName(), id, project)).status).toBe(402)
    await suspend(false)
    const full = await add(newName(), id, project)
    expect([full.status, full.body.message]).toEqual([409, expect.stringContaining('the Free plan allows 1 domain')])
    const [{ id: domainId } = { id: '' }] = await list(id, project)
    expect((await remove(domainId, project)).status).toBe(200)
    expect((await add(newName(), id, project)).status).toBe(200)
    const usage = await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })
    expect(usage.body.usage.domains).toBe(1)
  })

  test('N02: requests of one project at once do not exceed its quota', async () => {
    const project = await w.project('start')
    const { id } = await makeSite(w, project)
    const answers = await Promise.all(Array.from({ length: 9 }, () => add(newName(), id, project)))
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(5).fill(200), ...Array(4).fill(409)])
  })

  test('A03 A04: an editor adds and verifies, and only full deletes', async () => {
    const keyOf = async (scope: 'readonly' | 'editor') => ({ ...owner, key: await w.key(owner, scope) })
    const [reader, editor] = [await keyOf('readonly'), await keyOf('editor')]
    expect((await add(newName(), site.id, reader)).status).toBe(403)
    const { id } = await added(newName(), site.id, editor)
    expect((await verify(id, reader)).status).toBe(403)
    expect((await verify(id, editor)).status).toBe(200)
    expect([(await remove(id, reader)).status, (await remove(id, editor)).status, (await remove(id)).status]).toEqual([
      403, 403, 200,
    ])
  })
})

describe('verifying', () => {
  test('N03 N04: the TXT record decides, a wrong A record is told and changes nothing', async () => {
    const record = await added(newName())
    prove(record)
    zone.set('A', record.domain, '198.51.100.7')
    const { status, body } = await verify(record.id)
    expect([status, body.verified, body.message]).toEqual([200, true, expect.stringContaining('proves')])
    expect(body.a_record).toEqual({
      ok: false,
      found: ['198.51.100.7'],
      expected: [servingIp],
      message: expect.stringContaining(`change it to ${servingIp}`),
    })
    const [listed] = await list()
    expect(listed).toMatchObject({ verified: true, verified_at: expect.any(String), a_record: body.a_record })
    zone.set('A', record.domain, servingIp)
    w.advance(intervalMs)
    expect((await verify(record.id)).body).toMatchObject({ verified: true, a_record: { ok: true, found: [servingIp] } })
  })

  test('N03: without the TXT record the domain is not verified, and the message says what is missing', async () => {
    const record = await added(newName())
    zone.set('A', record.domain, servingIp)
    const absent = (await verify(record.id)).body
    expect(absent).toMatchObject({ verified: false, a_record: { ok: true }, message: expect.stringContaining('no TXT record') })
    zone.set('TXT', record.txt.name, 'v=spf1 -all', record.verification_token.slice(1))
    w.advance(intervalMs)
    const other = (await verify(record.id)).body
    expect(other).toMatchObject({ verified: false, message: expect.stringContaining('another value') })
    expect(other.diagnostics.find((one: any) => one.check === 'txt')).toMatchObject({
      ok: false,
      found: ['v=spf1 -all', record.verification_token.slice(1)],
    })
    zone.set('TXT', record.txt.name, 'v=spf1 -all', `"${record.verification_token}"`)
    w.advance(intervalMs)
    expect((await verify(record.id)).body.verified).toBe(true)
  })

  test('N05: an unverified domain that is asked again within 10 s is a 429, a verified one answers without an A record', async () => {
    const record = await added(newName())
    expect((await verify(record.id)).body.verified).toBe(false)
    const soon = await verify(record.id)
    expect([soon.status, soon.headers.get('retry-after')]).toEqual([429, '10'])
    prove(record)
    expect((await verify(record.id)).status).toBe(429)
    w.advance(intervalMs)
    expect((await verify(record.id)).body).toMatchObject({ verified: true, a_record: { ok: false } })
    // its workflow has nothing to look up any more
    const row = () => w.db.selectFrom('domains').select('connected_at').where('id', '=', record.id).executeTakeFirst()
    await expect.poll(async () => (await row())?.connected_at).toBeTruthy()
    const askedBefore = zone.asked.length
    const again = await verify(record.id)
    expect([again.status, again.body]).toEqual([200, expect.objectContaining({ verified: true, a_record: null })])
    expect(zone.asked.slice(askedBefore)).toEqual([])
  })

  test('N03: AAAA, CNAME and CAA records are looked at, each with what to do', async () => {
    const record = await added(newName())
    zone.set('AAAA', record.domain, '2001:db8::bad')
    zone.set('A', record.domain, '198.51.100.7')
    zone.set('CAA', record.domain.split('.').slice(1).join('.'), 'issue ca.example')
    const first = (await verify(record.id)).body.diagnostics
    expect(first).toEqual([
      expect.objectContaining({ check: 'txt', ok: false }),
      expect.objectContaining({
        check: 'aaaa',
        ok: false,
        found: ['2001:db8::bad'],
        message: expect.stringContaining('remove the AAAA'),
      }),
      expect.objectContaining({ check: 'cname', ok: true, found: [] }),
      expect.objectContaining({ check: 'caa', ok: true, found: ['0 issue "ca.example"'] }),
      expect.objectContaining({ check: 'port_80', ok: false, message: expect.stringContaining('198.51.100.7') }),
    ])
    zone.set('AAAA', record.domain, '2001:db8::1')
    zone.set('A', record.domain)
    zone.set('CNAME', record.domain, 'elsewhere.example.net')
    zone.set('A', 'elsewhere.example.net', '198.51.100.7')
    w.advance(intervalMs)
    const second = (await verify(record.id)).body
    expect(second.a_record).toMatchObject({ ok: false, found: ['198.51.100.7'] })
    expect(second.diagnostics.find((one: any) => one.check === 'cname')).toMatchObject({
      ok: false,
      found: ['elsewhere.example.net'],
      message: expect.stringContaining('remove the CNAME'),
    })
    expect((await list())[0].diagnostics).toEqual(second.diagnostics)
    zone.set('CAA', record.domain.split('.').slice(1).join('.'))
  })

  test('N03: port 80 is asked for our own token, with the address and the name of the domain', async () => {
    const record = await added(newName())
    zone.set('A', record.domain, servingIp)
    const { diagnostics } = (await verify(record.id)).body
    expect(diagnostics.at(-1)).toEqual({ check: 'port_80', ok: true, found: [], message: expect.stringContaining(record.domain) })
  })

  test('N07: list_domains shows every domain of the site with its flag and token, in the order of adding', async () => {
    const names = [newName(), newName(), newName()]
    for (const name of names) await added(name)
    await verified(newName())
    const domains = await list()
    expect(domains.map(({ domain }) => domain).slice(0, 3)).toEqual(names)
    expect(domains.map(({ verified: flag }) => flag)).toEqual([false, false, false, true])
    expect(new Set(domains.map(({ verification_token }) => verification_token)).size).toBe(4)
    expect((await w.call(`GET /api/v1/sites/${site.id}/domains`, { key: (await w.project()).key })).status).toBe(404)
  })
})

test('J05: the tools answer as REST does, and delete_domain wants a confirmation', async () => {
  const tool = (name: string, args: object) => w.tool(name, args, owner.key)
  const { structuredContent: record } = await tool('set_custom_domain', { site_id: site.id, domain: newName() })
  expect(await list()).toEqual([asListed(record)])
  prove(record)
  expect((await tool('verify_domain', { domain_id: record.id })).structuredContent.verified).toBe(true)
  expect((await tool('list_domains', { site_id: site.id })).structuredContent).toEqual({ items: await list() })
  const unconfirmed = await tool('delete_domain', { domain_id: record.id })
  expect([unconfirmed.isError, unconfirmed.structuredContent.status]).toEqual([true, 400])
  expect((await tool('delete_domain', { domain_id: record.id, confirm: true })).structuredContent).toEqual({ ok: true })
  expect(await list()).toEqual([])
})

describe('at the edge', () => {
  test('N03 N08: a domain shows its site from the proof until its deletion, and not before or after', async () => {
    await publish(site.id, 'mine')
    const record = await added(newName())
    expect(await shown(record.domain)).toBe(404)
    await verify(record.id)
    expect(await shown(record.domain)).toBe(404)
    prove(record)
    w.advance(intervalMs)
    await verify(record.id)
    await polled(record.domain).toBe('mine')
    for (const host of [record.domain.toUpperCase(), `${record.domain}.`, `${record.domain}:8080`])
      expect(await shown(host)).toBe('mine')
    expect(await shown(`a.${record.domain}`)).toBe(404)
    expect((await remove(record.id)).body).toEqual({ ok: true })
    await polled(record.domain).toBe(404)
    expect((await remove(record.id)).status).toBe(404)
    expect((await verify(record.id)).status).toBe(404)
  })

  test('N08: a deleted domain goes to whoever proves it next, with a new token; the old token is worth nothing', async () => {
    await publish(site.id, 'old owner')
    const record = await verified(newName())
    await polled(record.domain).toBe('old owner')
    await remove(record.id)
    const other = await w.project('enterprise')
    const theirs = await makeSite(w, other)
    await publish(theirs.id, 'new owner', other)
    const again = await added(record.domain, theirs.id, other)
    expect([again.id === record.id, again.verification_token === record.verification_token]).toEqual([false, false])
    // the record of the old owner is still there
    expect((await verify(again.id, other)).body.verified).toBe(false)
    await polled(record.domain).toBe(404)
    prove(again)
    w.advance(intervalMs)
    expect((await verify(again.id, other)).body.verified).toBe(true)
    await polled(record.domain).toBe('new owner')
    expect((await verify(record.id)).status).toBe(404)
  })

  test('E14: an unverified domain of more than 7 days goes to another project that adds it, a verified one never', async () => {
    const abandoned = await added(newName())
    const kept = await verified(newName())
    const other = await w.project('enterprise')
    const theirs = await makeSite(w, other)
    w.advance(unprovenDomainPeriodMs - 60_000)
    expect((await add(abandoned.domain, theirs.id, other)).status).toBe(409)
    w.advance(120_000)
    expect((await add(abandoned.domain)).status).toBe(409)
    expect((await add(kept.domain, theirs.id, other)).status).toBe(409)
    const again = await added(abandoned.domain, theirs.id, other)
    expect(again.verification_token).not.toBe(abandoned.verification_token)
    expect((await list()).map(({ domain }) => domain)).toEqual([kept.domain])
    expect((await verify(abandoned.id)).status).toBe(404)
    const mails = await w.db.selectFrom('mails').select('subject').where('project_id', '=', owner.id).execute()
    expect(mails.map(({ subject }) => subject)).toContain(`${abandoned.domain} was removed from your site`)
    w.advance(-unprovenDomainPeriodMs - 60_000)
  })

  test('E12 E14: while its site is in the trash a domain is held, answers nobody and is not verified', async () => {
    await publish(site.id, 'trashed')
    const live = await verified(newName())
    const waiting = await added(newName())
    prove(waiting)
    await polled(live.domain).toBe('trashed')
    await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
    await polled(live.domain).toBe(404)
    for (const { id } of [live, waiting]) expect((await verify(id)).status).toBe(409)
    expect((await add(newName())).status).toBe(409)
    const other = await w.project('enterprise')
    expect((await add(live.domain, (await makeSite(w, other)).id, other)).status).toBe(409)
    await w.call(`POST /api/v1/sites/${site.id}/restore`, { key: owner.key })
    await polled(live.domain).toBe('trashed')
    expect((await verify(waiting.id)).body.verified).toBe(true)
  })

  test('N08: of a name and its www the one that was added first answers, the other leads there', async () => {
    await publish(site.id, 'twins')
    const apex = newName()
    const first = await verified(apex)
    const second = await verified(`www.${apex}`)
    const port = new URL(w.config.urls.base).port
    await polled(apex).toBe('twins')
    await polled(`www.${apex}`).toBe(`http://${apex}:${port}/`)
    const { status, headers } = await w.open(`http://www.${apex}/a/b?c=d`)
    expect([status, headers.location]).toEqual([308, `http://${apex}:${port}/a/b?c=d`])
    expect((await list()).map(({ redirects_to }) => redirects_to)).toEqual([null, apex])
    await remove(first.id)
    await polled(`www.${apex}`).toBe('twins')
    expect((await list()).map(({ id, redirects_to }) => [id, redirects_to])).toEqual([[second.id, null]])
  })

  test('N03: a proof for the parent does not prove a name below it, whatever a wildcard record says', async () => {
    await publish(site.id, 'below')
    const parent = await verified(newName())
    const child = await added(`child.${parent.domain}`)
    zone.set('TXT', `*.${parent.domain}`, parent.verification_token)
    zone.set('A', `*.${parent.domain}`, servingIp)
    expect((await verify(child.id)).body).toMatchObject({ verified: false, a_record: { ok: true } })
    expect(await shown(child.domain)).toBe(404)
  })

  test('N08: the domain of one site is not the domain of another of the same project', async () => {
    await publish(site.id, 'one')
    const record = await verified(newName())
    await polled(record.domain).toBe('one')
    const second = await makeSite(w, owner)
    await publish(second.id, 'two')
    await remove(record.id)
    w.advance(intervalMs)
    await verified(record.domain, second.id)
    await polled(record.domain).toBe('two')
  })
})

describe('wildcards', () => {
  let dns: World
  let project: TestProject
  beforeAll(async () => {
    dns = await world({
      edge: true,
      env: {
        PLINTH_DNS_SERVERS: zone.address,
        PLINTH_SERVING_IPS: servingIp,
        PLINTH_ACME_DNS_LISTEN: '127.0.0.1:5353',
        PLINTH_ACME_DNS_ZONE: 'acme.plinth.example',
      },
    })
    project = await dns.project('enterprise')
  })
  afterAll(() => dns?.[Symbol.asyncDispose]())

  test('N01 N06: with DNS-01 a wildcard is added with the alias of its challenge, and answers for one label', async () => {
    const mine = await makeSite(dns, project)
    await deployFiles(dns, project, mine.id, [page('wild')])
    const parent = newName()
    const call = (endpoint: string, json?: object) => dns.call(endpoint, { key: project.key, ...(json && { json }) })
    const { body } = await call(`POST /api/v1/sites/${mine.id}/domains`, { domain: `*.${parent.toUpperCase()}` })
    expect(body).toMatchObject({
      domain: `*.${parent}`,
      txt: { name: `_svc-verify.${parent}` },
      a: { name: `*.${parent}`, values: [servingIp] },
      cname: { type: 'CNAME', name: `_acme-challenge.${parent}`, value: `_acme-challenge.${parent}.acme.plinth.example` },
    })
    prove(body)
    zone.set('A', `*.${parent}`, servingIp)
    const first = (await call(`POST /api/v1/domains/${body.id}/verify`)).body
    expect(first).toMatchObject({ verified: true, a_record: { ok: true } })
    expect(first.diagnostics.find((one: any) => one.check === 'cname')).toMatchObject({
      ok: false,
      message: expect.stringContaining(body.cname.value),
    })
    zone.set('CNAME', body.cname.name, body.cname.value)
    dns.advance(intervalMs)
    const second = (await call(`POST /api/v1/domains/${body.id}/verify`)).body
    expect(second.diagnostics.find((one: any) => one.check === 'cname').ok).toBe(true)
    const status = async (host: string) => (await dns.open(`http://${host}/`)).status
    await expect.poll(() => status(`a.${parent}`)).toBe(200)
    expect([await status(parent), await status(`a.b.${parent}`)]).toEqual([404, 404])
  })

  test.each(['*.plinth.localhost', '*.co.uk', 'acme.plinth.example', 'x.acme.plinth.example', '*.*.example.com', 'a.*.com'])(
    'N01: %s is refused',
    async (domain) => {
      const { id } = await makeSite(dns, project)
      const { status } = await dns.call(`POST /api/v1/sites/${id}/domains`, { key: project.key, json: { domain } })
      expect(status).toBe(400)
    },
  )
})
