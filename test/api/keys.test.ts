import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { operations } from '../../api/operations/index.ts'
import { covers, scopes } from '../../core/scopes.ts'
import { deployFiles, makeSite, openPreview, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { restRequest } from './rest-request.ts'

let w: World
let owner: TestProject
let stranger: TestProject
beforeAll(async () => {
  w = await world()
  owner = await w.project()
  stranger = await w.project()
})
afterAll(() => w[Symbol.asyncDispose]())

/** A valid request for every REST operation, about these ids. */
const requests = (ids: { site_id: string; deploy_id: string; domain_id: string; preview_id: string }) =>
  operations.flatMap((op) => {
    const files = op.id === 'deploy_files' ? [page('x')] : [{ path: 'index.html', sha256: 'a'.repeat(64) }]
    const names = { name: 'x', subdomain: 'not-used-here', domain: 'not-used.example.com', path: '/', value: 'x' }
    const file = { file_id: nobody, file_name: 'x', label: 'x' }
    const repo_url = 'https://forge.example.com/not/used.git'
    const rest = restRequest(op, { ...op.example, ...ids, ...names, ...file, repo_url, enabled: true, notify_email: true, files })
    return rest ? [{ op, ...rest }] : []
  })

const nobody = '00000000-0000-7000-8000-000000000000'
const nowhere = { site_id: nobody, deploy_id: nobody, domain_id: nobody, preview_id: nobody }

test.each([
  ['no header', undefined],
  ['another scheme', 'Basic dXNlcjpwYXNz'],
  ['no key', 'Bearer'],
  ['no key of ours', 'Bearer hello'],
  ['an unknown key', `Bearer svc_AAAAAAAA_${'a'.repeat(43)}`],
])('A01 C02: %s is refused with 401 on every operation and on the tool server', async (_what, authorization) => {
  const headers: Record<string, string> = authorization === undefined ? {} : { authorization }
  const tool = { request: 'POST /mcp', options: { json: { jsonrpc: '2.0', id: 1, method: 'tools/list' } } }
  for (const { request, options } of [...requests(nowhere), tool]) {
    const answer = await w.call(request, { ...options, headers })
    expect([request, answer.status, answer.headers.get('www-authenticate'), Object.keys(answer.body)]).toEqual([
      request,
      401,
      'Bearer',
      ['message'],
    ])
  }
})

test('A01: the right id with a wrong secret is refused', async () => {
  const wrong = owner.key.slice(0, -4) + (owner.key.endsWith('AAAA') ? 'BBBB' : 'AAAA')
  expect((await w.call('GET /api/v1/whoami', { key: wrong })).status).toBe(401)
})

test('A01: a revoked key is refused at once', async () => {
  const project = await w.project()
  const keys = await w.call(`GET /operator/v1/projects/${project.id}/keys`, { key: operatorToken })
  expect((await w.call('GET /api/v1/whoami', { key: project.key })).status).toBe(200)
  expect(
    (await w.call(`DELETE /operator/v1/projects/${project.id}/keys/${keys.body[0].id}`, { key: operatorToken })).body,
  ).toEqual({ ok: true })
  expect((await w.call('GET /api/v1/whoami', { key: project.key })).status).toBe(401)
})

test.each(scopes)('A02 A06 C08: a %s key is let in exactly where its scope suffices', async (scope) => {
  const key = await w.key(owner, scope)
  for (const { op, request, options } of requests(nowhere)) {
    const { status } = await w.call(request, { ...options, key })
    expect([request, status === 403]).toEqual([request, !covers(scope, op.scope)])
  }
})

test.each([
  ['readonly', ['readonly']],
  ['editor', ['readonly', 'editor']],
  ['full', ['readonly', 'editor', 'full']],
] as const)('C08 A06 C06: whoami with a %s key tells its project and scopes, on both interfaces', async (scope, expected) => {
  const key = await w.key(owner, scope)
  const { body } = await w.call('GET /api/v1/whoami', { key })
  expect(body).toMatchObject({
    project_id: owner.id,
    project_name: expect.any(String),
    plan: 'pro',
    scopes: expected,
    key: { scope },
  })
  const tool = await w.tool('whoami', {}, key)
  expect(tool.structuredContent.project_id).toBe(owner.id)
  expect(JSON.parse(tool.content[0]?.text ?? '').scopes).toEqual(expected)
})

describe('C03: another project', () => {
  test('sees a foreign id exactly as a missing one on every route and tool', async () => {
    const site = await makeSite(w, owner)
    const deploy = await deployFiles(w, owner, site.id, [page('one')])
    const json = { domain: 'foreign.example.com' }
    const domain = await w.call(`POST /api/v1/sites/${site.id}/domains`, { key: owner.key, json })
    const preview = await openPreview(w, owner, site.id, { ref: 'idea' })
    const foreign = requests({ site_id: site.id, deploy_id: deploy.id, domain_id: domain.body.id, preview_id: preview.id })
    const missing = requests(nowhere)
    for (const [index, { op, request, options }] of foreign.entries()) {
      if (!/site_id|deploy_id|domain_id/.test(op.rest ?? '')) continue
      const answer = await w.call(request, { ...options, key: stranger.key })
      const reference = await w.call(missing[index]?.request ?? '', { ...options, key: stranger.key })
      expect([request, answer.status, answer.body]).toEqual([request, 404, reference.body])
    }
    const tool = await w.tool('get_site', { site_id: site.id }, stranger.key)
    expect([tool.isError, tool.structuredContent.status]).toEqual([true, 404])
    expect((await w.call('GET /api/v1/sites', { key: stranger.key })).body).toEqual([])
  })

  test('E2: a malformed id in the path is a missing one, in a tool a wrong argument', async () => {
    expect((await w.call('GET /api/v1/sites/nonsense', { key: owner.key })).status).toBe(404)
    expect((await w.tool('get_site', { site_id: 'nonsense' }, owner.key)).structuredContent.status).toBe(422)
  })
})

describe('the operator API', () => {
  test('Z01: makes projects on every plan and changes plan, suspension and balance', async () => {
    for (const plan of ['free', 'start', 'pro', 'business', 'scale', 'enterprise'] as const) {
      const { id } = await w.project(plan)
      expect((await w.call(`GET /operator/v1/projects/${id}`, { key: operatorToken })).body.plan).toBe(plan)
    }
    const changed = await w.call(`PATCH /operator/v1/projects/${stranger.id}`, {
      key: operatorToken,
      json: { plan: 'scale', form_balance_add: 5 },
    })
    expect(changed.body).toMatchObject({ plan: 'scale', form_balance: 5, suspended: false })
    const wrong = await w.call(`PATCH /operator/v1/projects/${stranger.id}`, { key: operatorToken, json: { plan: 'gold' } })
    expect(wrong.status).toBe(422)
  })

  test('refuses project keys and wrong tokens, at the eleventh with 429, while the right one still works', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.7' }
    for (let i = 0; i < 10; i++) {
      expect((await w.call('GET /operator/v1/projects', { key: owner.key, headers })).status).toBe(401)
    }
    const limited = await w.call('GET /operator/v1/projects', { key: owner.key, headers })
    expect([limited.status, Number(limited.headers.get('retry-after')) > 0]).toEqual([429, true])
    expect((await w.call('GET /operator/v1/projects', { key: operatorToken, headers })).status).toBe(200)
  })

  test('A05: lists keys without their secrets', async () => {
    const { body } = await w.call(`GET /operator/v1/projects/${owner.id}/keys`, { key: operatorToken })
    expect(JSON.stringify(body)).not.toContain(owner.key.slice(-43))
    expect(body[0]).toMatchObject({ id: owner.key.slice(4, 12), scope: 'full' })
  })
})

describe('look-ups of keys', () => {
  const invented = () => `svc_${randomBytes(4).toString('hex')}_${randomBytes(33).toString('base64url').slice(0, 43)}`
  const ask = (key: string, address: string) =>
    w.call('GET /api/v1/whoami', { key, headers: { 'x-forwarded-for': address } }).then(({ status, body }) => ({ status, body }))

  test.each([
    ['an IPv4 address', () => '192.0.2.1'],
    ['a network of IPv6 addresses', (i: number) => `2001:db8:0:7::${i.toString(16)}`],
  ])('however many keys %s invents, their look-ups share its connections and places', async (_what, attacker) => {
    const fresh = await w.key(owner, 'readonly')
    expect((await ask(owner.key, attacker(1))).status).toBe(200)
    const { junk, proved, other } = await w.db.transaction().execute(async (tx) => {
      // every look-up waits until the transaction ends
      await sql`lock table keys in access exclusive mode`.execute(tx)
      const refused: string[] = []
      const junk = Array.from({ length: 260 }, async (_, i) => {
        const { status, body } = await ask(invented(), attacker(i))
        if (status === 429) refused.push(body.message)
        return status
      })
      await expect.poll(() => refused.length).toBe(260 - 204)
      expect(new Set(refused)).toEqual(
        new Set(['too many requests are waiting for the database from this address; wait until some of them have ended']),
      )
      return { junk, proved: ask(owner.key, attacker(1)), other: ask(fresh, '198.51.100.1') }
    })
    const statuses = await Promise.all(junk)
    expect([(await proved).status, (await other).status]).toEqual([200, 200])
    expect(statuses.filter((status) => status === 401)).toHaveLength(204)
  })

  test('a wrong secret for an id that was proved takes no part of the share of the right key', async () => {
    const attacker = '203.0.113.9'
    expect((await ask(owner.key, attacker)).status).toBe(200)
    const wrong = () => `${owner.key.slice(0, 13)}${randomBytes(33).toString('base64url').slice(0, 43)}`
    const { junk, proved } = await w.db.transaction().execute(async (tx) => {
      await sql`lock table keys in access exclusive mode`.execute(tx)
      const junk = Array.from({ length: 204 }, () => ask(wrong(), attacker))
      await expect.poll(async () => (await ask(wrong(), attacker)).status).toBe(429)
      return { junk, proved: ask(owner.key, attacker) }
    })
    expect((await proved).status).toBe(200)
    expect(new Set((await Promise.all(junk)).map(({ status }) => status))).toEqual(new Set([401]))
  })
})
