import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Operation } from '../../api/operation.ts'
import { operations } from '../../api/operations/index.ts'
import { covers } from '../../core/scopes.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { type Input, operationInputs, rawBytesOf } from './operation-inputs.ts'
import { restRequest } from './rest-request.ts'

// Every operation, on both faces, with every kind of key: exact answers, and no trace of what was denied.

let w: World
let owner: TestProject
let stranger: TestProject
let keys: Record<string, string>
let inputs: ReturnType<typeof operationInputs>
beforeAll(async () => {
  // what is to be fetched or built stays as it is
  w = await world({ worker: true, fetcher: false })
  owner = await w.project('enterprise')
  stranger = await w.project('enterprise')
  inputs = operationInputs(w, owner)
  keys = {
    malformed: 'not-a-key',
    unknown: `svc_AAAAAAAA_${'a'.repeat(43)}`,
    revoked: await revokedKey(),
    readonly: await w.key(owner, 'readonly'),
    editor: await w.key(owner, 'editor'),
    full: owner.key,
    'other project': stranger.key,
  }
})
afterAll(() => w?.[Symbol.asyncDispose]())

async function revokedKey(): Promise<string> {
  const key = await w.key(owner, 'full')
  await w.call(`DELETE /operator/v1/projects/${owner.id}/keys/${key.slice(4, 12)}`, { key: operatorToken })
  return key
}

const nowhere = '00000000-0000-7000-8000-000000000000'
const missing = (input: Input): Input =>
  Object.fromEntries(Object.entries(input).map(([name, value]) => [name, name.endsWith('_id') ? nowhere : value]))
const namesSomething = (input: Input) => Object.keys(input).some((name) => name.endsWith('_id'))

interface Reply {
  readonly status: number
  readonly text: string
}

async function overRest(op: Operation, input: Input, key: string | undefined): Promise<Reply> {
  const rest = restRequest(op, input)
  if (!rest) throw new Error(`${op.id} has no route`)
  const { status, body } = await w.call(rest.request, { key, ...rest.options })
  return { status, text: JSON.stringify(body) }
}

async function overTools(op: Operation, input: Input, key: string | undefined): Promise<Reply> {
  const raw = op.raw ? { [`${op.raw.name}_base64`]: rawBytesOf(op).toString('base64') } : {}
  const params = { name: op.id, arguments: { ...input, ...raw } }
  const { status, body } = await w.call('POST /mcp', { key, json: { jsonrpc: '2.0', id: 1, method: 'tools/call', params } })
  if (status !== 200) return { status, text: JSON.stringify(body) }
  const { isError, structuredContent, content } = body.result
  return { status: isError ? structuredContent.status : 200, text: content[0].text }
}

const faces = [
  ['REST', overRest, operations.filter((op) => op.rest)],
  ['tools', overTools, operations.filter((op) => op.tool)],
] as const

/** Waits until the workflows of the calls before have nothing left to do; archives wait for a runner, which is not here. */
async function quiet(): Promise<void> {
  for (;;) {
    const starts = await w.db.selectFrom('workflow_starts').select('workflow_id').execute()
    const moving = await w.db
      .selectFrom('deploys')
      .select('id')
      .where((eb) => eb.or([eb('status', '=', 'queued'), eb('status', '=', 'building'), eb('status', '=', 'ready')]))
      .where((eb) => eb.not(eb.and([eb('run_id', 'is not', null), eb('source_kind', 'in', ['archive', 'git'])])))
      .where((eb) => eb.not(eb.and([eb('status', '=', 'ready'), eb('activate', '=', false)])))
      .execute()
    if (starts.length + moving.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

const tables = [
  'projects',
  'sites',
  'subdomains',
  'subdomain_changes',
  'deploys',
  'preview_links',
  'blobs',
  'build_minutes',
  'domains',
  'git_connections',
  'git_deliveries',
  'git_previews',
  'access_brands',
  'access_locks',
  'access_emails',
  'access_generations',
  'access_prices',
  'checkouts',
  'access_channels',
  'site_documents',
  'members',
  'member_settings',
  'member_consents',
  'messenger_channels',
  'messenger_connections',
  'messenger_logins',
  'subscribers',
  'autoreplies',
  'delivery_files',
  'delivery_pages',
  'activity_days',
  'notifications',
  'webhooks',
  'webhook_events',
  'workflow_starts',
] as const
/** What waits for a runner or a fetcher may be given its turn; deploys are checked and compressed, domains looked at and webhooks called in the background. */
const background = [
  'turn_at',
  'next_check_at',
  'a_record',
  'diagnostics',
  'failing_since',
  'recommendations',
  'compressed',
  'compression_due_at',
]

/** Everything that a denied call might have changed, by table. When a key was used last is no secret and no effect. */
async function fingerprint(): Promise<Record<string, string | null>> {
  const hashes = tables.map((table) => {
    const row = sql`(to_jsonb(one) - ${background}::text[])::text`
    // a sum, because to bring the rows into an order takes longer than to hash them
    const all = sql`select sum(hashtextextended(${row}, 0))::text from ${sql.table(table)} as one`
    return sql`(${all}) as ${sql.ref(table)}`
  })
  for (;;) {
    await quiet()
    const { rows } = await sql<Record<string, string | null>>`select ${sql.join(hashes)}`.execute(w.db)
    const found = rows[0] ?? {}
    // a workflow may have queued another one since it was quiet
    if (found['workflow_starts'] === null) return found
  }
}

test('every operation is in the matrix', () => {
  expect(Object.keys(inputs)).toEqual(operations.map((op) => op.id))
})

describe.each(faces)('A01 A02 A03 A04 C03 J11 O04: over %s', (_face, send, listed) => {
  test.each(listed.map((op) => [op.id, op] as const))('%s lets in exactly who may', async (id, op) => {
    const expected: Record<string, number> = {
      'no key': 401,
      malformed: 401,
      unknown: 401,
      revoked: 401,
      readonly: covers('readonly', op.scope) ? 200 : 403,
      editor: covers('editor', op.scope) ? 200 : 403,
      full: 200,
    }
    const answerOf = async (who: string, input: Input = {}) => {
      const { status, text } = await send(op, input, keys[who])
      expect([who, status, text.length > 0]).toEqual([who, expected[who], true])
    }
    const denied = Object.keys(expected).filter((who) => expected[who] !== 200)
    const input = await inputs[id]?.()
    const before = await fingerprint()
    for (const who of denied) await answerOf(who, input)
    expect(await fingerprint()).toEqual(before)
    for (const who of Object.keys(expected).filter((who) => expected[who] === 200)) await answerOf(who, await inputs[id]?.())
  })

  test.each(listed.map((op) => [op.id, op] as const))('%s shows another project nothing', async (id, op) => {
    const input = (await inputs[id]?.()) ?? {}
    if (!namesSomething(input)) {
      const own = await send(op, input, keys['other project'])
      expect([own.status, own.text.includes(owner.id)]).toEqual([200, false])
      return
    }
    const before = await fingerprint()
    const foreign = await send(op, input, keys['other project'])
    const absent = await send(op, missing(input), keys['other project'])
    expect(foreign).toEqual({ status: 404, text: absent.text })
    expect(absent.status).toBe(404)
    expect(await fingerprint()).toEqual(before)
  })
})
