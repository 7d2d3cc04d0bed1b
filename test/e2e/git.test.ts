import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { loadConfig } from '../../infra/config.ts'
import { apiOnSocket } from '../../infra/local/api-client.ts'
import { reachableFolder } from '../../infra/local/place.ts'
import { type Stack, startStack } from '../../infra/local/stack.ts'
import { type Gitea, type GiteaRepository, giteaBuildTimeoutMs, startGitea } from '../infra/gitea.ts'
import { randomName } from '../make.ts'
import { platformPorts } from '../ports.ts'

// the real processes of `npm start` beside a real Gitea, which knows nothing of Plinth but the address and the secret of a webhook

const soon = { timeout: 60_000, interval: 100 }

const stack = new AsyncDisposableStack()
let gitea: Gitea
let platform: Stack

beforeAll(async () => {
  const dir = await mkdtemp(join(tmpdir(), 'plinth-gitops-'))
  await chmod(dir, 0o711)
  stack.defer(async () => {
    const place = await reachableFolder(join(dir, 'data'))
    for (const folder of [place, dir]) await rm(folder, { recursive: true, force: true })
  })
  gitea = stack.use(await startGitea())
  const { bwrap, toolchain } = inject('buildTools')
  const config = loadConfig({
    ...process.env,
    PLINTH_DATA_DIR: join(dir, 'data'),
    ...(await platformPorts()).settings,
    PLINTH_BUILD_BWRAP: bwrap,
    PLINTH_BUILD_TOOLCHAIN: toolchain,
    PLINTH_ALLOW_PRIVATE_GIT: 'true',
  })
  platform = stack.use(await startStack(config, { report: () => undefined, signal: new AbortController().signal }))
}, giteaBuildTimeoutMs)
afterAll(() => stack.disposeAsync(), 60_000)

async function call(endpoint: string, json?: unknown): Promise<any> {
  const { status, body } = await apiOnSocket(platform.config.sockets.api)(endpoint, platform.demo?.key ?? '', json)
  if (status !== 200) throw new Error(`${endpoint}: ${status} ${JSON.stringify(body)}`)
  return body
}

/** `*.localhost` does not resolve in Node. */
async function visit(url: string): Promise<{ status: number | undefined; body: string }> {
  const { host, pathname } = new URL(url)
  const { port } = platform.config.http
  const outgoing = request({ host: '127.0.0.1', port, path: pathname, headers: { host } }).end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  return { status: response.statusCode, body: await text(response) }
}

interface Connected {
  readonly id: string
  readonly name: string
  readonly url: string
  readonly repository: GiteaRepository
}

/** A site that is connected to a private repository of its own, whose webhook is set up at Gitea. */
async function connected(name: string): Promise<Connected> {
  const repository = await gitea.createRepository(name)
  const { id, url } = await call('POST /api/v1/sites', { name, subdomain: randomName() })
  await call(`PUT /api/v1/sites/${id}/git`, { repo_url: repository.cloneUrl, token: gitea.token })
  const webhook = await call(`POST /api/v1/sites/${id}/git/webhook`)
  await repository.addWebhook(webhook.url, webhook.secret)
  return { id, name, url, repository }
}

/** What Gitea says of a commit in the name of the site. */
async function statusOf({ name, repository }: Connected, commit: string): Promise<any> {
  const { body } = await gitea.api('GET', `/repos/ada/${repository.name}/commits/${commit}/status`)
  return body.statuses?.find(({ context }: { context: string }) => context === `plinth/${name}`)
}

const commentsOf = async ({ repository }: Connected, number: number) =>
  (await gitea.api('GET', `/repos/ada/${repository.name}/issues/${number}/comments`)).body as { id: number; body: string }[]

test('G03 G04 G05: a push to a private repository is live at once, and Gitea shows it at the commit', async () => {
  const site = await connected('pushed')
  const commit = await site.repository.push('main', { 'index.html': 'the first page' }, 'Add a page')
  await expect.poll(() => visit(site.url), soon).toEqual({ status: 200, body: 'the first page' })
  await expect.poll(() => statusOf(site, commit), soon).toMatchObject({ status: 'success', target_url: site.url })
  const git = await call(`GET /api/v1/sites/${site.id}/git`)
  expect(git).toMatchObject({
    connected: true,
    has_token: true,
    webhook: { last_delivery: { forge: 'gitea', event: 'push', result: expect.stringMatching(/^deploy /) } },
    last_commit: commit,
    last_report: { error: null },
  })
  expect(JSON.stringify(git)).not.toContain(gitea.token)
  const [deploy] = await call(`GET /api/v1/sites/${site.id}/deploys`)
  expect(deploy).toMatchObject({ status: 'active', git: { commit, ref: 'main', message: 'Add a page', author: 'Ada' } })

  await site.repository.push('main', { 'index.html': 'the second page' }, 'Change the page')
  await expect.poll(() => visit(site.url), soon).toEqual({ status: 200, body: 'the second page' })
}, 120_000)

test('a pull request has a link that follows it, one comment that is edited, and neither when it is closed', async () => {
  const site = await connected('proposed')
  await site.repository.push('main', { 'index.html': 'as it is' }, 'Add a page')
  await expect.poll(() => visit(site.url), soon).toEqual({ status: 200, body: 'as it is' })

  const first = await site.repository.push('idea', { 'index.html': 'as it might be' }, 'Have an idea')
  const pulls = `/repos/ada/${site.repository.name}/pulls`
  const { number } = (await gitea.api('POST', pulls, { head: 'idea', base: 'main', title: 'An idea' })).body
  await expect.poll(async () => (await commentsOf(site, number))[0]?.body, soon).toContain('✅ Ready')
  const [comment] = await commentsOf(site, number)
  const link = /\[Open\]\((.*?)\)/.exec(comment?.body ?? '')?.[1] ?? ''
  expect(await visit(link)).toEqual({ status: 200, body: 'as it might be' })
  await expect.poll(() => statusOf(site, first), soon).toMatchObject({ status: 'success', target_url: link })

  const second = await site.repository.push('idea', { 'index.html': 'a better one' }, 'Think again')
  await expect.poll(() => visit(link), soon).toEqual({ status: 200, body: 'a better one' })
  await expect.poll(() => statusOf(site, second), soon).toMatchObject({ status: 'success', target_url: link })
  const isNewest = async () =>
    (await commentsOf(site, number)).map(({ id, body }) => ({ id, isNewest: body.includes(second.slice(0, 8)) }))
  await expect.poll(isNewest, soon).toEqual([{ id: comment?.id, isNewest: true }])
  expect(await visit(site.url)).toEqual({ status: 200, body: 'as it is' })

  await gitea.api('PATCH', `${pulls}/${number}`, { state: 'closed' })
  await expect.poll(async () => (await visit(link)).status, soon).toBe(404)
  await expect
    .poll(async () => (await commentsOf(site, number)).map(({ body }) => /\| State \| .*Removed/.test(body)), soon)
    .toEqual([true])
}, 180_000)

test('what Gitea has missed while it was away it is told when it is back', async () => {
  const site = await connected('patient')
  const build = 'sleep 8 && mkdir dist && echo built > dist/index.html'
  const files = { 'package.json': JSON.stringify({ name: 'x', version: '1.0.0', scripts: { build } }) }
  const commit = await site.repository.push('main', files, 'Build slowly')
  await expect.poll(() => statusOf(site, commit), soon).toMatchObject({ status: 'pending' })
  await gitea.stop()
  await expect.poll(() => visit(site.url), soon).toEqual({ status: 200, body: 'built\n' })
  await gitea.start()
  await expect.poll(() => statusOf(site, commit), soon).toMatchObject({ status: 'success', target_url: site.url })
}, 180_000)
