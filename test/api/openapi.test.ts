import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { Validator } from '@seriousme/openapi-schema-validator'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operations, tags } from '../../api/operations/index.ts'
import { operatorOperations } from '../../api/operator/index.ts'
import { requireVisible } from '../../api/views/fields.ts'
import { parseSubdomain } from '../../core/subdomain-names.ts'
import { expectDocumented } from '../contract.ts'
import { makeSite, randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { makeFormSite } from './form-site.ts'

let w: World
let owner: TestProject
let document: any
beforeAll(async () => {
  w = await world()
  owner = await w.project('enterprise')
  document = (await w.call('GET /api/v1/openapi.json')).body
})
afterAll(() => w[Symbol.asyncDispose]())

interface Described {
  readonly route: string
  readonly operationId: string
  readonly tags: string[]
  readonly security: { key: string[] }[]
  readonly responses: Record<string, any>
  readonly requestBody?: { content: Record<string, { example?: any; schema: any }> }
}

const described = (): Described[] =>
  Object.entries<Record<string, object>>(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, op]) => ({ route: `${method.toUpperCase()} ${path}`, ...op }) as Described),
  )

const byId = (id: string) => {
  const found = described().find((op) => op.operationId === id)
  if (!found) throw new Error(`${id} is not in the document`)
  return found
}

const hasKey = ({ security }: Described) => security.length > 0

/** A response as it is after its reference has been followed. */
const resolved = (response: any) => (response.$ref ? document.components.responses[response.$ref.split('/').at(-1)] : response)

test('O01: the document is valid OpenAPI 3.1', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(document))
  expect([valid, errors]).toEqual([true, undefined])
})

test('O01 O04: every operation has its scope, a described tag, and the headers of its failures', () => {
  expect(document.tags.map((tag: { name: string }) => tag.name)).toEqual([...new Set(operations.map((op) => op.tag))])
  expect(Object.values(tags).every((text) => text.length > 20)).toBe(true)
  for (const { operationId, security, responses } of described().filter(hasKey)) {
    expect([operationId, security]).toEqual([operationId, [{ key: [operations.find((op) => op.id === operationId)?.scope] }]])
    expect(Object.keys(responses)).toEqual(expect.arrayContaining(['200', '401', '403', '415', '500', '503']))
    expect(resolved(responses['401']).headers['WWW-Authenticate'].required).toBe(true)
    for (const status of ['429', '503'].filter((one) => responses[one])) {
      expect([status, resolved(responses[status]).headers['Retry-After'].required]).toEqual([status, true])
    }
  }
})

test('O03: every example of the document runs as it is', async () => {
  const withExample = described().filter((op) => op.requestBody?.content['application/json'])
  expect(withExample.map((op) => op.operationId)).toEqual([
    'create_site',
    'update_site',
    'set_site_enabled',
    'change_site_subdomain',
    'set_env',
    'deploy_files',
    'check_deploy',
    'deploy_manifest',
    'set_custom_domain',
    'connect_git',
    'set_site_password',
    'set_site_access_expiry',
    'set_site_access_opens',
    'set_paid_access',
    'add_site_access_email',
    'import_site_access_emails',
    'set_site_access_email_label',
    'remove_site_access_emails',
    'set_site_access_brand',
    'connect_messenger_channel',
    'set_site_subscribers_access',
    'moderate_member',
    'set_members_settings',
    'set_site_documents',
    'set_submission_status',
    'set_form_settings',
    'set_autoreply',
    'set_autoreply_file_label',
    'set_autoreply_design',
    'read_notifications',
    'create_webhook',
    'update_webhook',
    'submit_form',
  ])
  const form = await makeFormSite(w, owner)
  await form.post({ name: 'Ada' })
  const submission = await w.db.selectFrom('form_submissions').select('id').executeTakeFirstOrThrow()
  const named = { provider: 'telegram', external_id: '-1001', title: 'Field notes', bot_is_admin: true } as const
  const channel = { id: '019a1b2c-3d4e-7f60-8a9b-0c1d2e3f4a5b', project_id: owner.id, ...named, connected_at: new Date() }
  await w.db.insertInto('messenger_channels').values(channel).execute()
  let siteId = ''
  let siteUrl = ''
  let fileId = ''
  let emailId = ''
  let memberId = ''
  let webhookId = ''
  let last: any
  for (const { route, operationId, requestBody } of withExample) {
    const json = requestBody?.content['application/json']?.example
    const ids = {
      site_id: siteId,
      name: 'API_URL',
      submission_id: submission.id,
      webhook_id: webhookId,
      file_id: fileId,
      email_id: emailId,
      member_id: memberId,
    }
    const path = Object.entries(ids).reduce((text, [name, id]) => text.replace(`{${name}}`, id), route)
    const headers = operationId === 'submit_form' ? { origin: siteUrl } : {}
    const { status, body } = await w.call(path, { key: owner.key, json, headers })
    expect([route, status, body]).toEqual([route, 200, expect.anything()])
    if (siteId === '') siteId = body.id
    if (body.url && body.id === siteId) siteUrl = body.url
    if (operationId === 'set_autoreply') fileId = await addFile(siteId)
    if (operationId === 'add_site_access_email') emailId = body.id
    if (operationId === 'set_site_access_brand') memberId = await addMember(siteId)
    if (operationId === 'create_webhook') webhookId = body.id
    if (body.source_kind) last = body
  }
  const deploy = await w.ended(last.id, owner.key)
  expect([deploy.status, deploy.file_count]).toEqual(['active', 2])
  const manifest = await w.call(`GET /api/v1/sites/${siteId}/manifest`, { key: owner.key })
  for (const file of manifest.body) expect(file.sha256).toMatch(/^[0-9a-f]{64}$/)
})

/** A visitor who waits for approval at a site that is closed to all but its members. */
async function addMember(site_id: string): Promise<string> {
  await w.call(`POST /api/v1/sites/${site_id}/access/members-mode`, { key: owner.key })
  const row = { site_id, project_id: owner.id, email: 'ada@example.com', status: 'pending', registered_at: new Date() } as const
  return (await w.db.insertInto('members').values(row).returning('id').executeTakeFirstOrThrow()).id
}

async function addFile(siteId: string): Promise<string> {
  const sent = { key: owner.key, bytes: Buffer.from('A guide'), type: 'text/plain' }
  return (await w.call(`POST /api/v1/sites/${siteId}/autoreply/files?name=guide.txt`, sent)).body.files[0].id
}

test('C04 O01: an archive is taken in each of its three media types', async () => {
  const types = Object.keys(byId('deploy_site').requestBody?.content ?? {})
  expect(types).toEqual(['application/gzip', 'application/zip', 'application/octet-stream'])
  const site = await makeSite(w, owner)
  for (const type of types) {
    const answer = await w.call(`POST /api/v1/sites/${site.id}/deploys`, { key: owner.key, bytes: gzipSync('archive'), type })
    expect([type, answer.status, answer.body.status]).toEqual([type, 200, 'queued'])
  }
})

test('E25: forms are submitted without a key, in three media types, and every refusal names its reasons', () => {
  const { route, security, requestBody, responses } = byId('submit_form')
  expect([route, security, Object.keys(requestBody?.content ?? {})]).toEqual([
    'POST /f/{site_id}',
    [],
    ['application/json', 'application/x-www-form-urlencoded', 'multipart/form-data'],
  ])
  const reasonsOf = (status: string) => responses[status].content['application/json'].schema.properties.reason.enum
  const statuses = ['400', '402', '403', '404', '413', '415', '429']
  expect(Object.fromEntries(statuses.map((status) => [status, reasonsOf(status)]))).toEqual({
    400: ['invalid_body', 'too_many_fields'],
    402: ['quota_exhausted', 'suspended'],
    403: ['origin_required', 'origin_not_allowed'],
    404: ['site_not_found'],
    413: ['body_too_large'],
    415: ['unsupported_content_type'],
    429: ['rate_limited'],
  })
})

test('the links lead from what makes a thing to what takes its id', () => {
  const linksOf = (id: string) => Object.keys(byId(id).responses['200'].links ?? {})
  expect(linksOf('create_site')).toContain('deploy_files')
  expect(linksOf('deploy_files')).toEqual([
    'get_deploy_status',
    'list_deploy_files',
    'get_logs',
    'cancel_deploy',
    'retry_deploy',
    'activate_deploy',
    'get_preview_url',
    'revoke_preview_url',
    'delete_deploy',
  ])
  expect(linksOf('update_site')).toEqual([])
})

const bodyMember = (id: string, name: string) => byId(id).requestBody?.content['application/json']?.schema.properties[name]

test('O01: what the document says of subdomains and names is what is accepted', () => {
  const { pattern, minLength, maxLength } = bodyMember('create_site', 'subdomain')
  const subdomain = fc.oneof(
    fc.stringMatching(/^[a-zA-Z0-9-]{1,66}$/),
    fc.string({ unit: fc.constantFrom('a', 'Z', '0', '-', '.', '_', '\n', 'é'), maxLength: 8 }),
  )
  fc.assert(
    fc.property(subdomain, (text) => {
      const allowed = text.length >= minLength && text.length <= maxLength && new RegExp(pattern, 'u').test(text)
      return allowed === parseSubdomain(text).ok
    }),
    { numRuns: 2000 },
  )
  const name = fc.string({ unit: fc.constantFrom('a', '🦫', ' ', '\u0001', '\u0085', '\ufeff', '\u2003', '\n'), maxLength: 4 })
  fc.assert(
    fc.property(name, (text) => new RegExp(bodyMember('create_site', 'name').pattern, 'u').test(text) === isVisible(text)),
    { numRuns: 2000 },
  )
})

function isVisible(text: string): boolean {
  try {
    requireVisible(text)
    return true
  } catch {
    return false
  }
}

test('O05: lengths of a name, a description and a subdomain are enforced at their limit and beyond', async () => {
  const site = await makeSite(w, owner)
  const status = async (endpoint: string, json: object) => (await w.call(endpoint, { key: owner.key, json })).status
  const rename = (name: string, description?: string) =>
    status(`PATCH /api/v1/sites/${site.id}`, { name, ...(description === undefined ? {} : { description }) })
  expect([await rename('x'.repeat(120)), await rename('x'.repeat(121))]).toEqual([200, 422])
  expect([await rename('x', 'x'.repeat(2000)), await rename('x', 'x'.repeat(2001))]).toEqual([200, 422])
  const create = (subdomain: string) => status('POST /api/v1/sites', { name: 'x', subdomain })
  const long = randomName().padEnd(63, 'x')
  expect([await create(long), await create(`${long}x`), await create('zq4xk'), await create('zq4x')]).toEqual([
    200, 400, 200, 400,
  ])
})

test.each([
  ['a status that is not documented', 'GET', '/api/v1/whoami', 409, { message: 'x' }],
  ['a second member in an error', 'GET', '/api/v1/whoami', 500, { message: 'x', stack: 'y' }],
  ['no message', 'GET', '/api/v1/whoami', 500, {}],
  ['a member that the schema lacks', 'DELETE', '/api/v1/deploys/x', 200, { ok: true, more: 1 }],
  ['another type', 'GET', '/api/v1/sites?limit=1', 200, [{ id: 7 }]],
  ['a 401 without a challenge', 'GET', '/api/v1/whoami', 401, { message: 'x' }],
  ['a 503 without Retry-After', 'GET', '/api/v1/whoami', 503, { message: 'x' }],
])('O03 C02: the contract that every test is held to notices %s', (_what, method, path, status, body) => {
  const headers = new Headers({ 'content-type': 'application/json' })
  expect(() => expectDocumented(method, path, { status, headers, body })).toThrow()
})

test.each([
  ['/docs', operations],
  ['/docs/operator', operatorOperations],
])('%s shows every operation, runs only what is in it, and needs no other server', async (path, all) => {
  const { status, headers, body } = await w.call(`GET ${path}`)
  expect([status, headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  for (const op of all) expect(body).toContain(`<article id="${op.id}"`)
  expect(body.includes('<article id="submit_form"')).toBe(path === '/docs')
  const policy = headers.get('content-security-policy') ?? ''
  for (const element of ['style', 'script']) {
    const [, text = ''] = new RegExp(`<${element}>(.*?)</${element}>`, 's').exec(body) ?? []
    expect(policy).toContain(`${element}-src 'sha256-${createHash('sha256').update(text).digest('base64')}'`)
  }
  expect(policy).toContain("default-src 'none'")
  expect(body).not.toMatch(/(?:src|href)="(?:https?:)?\/\//)
})

test('/llms.txt is a Markdown index of every operation', async () => {
  const { status, headers, body } = await w.call('GET /llms.txt')
  expect([status, headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8'])
  expect(body).toMatch(/^# Plinth\n\n> .+\n/)
  for (const op of operations) expect(body).toContain(`- [${op.title}](${w.config.urls.base}/docs#${op.id}): `)
})
