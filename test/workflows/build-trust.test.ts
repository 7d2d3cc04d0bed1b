import { createHmac, randomUUID } from 'node:crypto'
import { type Client, defaultPayloadConverter } from '@temporalio/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BuildInput } from '../../workflows/contract/builds.ts'
import { tarGz } from '../infra/archives.ts'
import { type GitServer, git, startGitServer } from '../infra/git-server.ts'
import { makeSite, randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { openTemporalClient } from './temporal-client.ts'

// The level of trust that a runner is given with a build: what it may read and keep there, test/runner/install/kept-folders.test.ts and test/hostile/poisoning.test.ts.

const stack = new AsyncDisposableStack()
let w: World
let owner: TestProject
let server: GitServer
let temporal: Client
beforeAll(async () => {
  server = stack.use(await startGitServer())
  w = stack.use(await world({ runner: true, env: { PLINTH_ALLOW_PRIVATE_GIT: 'true' } }))
  owner = await w.project('enterprise')
  temporal = await openTemporalClient(w, stack)
})
afterAll(() => stack.disposeAsync())

/** As the recorded input of the runner's activity says, once the deploy has ended. */
async function trustOf(deployId: string): Promise<string> {
  const { status, error } = await w.ended(deployId, owner.key)
  expect({ status, error }).toEqual({ status: expect.stringMatching(/^(?:active|ready)$/), error: null })
  const { events } = await temporal.workflow.getHandle(`deploy:${deployId}:1`).fetchHistory()
  const builds = (events ?? [])
    .map((event) => event.activityTaskScheduledEventAttributes)
    .filter((scheduled) => scheduled?.activityType?.name === 'buildSource')
  expect(builds).toHaveLength(1)
  const [input] = builds[0]?.input?.payloads ?? []
  return defaultPayloadConverter.fromPayload<BuildInput>(input ?? {}).trust
}

async function sendArchive(activate: boolean): Promise<string> {
  const site = await makeSite(w, owner)
  const bytes = tarGz([{ name: 'index.html', data: 'x' }])
  const endpoint = `POST /api/v1/sites/${site.id}/deploys?activate=${activate}`
  return (await w.call(endpoint, { key: owner.key, bytes, type: 'application/gzip' })).body.id
}

/** A site whose repository has the branch main, with previews and a webhook. */
async function connected() {
  const { id } = await makeSite(w, owner)
  const name = randomName('repository')
  const repository = server.repository(name)
  repository.pushFiles({ 'index.html': 'main' })
  const json = { repo_url: `${server.origin}/${name}.git`, branch_previews: true, pull_request_previews: true }
  expect((await w.call(`PUT /api/v1/sites/${id}/git`, { key: owner.key, json })).status).toBe(200)
  const { secret } = (await w.call(`POST /api/v1/sites/${id}/git/webhook`, { key: owner.key })).body
  /** Delivers what GitHub would. */
  const deliver = async (event: 'push' | 'pull_request', body: object) => {
    const raw = JSON.stringify(body)
    const headers = {
      'x-github-event': event,
      'x-github-delivery': randomUUID(),
      'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(raw).digest('hex')}`,
    }
    return (await w.call(`POST /hooks/git/${id}`, { bytes: Buffer.from(raw), type: 'application/json', headers })).body
  }
  const push = async (branch: string): Promise<string> => {
    const after = repository.pushFiles({ 'index.html': `new on ${branch}` }, { branch })
    return (await deliver('push', { ref: `refs/heads/${branch}`, after, head_commit: { message: 'New' } })).deploy_id
  }
  const openPullRequest = (head: { ref: string; sha: string }, from: 'repository' | 'fork') =>
    deliver('pull_request', {
      action: 'opened',
      pull_request: {
        number: 7,
        title: 'Better',
        user: { login: 'ada' },
        head: { ...head, repo: { id: from === 'fork' ? 2 : 1 } },
        base: { ref: 'main', repo: { id: 1 } },
      },
    })
  return { id, repository, push, openPullRequest }
}

test('69: an archive that goes live is built as production', async () => {
  expect(await trustOf(await sendArchive(true))).toBe('production')
})

test('69: an archive with activate=false is built as a preview', async () => {
  expect(await trustOf(await sendArchive(false))).toBe('preview')
})

test('69: a push to the connected branch is built as production', async () => {
  const { push } = await connected()
  expect(await trustOf(await push('main'))).toBe('production')
})

test('69: a push to another branch is built as a preview', async () => {
  const { push } = await connected()
  expect(await trustOf(await push('feature'))).toBe('preview')
})

test('69: a pull request of a branch of the same repository is built as a preview', async () => {
  const { repository, openPullRequest } = await connected()
  const sha = repository.pushFiles({ 'index.html': 'asked for' }, { branch: 'feature' })
  expect(await trustOf((await openPullRequest({ ref: 'feature', sha }, 'repository')).deploy_id)).toBe('preview')
})

test('69: the approved pull request of a fork is built as a fork', async () => {
  const { id, repository, openPullRequest } = await connected()
  const sha = repository.pushFiles({ 'index.html': 'of a stranger' }, { branch: 'of-a-fork' })
  git(repository.dir, ['update-ref', 'refs/pull/7/head', sha])
  git(repository.dir, ['update-ref', '-d', 'refs/heads/of-a-fork'])
  expect(await openPullRequest({ ref: 'patch-1', sha }, 'fork')).toMatchObject({ skipped: 'fork' })
  const [preview] = (await w.call(`GET /api/v1/sites/${id}/git/previews`, { key: owner.key })).body
  const { body } = await w.call(`POST /api/v1/sites/${id}/git/previews/${preview.id}/approval`, { key: owner.key })
  expect(await trustOf(body.newest_deploy_id)).toBe('fork')
})
