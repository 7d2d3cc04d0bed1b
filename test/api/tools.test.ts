import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Context } from '../../api/context.ts'
import { createToolServer } from '../../api/mcp.ts'
import { operation } from '../../api/operation.ts'
import { operations } from '../../api/operations/index.ts'
import { maxArchiveBytes, maxToolBodyBytes } from '../../core/limits.ts'
import { tarGz } from '../infra/archives.ts'
import { makeSite, openPreview, page, randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { type Input, operationInputs, smallImage } from './operation-inputs.ts'

let w: World
let owner: TestProject
let other: TestProject
beforeAll(async () => {
  w = await world()
  owner = await w.project('enterprise')
  other = await w.project('enterprise')
})
afterAll(() => w[Symbol.asyncDispose]())

const toolNames = operations.filter((op) => op.tool).map((op) => op.id)
const post = (body: string | Uint8Array, headers: Record<string, string> = {}) =>
  w.call('POST /mcp', { key: owner.key, bytes: Buffer.from(body), type: 'application/json', headers })
const send = (message: unknown, headers?: Record<string, string>) => post(JSON.stringify(message), headers)

/** The official client; it checks every answer against the tool's output schema. */
async function connect(key: string, mode: 'legacy' | { pin: string }) {
  const client = new Client({ name: 'plinth-test', version: '1' }, { versionNegotiation: { mode } })
  const requestInit = { headers: { authorization: `Bearer ${key}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${w.base}/mcp`), { requestInit }))
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

type Call = (name: string, args?: Record<string, unknown>) => Promise<any>

async function callGitTools(call: Call, site_id: string): Promise<void> {
  const connection = { repo_url: 'https://git.example.com/ada/notes.git', branch: 'main' }
  expect(await call('connect_git', { site_id, ...connection })).toMatchObject({ connected: true, ...connection })
  expect(await call('get_git', { site_id })).toMatchObject(connection)
  expect((await call('rotate_git_webhook', { site_id })).secret).toEqual(expect.any(String))
  expect((await call('rotate_deploy_hook', { site_id })).url).toMatch(/\/hooks\/deploy\//)
  expect(await call('remove_deploy_hook', { site_id, confirm: true })).toEqual({ ok: true })
  const fork = { ref: 'pull:1', fetch_ref: 'refs/pull/1/head', pull_request: 1, from_fork: true }
  const { id: preview_id } = await openPreview(w, owner, site_id, fork)
  expect(await call('list_git_previews', { site_id })).toMatchObject([{ id: preview_id, approved: false }])
  expect(await call('approve_git_preview', { site_id, preview_id })).toMatchObject({ approved: true })
  expect(await call('delete_git_preview', { site_id, preview_id })).toEqual({ ok: true })
  expect(await call('deploy_git', { site_id })).toMatchObject({ source_kind: 'git' })
  expect(await call('disconnect_git', { site_id, confirm: true })).toEqual({ ok: true })
}

async function callAccessTools(call: Call, rest: (path: string) => Promise<any>, site_id: string): Promise<void> {
  const { password, ...closed } = await call('set_site_password', { site_id, level: 'easy' })
  expect(closed).toMatchObject({ closed: true, mode: 'password' })
  expect(await call('get_site_access', { site_id })).toEqual(closed)
  expect(closed).toEqual(await rest(`sites/${site_id}/access`))
  expect(await call('reveal_site_password', { site_id })).toEqual({ password })
  expect((await call('set_site_access_expiry', { site_id, until: '2030-01-31T19:00:00+01:00' })).expires_at).toBe(
    '2030-01-31T18:00:00.000Z',
  )
  expect((await call('set_site_access_opens', { site_id, max_opens: 3 })).max_opens).toBe(3)
  expect((await call('set_site_access_brand', { site_id, title: 'Studio North' })).brand.title).toBe('Studio North')
  expect((await call('rotate_access_bypass', { site_id })).token).toMatch(/^[\w-]{43}$/)
  expect((await call('remove_access_bypass', { site_id })).closed).toBe(true)
  expect((await call('set_site_email_access', { site_id })).mode).toBe('email')
  const { channel_id } = await inputOf('disconnect_messenger_channel')
  expect(await call('list_messenger_channels')).toEqual(await rest('messenger-channels'))
  expect((await call('connect_messenger_channel', { provider: 'max' })).link).toMatch(
    /^https:\/\/max\.ru\/\w+\?start=c[\w-]{32}$/,
  )
  const subscribers = { mode: 'subscribers', channels: [channel_id] }
  expect(await call('set_site_subscribers_access', { site_id, channel_ids: [channel_id] })).toMatchObject(subscribers)
  const price = { amount_minor: 49_900, currency: 'RUB', period_days: null, provider: 'manual' }
  expect(await call('set_paid_access', { site_id, ...price })).toMatchObject({ mode: 'paid', price })
  expect(await call('disconnect_messenger_channel', { channel_id })).toEqual({ ok: true })
  const { id: email_id } = await call('add_site_access_email', { site_id, email: 'ada@example.com' })
  expect(await call('set_site_access_email_label', { site_id, email_id, label: 'Ada' })).toMatchObject({ label: 'Ada' })
  expect((await call('add_site_access_emails', { site_id, emails: ['a@example.com', 'b@example.com'] })).total).toBe(3)
  expect(await call('list_site_access_emails', { site_id })).toEqual(await rest(`sites/${site_id}/access/emails`))
  expect(await call('remove_site_access_email', { site_id, email_id })).toEqual({ ok: true })
  expect(await call('remove_site_access_emails', { site_id, all: true, confirm: true })).toEqual({ removed: 2, total: 0 })
  await callMemberTools(call, rest)
  expect((await call('open_site_access', { site_id })).closed).toBe(false)
}

async function callMemberTools(call: Call, rest: (path: string) => Promise<any>): Promise<void> {
  const { site_id, member_id } = await inputOf('export_site_member')
  const asked = { moderation: false, ask_name: true, max_seats: 5 }
  expect(await call('set_site_members_access', { site_id, ...asked })).toMatchObject({ mode: 'members', settings: asked })
  const documents = [{ title: 'Terms of use', url: 'https://example.com/terms' }]
  expect((await call('set_site_documents', { site_id, documents, request_reconsent: true })).documents).toMatchObject(documents)
  expect(await call('get_site_members', { site_id })).toEqual(await rest(`sites/${String(site_id)}/members`))
  expect(await call('moderate_site_member', { site_id, member_id, action: 'approve' })).toMatchObject({ status: 'active' })
  expect(await call('moderate_site_member', { site_id, member_id, action: 'delete', confirm: true })).toMatchObject({
    name: 'Ada',
  })
}

async function callFormTools(call: Call, rest: (path: string) => Promise<any>, site_id: string): Promise<void> {
  const { submission_id } = await inputOf('set_submission_status')
  expect(await call('get_forms_overview')).toEqual(await rest('forms/overview'))
  expect(await call('get_form_submissions')).toEqual(await rest('forms/submissions'))
  expect(await call('set_submission_status', { submission_id, status: 'archive' })).toMatchObject({ status: 'archive' })
  expect(await call('delete_submission', { submission_id, confirm: true })).toEqual({ ok: true })
  expect(await call('set_form_settings', { site_id, notify_email: true })).toMatchObject({ notify_email: true })
  const reply = { enabled: true, subject: 'Thank you', body: 'We have it.', email_field: 'mail' }
  expect(await call('set_autoreply', { site_id, ...reply })).toMatchObject(reply)
  expect(await call('get_autoreply', { site_id })).toEqual(await rest(`sites/${site_id}/autoreply`))
  const content_base64 = Buffer.from('A guide').toString('base64')
  const { files } = await call('add_autoreply_file', { site_id, file_name: 'guide.txt', content_base64 })
  expect(files).toMatchObject([{ name: 'guide.txt', size: 7, content_type: 'text/plain; charset=utf-8' }])
  const text = { page_title: 'Your guide', upsell_text: 'Thank you.' }
  const page = { ...text, logo_base64: smallImage.toString('base64'), logo_framed: true }
  const { delivery } = await call('set_autoreply_delivery', { site_id, ...page })
  expect(delivery).toMatchObject({ ...text, page_logo_framed: true, page_logo_url: expect.stringContaining('.webp') })
  expect((await call('remove_autoreply_file', { site_id, file_id: files[0].id })).files).toEqual([])
}

async function callWebhookTools(call: Call, rest: (path: string) => Promise<any>): Promise<void> {
  const { webhook_id, delivery_id } = await inputOf('redeliver_webhook')
  expect(await call('list_webhooks')).toEqual(await rest('webhooks'))
  const deliveries = `webhooks/${String(webhook_id)}/deliveries`
  expect(await call('list_webhook_deliveries', { webhook_id })).toEqual(await rest(deliveries))
  expect(await call('redeliver_webhook', { webhook_id, delivery_id })).toMatchObject({ type: 'form.received', tries: [] })
  expect(await call('update_webhook', { webhook_id, enabled: false })).toMatchObject({ enabled: false })
  expect(await call('delete_webhook', { webhook_id, confirm: true })).toEqual({ ok: true })
  const { site_id } = await inputOf('get_site_stats')
  const period = { from: '2026-08-31', to: '2026-09-05' }
  const query = new URLSearchParams(period).toString()
  for (const [name, path] of [
    ['get_site_stats', 'stats'],
    ['get_site_stats_tops', 'stats/tops'],
  ] as const) {
    expect(await call(name, { site_id, ...period })).toEqual(await rest(`sites/${String(site_id)}/${path}?${query}`))
  }
  const created = await call('create_webhook', { url: 'https://hooks.example.com/plinth', events: ['site.trashed'] })
  expect(created.secret).toMatch(/^whsec_/)
  expect(await call('list_notifications')).toEqual(await rest('notifications'))
  expect(await call('read_notifications', { all: true })).toEqual({ ok: true })
}

const inputOf = async (name: string): Promise<Input> => (await operationInputs(w, owner)[name]?.()) ?? {}

describe.each([
  ['with a handshake', 'legacy'],
  ['in revision 2026-07-28, without state', { pin: '2026-07-28' }],
] as const)('the official client %s', (_how, mode) => {
  test('J01 J02 J03 J04 C06: lists and calls every tool, and each answers as REST does', async () => {
    await using client = await connect(owner.key, mode)
    expect(client.getInstructions()?.split('\n')).toHaveLength(12)
    const { tools } = await client.listTools()
    expect(tools.map((tool) => tool.name)).toEqual(toolNames)
    const called = new Set<string>()
    async function call(name: string, args: Record<string, unknown> = {}): Promise<any> {
      called.add(name)
      const { isError, structuredContent, content } = await client.callTool({ name, arguments: args })
      if (isError) throw new Error(`${name}: ${JSON.stringify(content)}`)
      const [text] = content
      const body = JSON.parse(text?.type === 'text' ? text.text : '')
      expect(structuredContent).toEqual(Array.isArray(body) ? { items: body } : body)
      return body
    }
    async function ended(deploy_id: string): Promise<any> {
      await w.ended(deploy_id, owner.key)
      return await call('get_deploy_status', { deploy_id })
    }
    const rest = async (path: string) => (await w.call(`GET /api/v1/${path}`, { key: owner.key })).body

    expect((await call('whoami')).project_id).toBe(owner.id)
    const { id: site_id } = await call('create_site', { name: 'By an agent', subdomain: randomName() })
    const first = await ended((await call('deploy_files', { site_id, files: [page('one')] })).id)
    expect(first).toMatchObject({ status: 'active', file_count: 1 })
    expect(await call('get_manifest', { site_id })).toEqual(await rest(`sites/${site_id}/manifest`))
    expect(await call('list_deploy_files', { deploy_id: first.id })).toEqual(await rest(`deploys/${first.id}/files`))
    const second = await ended((await call('deploy_files', { site_id, files: [page('two')], activate: false })).id)
    expect(second).toMatchObject({ status: 'ready', is_preview: true })
    expect(await call('get_preview_url', { deploy_id: second.id })).toMatchObject({ deploy_id: second.id })
    expect(await call('get_logs', { deploy_id: second.id })).toEqual(await rest(`deploys/${second.id}/logs`))
    const activation = await call('activate_deploy', { deploy_id: second.id })
    expect(activation).toMatchObject({ ok: true, status: 'active', previous_deploy_id: first.id })
    expect(await call('delete_deploy', { deploy_id: first.id })).toEqual({ ok: true })
    const source_base64 = tarGz([{ name: 'index.html', data: 'three' }]).toString('base64')
    expect(await call('deploy_site', { site_id, source_base64 })).toMatchObject({ status: 'queued', source_kind: 'archive' })
    const cancelled = await call('cancel_deploy', { deploy_id: (await rest(`sites/${site_id}/deploys?limit=1`))[0].id })
    expect(cancelled).toMatchObject({ status: 'failed', error: 'cancelled by key full' })
    expect(await call('retry_deploy', { deploy_id: cancelled.id })).toMatchObject({ status: 'queued', source_kind: 'archive' })
    // the newest is in work, so its fields may change between the two calls
    const ids = (deploys: { id: string }[]) => deploys.map((deploy) => deploy.id)
    expect(ids(await call('list_deploys', { site_id, limit: 4 }))).toEqual(ids(await rest(`sites/${site_id}/deploys`)))
    await call('update_site', { site_id, name: 'Renamed', description: null })
    await call('set_site_enabled', { site_id, enabled: false })
    expect(await call('get_site', { site_id })).toEqual(await rest(`sites/${site_id}`))
    expect(await call('list_sites')).toEqual(await rest('sites'))
    expect(await call('set_env', { site_id, name: 'A', value: 'x', secret: true })).toMatchObject({ name: 'A', value: null })
    expect(await call('list_env', { site_id })).toEqual(await rest(`sites/${site_id}/env`))
    expect(await call('delete_env', { site_id, name: 'A' })).toEqual({ ok: true })
    const { id: domain_id } = await call('set_custom_domain', { site_id, domain: `${randomName()}.example.com` })
    expect(await call('verify_domain', { domain_id })).toMatchObject({ verified: false, a_record: { ok: false } })
    // its workflow looks again between the two calls
    const settled = (domains: object[]) => domains.map((domain) => ({ ...domain, next_check_at: null }))
    expect(settled(await call('list_domains', { site_id }))).toEqual(settled(await rest(`sites/${site_id}/domains`)))
    expect(await call('delete_domain', { domain_id, confirm: true })).toEqual({ ok: true })
    const moving = await call('change_site_subdomain', { site_id, subdomain: randomName(), confirm: true })
    expect((await rest(`sites/${site_id}`)).pending_subdomain.subdomain).toBe(moving.pending_subdomain)
    expect(await call('cancel_site_subdomain_change', { site_id })).toMatchObject({ site_id, pending_subdomain: null })
    expect(await call('explain_path', { site_id, path: '/' })).toEqual(await rest(`sites/${site_id}/explain?path=/`))
    await callAccessTools(call, rest, site_id)
    await callFormTools(call, rest, site_id)
    await callWebhookTools(call, rest)
    await callGitTools(call, site_id)
    expect((await call('delete_site', { site_id, confirm: true })).deletion_scheduled_at).toEqual(expect.any(String))
    expect(await call('list_trashed')).toEqual(await rest('trashed-sites'))
    expect(await call('restore_site', { site_id })).toMatchObject({ id: site_id, deletion_scheduled_at: null })
    expect([...called].sort()).toEqual([...toolNames].sort())
  })

  test('J01: a failed call is an answer with status and message, not an exception', async () => {
    await using client = await connect(owner.key, mode)
    await client.listTools()
    const failed = await client.callTool({ name: 'get_site', arguments: { site_id: '00000000-0000-7000-8000-000000000000' } })
    const failure = { status: 404, message: expect.stringContaining('list_sites') }
    expect([failed.isError, failed.structuredContent]).toEqual([true, failure])
    expect(failed.content).toEqual([{ type: 'text', text: JSON.stringify(failed.structuredContent) }])
    await expect(client.callTool({ name: 'no_such_tool' })).rejects.toMatchObject({ code: -32602 })
  })
})

test('J11 A02 C03: tools have the scopes and the isolation of REST', async () => {
  const readonly = await w.key(owner, 'readonly')
  const refused = await w.tool('create_site', { name: 'x', subdomain: randomName() }, readonly)
  expect([refused.isError, refused.structuredContent.status]).toEqual([true, 403])
  expect((await w.tool('list_sites', {}, readonly)).isError).toBeUndefined()
  const foreign = await makeSite(w, other)
  const missing = '00000000-0000-7000-8000-000000000000'
  const answers = await Promise.all([foreign.id, missing].map((site_id) => w.tool('get_site', { site_id }, owner.key)))
  expect(answers[0]).toEqual(answers[1])
  expect(answers[0]?.structuredContent.status).toBe(404)
})

test('every tool has a title, a description, all four hints and schemas that stand for themselves', async () => {
  const { body } = await send({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
  for (const tool of body.result.tools) {
    expect([tool.name, tool.title, tool.description]).toEqual([tool.name, expect.any(String), expect.any(String)])
    const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = tool.annotations
    const hints = [readOnlyHint, destructiveHint, idempotentHint, openWorldHint]
    expect([tool.name, hints.map((hint) => typeof hint)]).toEqual([tool.name, Array(4).fill('boolean')])
    expect([tool.name, tool.inputSchema.type, tool.outputSchema.type]).toEqual([tool.name, 'object', 'object'])
    // clients of the first SDK check failures too
    expect([tool.name, tool.outputSchema.anyOf.at(-1).required]).toEqual([tool.name, ['status', 'message']])
    const schemas = JSON.stringify([tool.inputSchema, tool.outputSchema])
    expect([tool.name, schemas.match(/"\$\w+"|"additionalProperties":false|"type":\[/g)]).toEqual([tool.name, null])
  }
})

test('E1: arguments that a tool does not know are ignored', async () => {
  const { structuredContent } = await w.tool('whoami', { reason: 'curious', ['__proto__']: { plan: 'x' } }, owner.key)
  expect(structuredContent.project_id).toBe(owner.id)
})

const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'whoami', arguments: {} } }
test.each<[string, string | Uint8Array, number, unknown]>([
  ['is empty', '', -32700, null],
  ['is cut off', '{"jsonrpc":"2.0","id":1', -32700, null],
  ['is not UTF-8', Buffer.from([0x22, 0xff, 0x22]), -32700, null],
  ['is null', 'null', -32600, null],
  ['is a number', '5', -32600, null],
  ['is an empty object', '{}', -32600, null],
  ['is an empty batch', '[]', -32600, null],
  ['is a batch', JSON.stringify([call, call]), -32600, null],
  ['has another version', JSON.stringify({ ...call, jsonrpc: '1.0' }), -32600, 1],
  ['has no version', JSON.stringify({ ...call, jsonrpc: undefined, id: 'a' }), -32600, 'a'],
  ['has a null id', JSON.stringify({ ...call, id: null }), -32600, null],
  ['has an object as id', JSON.stringify({ ...call, id: {} }), -32600, null],
  ['has a fraction as id', JSON.stringify({ ...call, id: 1.5 }), -32600, 1.5],
  ['has no method', JSON.stringify({ ...call, method: undefined }), -32600, 1],
  ['has a number as method', JSON.stringify({ ...call, method: 5 }), -32600, 1],
  ['has params in an array', JSON.stringify({ ...call, params: [] }), -32600, 1],
  ['has no params', JSON.stringify({ ...call, params: undefined }), -32602, 1],
  ['names no tool', JSON.stringify({ ...call, params: { arguments: {} } }), -32602, 1],
  ['names a tool by a number', JSON.stringify({ ...call, params: { name: 7, arguments: {} } }), -32602, 1],
  ['has arguments in an array', JSON.stringify({ ...call, params: { name: 'whoami', arguments: [] } }), -32602, 1],
  ['has null as arguments', JSON.stringify({ ...call, params: { name: 'whoami', arguments: null } }), -32602, 1],
  ['is nested 65 levels deep', `${'['.repeat(65)}${']'.repeat(65)}`, -32700, null],
])('J01: a body that %s is a JSON-RPC error with 400', async (_what, text, code, id) => {
  const { status, headers, body } = await post(text)
  expect([status, headers.get('content-type')]).toEqual([400, 'application/json; charset=utf-8'])
  expect(body).toEqual({ jsonrpc: '2.0', id, error: { code, message: expect.stringMatching(/\w+ \w+/) } })
})

test('J01: whatever the message, the answer is JSON-RPC under its id and no fault of ours', async () => {
  const odd = <T>(values: readonly T[]) => fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...values) }, fc.jsonValue())
  const params = fc.record(
    {
      name: odd(toolNames),
      arguments: fc.oneof(fc.dictionary(odd(['site_id', 'files']).map(String), fc.jsonValue()), fc.jsonValue()),
      _meta: fc.jsonValue(),
    },
    { requiredKeys: [] },
  )
  const message = fc.record(
    {
      jsonrpc: odd(['2.0']),
      id: odd([1, 'a', null]),
      method: odd(['tools/call', 'tools/list', 'initialize']),
      params: fc.oneof(params, fc.jsonValue()),
    },
    { requiredKeys: ['jsonrpc', 'method'] },
  )
  await fc.assert(
    fc.asyncProperty(message, async (sent) => {
      const { status, body } = await send(sent)
      if (status === 202) {
        expect([body, 'id' in sent]).toEqual(['', false])
        return
      }
      expect([200, 400]).toContain(status)
      const outcome = status === 200 && body.result ? 'result' : 'error'
      expect(body).toEqual({ jsonrpc: '2.0', id: body.id, [outcome]: expect.any(Object) })
      expect([sent.id, null]).toContain(body.id)
      if (status === 200) expect(body.id).toBe(sent.id)
    }),
    { numRuns: 400, seed: 48 },
  )
}, 60_000)

test.each([
  ['an unknown tool', { ...call, params: { name: 'publish', arguments: {} } }, -32602, /publish.*tools\/list/],
  ['a name of every object', { ...call, params: { name: '__proto__', arguments: {} } }, -32602, /tools\/list/],
  ['an unknown method', { ...call, method: 'sites/list' }, -32601, /no method sites\/list/],
  ['resources, which it has not', { ...call, method: 'resources/list' }, -32601, /no method resources\/list/],
])('J01: %s is a JSON-RPC error under the id of the request', async (_what, message, code, text) => {
  const { status, body } = await send({ ...message, id: 'x-1' })
  const error = { code, message: expect.stringMatching(text) }
  expect([status, body]).toEqual([200, { jsonrpc: '2.0', id: 'x-1', error }])
})

const info = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x', version: '1' } }
test.each([
  ['initialize without params', 'initialize', undefined, -32602, /^params: /],
  [
    'initialize within initialize',
    'initialize',
    { params: { ...call, method: 'initialize', params: info } },
    -32602,
    /^params\./,
  ],
  ['initialize with a number as version', 'initialize', { ...info, protocolVersion: 7 }, -32602, /^params\.protocolVersion: /],
  ['initialize with a number as roots', 'initialize', { ...info, capabilities: { roots: 5 } }, -32602, /^params\.capabilities/],
  ['tools/list with a number as cursor', 'tools/list', { cursor: 5 }, -32602, /^params\.cursor: /],
  ['tools/call with a number as task', 'tools/call', { name: 'whoami', task: 5 }, -32602, /^params\.task: /],
  ['ping with a number as _meta', 'ping', { _meta: 5 }, -32600, /params\._meta is an object/],
])('J01: %s is refused with one sentence about it', async (_what, method, params, code, text) => {
  const { body } = await send({ jsonrpc: '2.0', id: 'x-1', method, params })
  expect(body).toEqual({ jsonrpc: '2.0', id: 'x-1', error: { code, message: expect.stringMatching(text) } })
  expect(body.error.message).toMatch(/^[^\n{[]*$/)
})

test.each([
  ['a missing member', 'create_site', { name: 'x' }, 400],
  ['a wrong type', 'create_site', { name: 'x', subdomain: 7 }, 422],
  ['a malformed id', 'get_site', { site_id: 'x' }, 422],
  ['an archive that is no base64', 'deploy_site', { source_base64: '%' }, 400],
  ['files nested deep', 'deploy_files', { files: JSON.parse(`${'{"a":'.repeat(50)}1${'}'.repeat(50)}`) }, 422],
])('J01: %s is an answer with isError', async (_what, name, args, status) => {
  const site = await makeSite(w, owner)
  const { isError, structuredContent } = await w.tool(name, { site_id: site.id, ...args }, owner.key)
  expect([isError, structuredContent]).toEqual([true, { status, message: expect.any(String) }])
})

test.each(['tools/call', 'notifications/initialized', 'notifications/unknown'])(
  'a %s without an id is taken with 202 and nothing',
  async (method) => {
    const { status, body } = await send({ jsonrpc: '2.0', method, params: { name: 'whoami' } })
    expect([status, body]).toEqual([202, ''])
  },
)

test.each([7, 'seven', ''])('the id %j comes back', async (id) => {
  expect((await send({ jsonrpc: '2.0', id, method: 'ping' })).body).toEqual({ jsonrpc: '2.0', id, result: {} })
})

test.each([
  ['host', 'evil.example', 403],
  ['host', 'evil.localhost:8080', 403],
  ['host', 'LOCALHOST:9', 200],
  ['host', '[::1]:8080', 200],
  ['origin', 'null', 403],
  ['origin', 'http://evil.example', 403],
  ['origin', 'http://localhost:8080.evil.example', 403],
  ['origin', 'http://localhost:8080', 200],
])('the tool server answers a request with the %s %s with %i', async (header, value, expected) => {
  const headers = { authorization: `Bearer ${owner.key}`, 'content-type': 'application/json', [header]: value }
  // fetch chooses the Host itself
  const outgoing = request(`${w.base}/mcp`, { method: 'POST', headers }).end(JSON.stringify(call))
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  response.resume()
  expect(response.statusCode).toBe(expected)
})

test('A01: without a key the tool server answers 401, whatever the body', async () => {
  const { status, headers, body } = await w.call('POST /mcp', { bytes: Buffer.from('{'), type: 'text/plain' })
  expect([status, headers.get('www-authenticate'), Object.keys(body)]).toEqual([401, 'Bearer', ['message']])
})

test('J10: a tool that takes confirm refuses without confirm: true, and only after the scope', async () => {
  const destroyed: string[] = []
  const destroy = operation({
    id: 'destroy_site',
    title: 'Destroy a site',
    summary: 'For this test.',
    tag: 'Test',
    tool: { confirm: true },
    scope: 'full',
    input: z.object({ site_id: z.string() }),
    output: z.object({ ok: z.literal(true) }),
    handler: async (_ctx, input) => {
      destroyed.push(JSON.stringify(input))
      return { ok: true as const }
    },
  })
  const server = createToolServer([destroy])
  async function ask(scope: string, method: string, params: object = {}): Promise<any> {
    const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' }
    const ctx = { caller: { scope } } as Context
    const response = await server.serve(
      new Request('http://localhost/mcp', { method: 'POST', headers }),
      { value: { jsonrpc: '2.0', id: 1, method, params }, bytes: 0, texts: new Map() },
      ctx,
    )
    return ((await response.json()) as { result: unknown }).result
  }
  const { tools } = await ask('full', 'tools/list')
  expect(tools[0].inputSchema.properties.confirm).toMatchObject({ type: 'boolean' })
  expect(tools[0].inputSchema.required).toEqual(['site_id', 'confirm'])
  expect(tools[0].annotations.destructiveHint).toBe(true)
  const callWith = (args: object, scope = 'full') => ask(scope, 'tools/call', { name: 'destroy_site', arguments: args })
  for (const args of [{ site_id: 's' }, { site_id: 's', confirm: false }, { site_id: 's', confirm: 'true' }, {}]) {
    const { isError, structuredContent } = await callWith(args)
    expect([isError, structuredContent]).toEqual([true, { status: 400, message: expect.stringContaining('confirm: true') }])
  }
  expect((await callWith({ site_id: 's', confirm: true }, 'editor')).structuredContent.status).toBe(403)
  expect(destroyed).toEqual([])
  expect((await callWith({ site_id: 's', confirm: true })).structuredContent).toEqual({ ok: true })
  expect(destroyed).toEqual(['{"site_id":"s"}'])
})

test('L01 J04: an archive of 50 MB goes through the tool server in base64, larger bodies are refused with 413', async () => {
  const site = await makeSite(w, owner)
  const bytes = randomBytes(maxArchiveBytes)
  bytes.set([0x1f, 0x8b])
  const source_base64 = bytes.toString('base64')
  const { isError, structuredContent } = await w.tool('deploy_site', { site_id: site.id, source_base64 }, owner.key)
  expect([isError, structuredContent.status]).toEqual([undefined, 'queued'])
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const stored = await w.db
    .selectFrom('deploys')
    .select(['source_sha256', 'source_bytes'])
    .where('id', '=', structuredContent.id)
    .executeTakeFirstOrThrow()
  expect(stored).toEqual({ source_sha256: sha256, source_bytes: maxArchiveBytes })
  const large = await post(Buffer.alloc(maxToolBodyBytes + 1, ' '))
  expect([large.status, Object.keys(large.body)]).toEqual([413, ['message']])
})

test('large calls take turns, one that waits for its own turn among them', async () => {
  const site = await makeSite(w, owner)
  const files = [page('large'), { path: 'noise.bin', content: randomBytes(1_500_000).toString('base64'), encoding: 'base64' }]
  const deploys = await Promise.all(
    Array.from({ length: 4 }, () => w.tool('deploy_files', { site_id: site.id, files, activate: false }, owner.key)),
  )
  expect(deploys.map((deploy) => deploy.structuredContent.status)).toEqual(Array(4).fill('queued'))
})
