import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Operation } from '../../api/operation.ts'
import { operations } from '../../api/operations/index.ts'
import { operatorOperations } from '../../api/operator/index.ts'
import { insertNotification } from '../../services/notifications/notifications.ts'
import { transact } from '../../services/transact.ts'
import { deployFiles, makeSite, randomName } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { makeFormSite } from './form-site.ts'
import { type Input, operationInputs } from './operation-inputs.ts'
import { restRequest } from './rest-request.ts'

// The responses that /docs and the OpenAPI document show are those that the operations gave here.

const startPage = {
  path: 'index.html',
  content:
    '<!doctype html><html lang="en"><head><title>Field notes</title><meta name="viewport" content="width=device-width"><meta name="description" content="What grows where."></head><h1>Field notes</h1></html>',
}
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

let w: World
beforeAll(async () => {
  w = await world({ worker: true, fetcher: false })
})
afterAll(() => w?.[Symbol.asyncDispose]())

test('O01: the documented response of every operation is one that it gives', async () => {
  const responses: Record<string, unknown> = {}
  // first, so that their lists are short
  for (const op of operatorOperations) {
    responses[op.id] = await responseOf(op, (await ofOperator[op.id]?.()) ?? {}, operatorToken)
  }
  for (const op of operations.filter((one) => one.rest)) {
    // in a project of its own, so that lists hold what belongs to the example and nothing else
    const project = await w.project('enterprise')
    const input = await (shown(project)[op.id] ?? operationInputs(w, project)[op.id])?.()
    responses[op.id] = await responseOf(op, input ?? {}, project.key)
  }
  await expect(`${JSON.stringify(responses, null, 2)}\n`).toMatchFileSnapshot('../../api/docs/responses.json')
})

async function responseOf(op: Operation, input: Input, key: string): Promise<unknown> {
  const rest = restRequest(op, input)
  if (!rest) throw new Error(`${op.id} has no route`)
  const { status, body } = await w.call(rest.request, { key, ...rest.options })
  expect([op.id, status, body]).toEqual([op.id, 200, expect.anything()])
  return steady(body)
}

const ofProject = async () => ({ project_id: (await w.project('start')).id })
const ofOperator: Record<string, () => Promise<Input>> = {
  create_project: async () => ({ name: 'Notes', owner_email: 'ada@example.com', plan: 'start' }),
  get_project: ofProject,
  update_project: async () => ({ ...(await ofProject()), plan: 'pro' }),
  erase_project: async () => ({ ...(await ofProject()), confirm: true }),
  async update_site_options() {
    const site = await makeSite(w, await w.project('start'))
    return { site_id: site.id, email_access: true }
  },
  create_key: async () => ({ ...(await ofProject()), name: 'CI', scope: 'editor' }),
  list_keys: ofProject,
  async revoke_key() {
    const project = await w.project('start')
    return { project_id: project.id, key_id: project.key.slice(4, 12) }
  },
  async list_workflow_messages() {
    const workflow_id = 'deploy:00000000-0000-7000-8000-000000000001:1'
    const last_error = 'Namespace default has no mapping defined for search attribute GitRef'
    const failed = { attempts: 8, last_error, created_at: at, next_attempt_at: at, dead_at: at }
    await w.db
      .insertInto('workflow_starts')
      .values({ workflow_id, message: '{}', ...failed })
      .execute()
    return {}
  },
  async list_stuck_activities() {
    const workflow_id = 'webhook:00000000-0000-7000-8000-000000000002'
    const failed = { type: 'sendDelivery', attempts: 14, error: 'SealError: sealed with another key' }
    const times = { first_failed_at: at, last_failed_at: at }
    await w.db
      .insertInto('stuck_activities')
      .values({ workflow_id, activity_id: '1', ...failed, ...times })
      .execute()
    return {}
  },
  async retry_workflow_messages() {
    // no relay is to send the one that was listed
    await w.db.deleteFrom('workflow_starts').execute()
    return {}
  },
}
const at = new Date('2026-01-31T12:00:00Z')

/** Inputs that make a better example than those of every test: lists have something to show, and pages little to recommend. */
const shown = (project: TestProject): Record<string, () => Promise<Input>> => {
  const ofSite = async () => ({ site_id: (await makeSite(w, project)).id as string })
  const ofDeploy = async () => {
    const { site_id } = await ofSite()
    return { site_id, deploy_id: (await deployFiles(w, project, site_id, [startPage])).id }
  }
  const ofSubmissions = async () => {
    const site = await makeFormSite(w, project)
    await site.post({ name: 'Ada', email: 'ada@example.com', message: 'May I quote your notes?' })
    return {}
  }
  return {
    create_site: async () => ({ name: 'Field notes', subdomain: randomName() }),
    update_site: async () => ({ ...(await ofSite()), name: 'Field notes' }),
    async list_sites() {
      await ofDeploy()
      return {}
    },
    async list_trashed() {
      const { site_id } = await ofDeploy()
      await w.call(`DELETE /api/v1/sites/${site_id}`, { key: project.key })
      return {}
    },
    async list_env() {
      const { site_id } = await ofSite()
      const variables = {
        API_URL: { value: 'https://api.example.com' },
        CMS_TOKEN: { value: 'x', secret: true, contexts: ['production'] },
      }
      for (const [name, json] of Object.entries(variables))
        await w.call(`PUT /api/v1/sites/${site_id}/env/${name}`, { key: project.key, json })
      return { site_id }
    },
    get_forms_overview: ofSubmissions,
    get_form_submissions: ofSubmissions,
    export_submissions: ofSubmissions,
    list_deploys: ofDeploy,
    get_deploy_status: ofDeploy,
    get_logs: ofDeploy,
    deploy_files: async () => ({ ...(await ofSite()), files: [startPage] }),
    async deploy_manifest() {
      await ofDeploy()
      return { ...(await ofSite()), files: [{ path: 'index.html', sha256: sha256(startPage.content) }] }
    },
    async get_manifest() {
      const { site_id } = await ofDeploy()
      const files = [{ path: 'index.html', sha256: sha256(startPage.content) }]
      const { body } = await w.call(`POST /api/v1/sites/${site_id}/deploys/manifest`, { key: project.key, json: { files } })
      await w.ended(body.id, project.key)
      return { site_id }
    },
    async list_domains() {
      const { site_id } = await ofSite()
      await w.call(`POST /api/v1/sites/${site_id}/domains`, { key: project.key, json: { domain: 'www.example.net' } })
      return { site_id }
    },
    set_custom_domain: async () => ({ ...(await ofSite()), domain: 'www.example.org' }),
    async list_notifications() {
      const { site_id, deploy_id } = await ofDeploy()
      const texts = { title: 'A deploy of Field notes has failed', message: 'npm run build ended with exit code 1' }
      const notification = { kind: 'deploy_failed', ...texts, site_id, deploy_id } as const
      await transact(w, (tx) => insertNotification(tx, project.id, notification, new Date()))
      return {}
    },
    list_messenger_channels: async () => {
      const named = {
        external_id: '-1001234567890',
        title: 'Field notes',
        username: 'field_notes',
        url: 'https://t.me/field_notes',
      }
      const channel = { project_id: project.id, provider: 'telegram', ...named, bot_is_admin: true } as const
      await w.db
        .insertInto('messenger_channels')
        .values({ ...channel, connected_at: new Date() })
        .execute()
      return {}
    },
    create_webhook: async () => ({ url: 'https://hooks.example.com/plinth', events: ['deploy.succeeded', 'deploy.failed'] }),
    async list_webhooks() {
      const json = { url: 'https://hooks.example.com/plinth', events: ['deploy.succeeded', 'deploy.failed'] }
      await w.call('POST /api/v1/webhooks', { key: project.key, json })
      return {}
    },
  }
}

/** The same at each run: ids and secrets are numbered, times count in hours from one, and the project and its site have names. */
function steady(body: unknown): unknown {
  const text = JSON.stringify(body)
  const times = [...text.matchAll(time)].map(([found]) => Date.parse(found))
  const first = Math.min(...times)
  const hours = (at: string) => Math.round((Date.parse(at) - first) / 3_600_000)
  return JSON.parse(
    text
      .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, numbered(12, '01990000-0000-7000-8000-'))
      .replaceAll(time, (at) => new Date(Date.UTC(2026, 8, 7, 10, 30) + hours(at) * 3_600_000).toISOString())
      .replaceAll(/(?<="verification_token":"|"value":")[0-9a-f]{64}/g, numbered(64))
      .replaceAll(/(?<=d\/logo\/)[0-9a-f]{64}/g, numbered(64))
      .replaceAll(/(?<="token":")[\w-]{43}(?=")/g, numbered(43))
      .replaceAll(/(?<=whsec_)[A-Za-z0-9+/=]{44}/g, numbered(44))
      .replaceAll(/(?<=\?start=c)[\w-]{32}/g, numbered(32))
      .replaceAll(/(?<=hooks\/deploy\/)[\w-]{43}/g, numbered(43))
      .replaceAll(/\b[a-z2-7]{52}\b/g, numbered(52))
      .replaceAll(/(?<="key":\{"id":"|\[\{"id":"|^\{"id":")\w{8}(?=")/g, numbered(8))
      .replaceAll(/svc_\w{8}_[\w-]{43}/g, 'svc_00000001_…')
      .replaceAll(/(?<=localhost:)\d+/g, '8080')
      .replaceAll(/_hp_[0-9a-f]{6}/g, '_hp_000001')
      .replaceAll(/"month":"\d{4}-\d\d"/g, '"month":"2026-09"')
      .replaceAll(/site-[0-9a-f]{12}/g, 'notes')
      .replaceAll(/project on \w+/g, 'Demo'),
  )
}

const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g

/** Replaces each text by its number, padded to the length. */
function numbered(length: number, prefix = '') {
  const numbers = new Map<string, string>()
  return (text: string): string => {
    const number = numbers.get(text) ?? `${prefix}${String(numbers.size + 1).padStart(length, '0')}`
    numbers.set(text, number)
    return number
  }
}
