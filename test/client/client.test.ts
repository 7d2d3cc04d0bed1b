import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createClient } from '../../client/client.ts'
import { page, randomName } from '../make.ts'
import { type World, world } from '../world.ts'

let w: World
let client: ReturnType<typeof createClient>
beforeAll(async () => {
  w = await world()
  client = createClient({ baseUrl: w.base, key: (await w.project('enterprise')).key })
})
afterAll(() => w?.[Symbol.asyncDispose]())

test('O03: the typed client makes a site, publishes twice, rolls back and cleans up', async () => {
  const { data: site } = await client.POST('/api/v1/sites', { body: { name: 'Typed', subdomain: randomName() } })
  const site_id = site?.id ?? ''
  const publish = async (text: string) => {
    const { data } = await client.POST('/api/v1/sites/{site_id}/deploy-files', {
      params: { path: { site_id } },
      body: { files: [page(text)] },
    })
    const deploy_id = data?.id ?? ''
    for (;;) {
      const { data: deploy } = await client.GET('/api/v1/deploys/{deploy_id}', { params: { path: { deploy_id } } })
      if (deploy?.status === 'active') return deploy
      await pause(10)
    }
  }
  const one = await publish('one')
  const two = await publish('two')
  const activated = await client.POST('/api/v1/deploys/{deploy_id}/activate', { params: { path: { deploy_id: one.id } } })
  expect(activated.data).toMatchObject({ status: 'active', previous_deploy_id: two.id })
  const removed = await client.DELETE('/api/v1/deploys/{deploy_id}', { params: { path: { deploy_id: two.id } } })
  expect(removed.data).toEqual({ ok: true })
  const listed = await client.GET('/api/v1/sites/{site_id}/deploys', { params: { path: { site_id }, query: { limit: 1 } } })
  expect(listed.data?.map((deploy) => [deploy.id, deploy.artifacts_purged])).toEqual([[two.id, true]])
})

test('E38: statistics are typed, and their file is text', async () => {
  const { data: site } = await client.POST('/api/v1/sites', { body: { name: 'Typed', subdomain: randomName() } })
  const path = { site_id: site?.id ?? '' }
  const stats = await client.GET('/api/v1/sites/{site_id}/stats', { params: { path, query: { days: 1 } } })
  const [today] = stats.data?.days ?? []
  expect(today?.views).toBe(0)
  const query = { days: 1, format: 'csv' } as const
  const file = await client.GET('/api/v1/sites/{site_id}/stats', { params: { path, query }, parseAs: 'text' })
  expect(file.data?.split('\r\n')[0]).toMatch(/^date,views,/)
  const live = await client.GET('/api/v1/sites/{site_id}/stats/live', { params: { path, query: { follow: false } } })
  expect(live.data?.visitors).toBe(0)
})

test('C02: an error has the message, typed', async () => {
  const { data, error, response } = await client.POST('/api/v1/sites', { body: { name: '', subdomain: randomName() } })
  expect([data, error?.message, response.status]).toEqual([undefined, expect.stringContaining('name'), 400])
})

test('the generated types are those of the published document: npm run client', () => {
  const root = resolve(import.meta.dirname, '../..')
  const script = (JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as { scripts: { client: string } }).scripts
    .client
  const fresh = execFileSync('sh', ['-c', script.replace('--output client/schema.ts', '')], { cwd: root, encoding: 'utf8' })
  expect(readFileSync(resolve(root, 'client/schema.ts'), 'utf8').trim()).toBe(fresh.trim())
})
