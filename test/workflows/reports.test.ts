import { spawn } from 'node:child_process'
import { createHmac, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Client } from '@temporalio/client'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { reconcile } from '../../workflows/reconciler.ts'
import { type Asked, type ForgeServer, startForgeServer, type Told } from '../infra/forges-server.ts'
import { type GitServer, startGitServer } from '../infra/git-server.ts'
import { builtBy, makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'
import { openTemporalClient } from './temporal-client.ts'

const soon = { timeout: 100_000, interval: 30 }
// a retry that is put off may be half a minute away, and its pauses double
const longTest = 240_000
vi.setConfig({ testTimeout: longTest })
const token = 'token-of-the-forge'

const stack = new AsyncDisposableStack()
let forge: ForgeServer
let server: GitServer
let repository: ReturnType<GitServer['repository']>
let w: World
let owner: TestProject
let temporal: Client
beforeAll(async () => {
  forge = await startForgeServer(stack)
  server = stack.use(await startGitServer({ intercept: passToForge }))
  repository = server.repository('ada/site')
  w = stack.use(await world({ runner: true, env: { PLINTH_ALLOW_PRIVATE_GIT: 'true', PLINTH_BUILDS_PER_PROJECT: '4' } }))
  owner = await w.project('enterprise')
  temporal = await openTemporalClient(w, stack)
})
afterAll(() => stack.disposeAsync())
beforeEach(() => {
  forge.instead = undefined
})

/** The forge has its API where its repositories are. */
function passToForge(req: IncomingMessage, res: ServerResponse): boolean {
  if (!req.url?.startsWith('/api/')) return false
  const outgoing = httpRequest(forge.origin + req.url, { method: req.method, headers: req.headers }, (answer) => {
    res.writeHead(answer.statusCode ?? 500, answer.headers)
    answer.pipe(res)
  })
  outgoing.on('error', () => res.destroy())
  req.pipe(outgoing)
  return true
}

type Kind = 'github' | 'gitea'
const apiOf = { github: '/api/v3/repos/ada/site', gitea: '/api/v1/repos/ada/site' }

interface Connected {
  readonly id: string
  readonly subdomain: string
  readonly name: string
  readonly branch: string
  readonly secret: string
  readonly kind: Kind
  readonly at: World
  readonly key: string
}

let sites = 0

interface ConnectOptions {
  readonly kind?: Kind
  readonly at?: World
  readonly project?: TestProject
  readonly build_command?: string
  readonly output_dir?: string
}

/** A site that follows a branch of its own in the repository. */
async function connected({ kind = 'github', at = w, project = owner, ...settings }: ConnectOptions = {}): Promise<Connected> {
  const { id, subdomain } = await makeSite(at, project)
  const name = `site ${++sites}`
  const { key } = project
  await at.call(`PATCH /api/v1/sites/${id}`, { key, json: { name } })
  const branch = `live-${sites}`
  const json = { repo_url: `${server.origin}/ada/site.git`, branch, token, ...settings }
  const put = await at.call(`PUT /api/v1/sites/${id}/git`, { key, json })
  if (put.status !== 200) throw new Error(JSON.stringify(put.body))
  const { secret } = (await at.call(`POST /api/v1/sites/${id}/git/webhook`, { key })).body
  return { id, subdomain, name, branch, secret, kind, at, key }
}

async function deliver(site: Connected, event: string, payload: object): Promise<any> {
  const bytes = Buffer.from(JSON.stringify(payload))
  const hmac = createHmac('sha256', site.secret).update(bytes).digest('hex')
  const headers: Record<string, string> =
    site.kind === 'github'
      ? { 'x-github-event': event, 'x-github-delivery': randomUUID(), 'x-hub-signature-256': `sha256=${hmac}` }
      : { 'x-gitea-event': event, 'x-gitea-delivery': randomUUID(), 'x-gitea-signature': hmac }
  const { status, body } = await site.at.call(`POST /hooks/git/${site.id}`, { bytes, type: 'application/json', headers })
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
  return body
}

const zeros = '0'.repeat(40)

/** Commits, pushes and tells; answers the deploy and the commit. */
async function push(site: Connected, files: Record<string, string>, branch = site.branch) {
  const commit = repository.pushFiles(files, { branch, message: 'A change' })
  const head_commit = { message: 'A change', author: { name: 'Ada' } }
  const { deploy_id } = await deliver(site, 'push', { ref: `refs/heads/${branch}`, before: zeros, after: commit, head_commit })
  return { deploy_id: deploy_id as string, commit }
}

const pullRequest = (action: string, branch: string, sha: string, fork = false) => ({
  action,
  pull_request: {
    number: 7,
    title: 'A change',
    user: { login: 'ada' },
    head: { ref: branch, sha, repo: { id: fork ? 2 : 1 } },
    base: { ref: 'main', repo: { id: 1 } },
  },
})

async function propose(site: Connected, action: string, files: Record<string, string>, branch = `change-${site.name.slice(5)}`) {
  const commit = repository.pushFiles(files, { branch, message: 'A change' })
  return { ...(await deliver(site, 'pull_request', pullRequest(action, branch, commit))), commit, branch }
}

const isOf =
  (site: Connected, what: string) =>
  ({ what: asked, body }: Asked) =>
    asked.startsWith(`POST ${apiOf[site.kind]}/${what}`) && body.context === `plinth/${site.name}`
const statusesOf = (site: Connected) =>
  forge.asked.filter(isOf(site, 'statuses/')).map(({ what, body }) => ({ commit: what.split('/').at(-1), ...body }))
const statesOf = (site: Connected) => statusesOf(site).map(({ state }) => state)
const commentsOf = (site: Connected) => forge.notes.filter(({ body }) => body.startsWith(`<!-- plinth:${site.id} -->`))
const commentOf = (site: Connected) => commentsOf(site)[0]?.body ?? ''
const logOf = (deployId: string) => `${w.config.urls.base}/api/v1/deploys/${deployId}/logs`
/** What GitHub was told of the deployment. */
const deploymentsOf = (deployId: string) =>
  forge.asked.map(({ body }) => body).filter((body) => body?.environment_url !== undefined && body.log_url === logOf(deployId))
const gitOf = async (site: Connected) => (await site.at.call(`GET /api/v1/sites/${site.id}/git`, { key: site.key })).body
const workflowOf = (site: Connected) => temporal.workflow.getHandle(`git:${site.id}`)
/** Replays every run that the workflow of the site has had, and keeps the longest one as a fixture. Answers all that Temporal holds of them. */
async function replayAll(site: Connected, name: string): Promise<string> {
  const runs: { runId: string; memo: unknown }[] = []
  // what has ended is listed a moment later
  await expect
    .poll(async () => {
      runs.length = 0
      const query = `WorkflowId = 'git:${site.id}'`
      for await (const { runId, memo, status } of temporal.workflow.list({ query })) {
        if (status.name === 'COMPLETED') runs.push({ runId, memo })
      }
      return runs.length
    }, soon)
    .toBeGreaterThan(0)
  const histories = await Promise.all(
    runs.map(async ({ runId }) => {
      const history = await temporal.workflow.getHandle(`git:${site.id}`, runId).fetchHistory()
      await replay(history)
      return { runId, history }
    }),
  )
  const lengthOf = ({ history }: (typeof histories)[number]) => history.events?.length ?? 0
  const [longest] = histories.sort((one, other) => lengthOf(other) - lengthOf(one))
  record(w.temporal, `git:${site.id}`, name, longest?.runId)
  const all = JSON.stringify([runs, histories])
  const payloads = [...all.matchAll(/"data":"([^"]+)"/g)].map(([, data]) => Buffer.from(data ?? '', 'base64').toString())
  return [all, ...payloads].join('\n')
}

/** Resolves when there is nothing to tell any more. */
const silent = (site: Connected) =>
  expect.poll(async () => (await workflowOf(site).describe()).status.name, soon).toBe('COMPLETED')

const page = (text: string) => ({ 'index.html': text })
/** A source that is built by a command. */
const source = (text: string, build: string) => ({
  ...page(text),
  'plinth.json': builtBy(build),
})
const slowly = 'sleep 1; mkdir -p dist && cp index.html dist/'

/** Keeps the forge from taking what fits, until it is let go; answers what came in the meantime. */
function refuse(fits: (asked: Asked) => boolean, told: Told) {
  const came: number[] = []
  forge.instead = (asked) => {
    if (!fits(asked)) return undefined
    came.push(Date.now())
    return told
  }
  return came
}
const away = { status: 503, body: { message: 'down for maintenance' } }

describe('a push', () => {
  test('E31: that is cancelled is told as an error with who cancelled it, as GitHub has no other word', async () => {
    const site = await connected({ project: await w.project('enterprise') })
    const { deploy_id } = await push(site, source('one', 'sleep 60'))
    await expect.poll(() => statesOf(site), soon).toEqual(['pending'])
    expect((await w.call(`POST /api/v1/deploys/${deploy_id}/cancel`, { key: site.key })).status).toBe(200)
    await expect.poll(() => statesOf(site), soon).toEqual(['pending', 'error'])
    expect(statusesOf(site).at(-1)?.description).toBe('The deploy was cancelled by key full')
    await expect.poll(() => deploymentsOf(deploy_id).map(({ state }) => state), soon).toEqual(['in_progress', 'error'])
  })

  test('G04: is told as pending and then as live, with the links that fit, and recorded as a deployment', async () => {
    const site = await connected({ project: await w.project('enterprise') })
    const { deploy_id, commit } = await push(site, source('one', slowly))
    expect(await w.ended(deploy_id, site.key)).toMatchObject({ status: 'active', error: null })
    await expect.poll(() => statesOf(site), soon).toEqual(['pending', 'success'])
    const [pending, success] = statusesOf(site)
    expect(pending).toMatchObject({ commit, target_url: logOf(deploy_id), description: 'The site is being built' })
    expect(success).toMatchObject({
      commit,
      target_url: expect.stringContaining(`//${site.subdomain}.${w.config.urls.platformDomain}`),
      description: expect.stringMatching(/^Deployed in \d+ s$/),
    })
    await silent(site)
    const made = forge.asked.filter(({ body }) => body?.payload?.deploy_id === deploy_id)
    expect(made.map(({ body }) => body)).toMatchObject([{ ref: commit, environment: 'production', production_environment: true }])
    expect(deploymentsOf(deploy_id).map(({ state }) => state)).toEqual(['in_progress', 'success'])
    expect((await gitOf(site)).last_report).toMatchObject({ error: null })
    await replayAll(site, 'reports-told')
  })

  test('G04: is told as live once every edge serves it, or after a second', async () => {
    const site = await connected({ project: await w.project('enterprise') })
    // one that never says what it serves
    const silentEdge = { id: randomUUID(), seen_at: new Date(Date.now() + 3_600_000) }
    await w.db.insertInto('edges').values(silentEdge).execute()
    let toldAt = 0
    forge.instead = (asked) => {
      if (isOf(site, 'statuses/')(asked) && asked.body.state === 'success') toldAt = Date.now()
      return undefined
    }
    const { deploy_id } = await push(site, page('served'))
    await expect.poll(() => statesOf(site).at(-1), soon).toBe('success')
    await w.db.deleteFrom('edges').where('id', '=', silentEdge.id).execute()
    const { activated_at } = await w.ended(deploy_id, site.key)
    expect(toldAt - Date.parse(activated_at)).toBeGreaterThan(900)
  })

  test('G04: whose build fails is told as a failure, with the reason and the log', async () => {
    const site = await connected()
    const { deploy_id, commit } = await push(site, source('two', 'exit 3'))
    expect((await w.ended(deploy_id, owner.key)).status).toBe('failed')
    await expect.poll(() => statesOf(site).at(-1), soon).toBe('failure')
    expect(statusesOf(site).at(-1)).toMatchObject({
      commit,
      target_url: logOf(deploy_id),
      description: expect.stringMatching(/^The build failed: /),
    })
  })

  test('is told later when the forge is away, and is live long before', async () => {
    const site = await connected()
    const came = refuse(({ body }) => body?.context === `plinth/${site.name}`, away)
    const { deploy_id } = await push(site, page('three'))
    expect((await w.ended(deploy_id, owner.key)).status).toBe('active')
    await expect.poll(() => came.length, soon).toBeGreaterThan(2)
    expect((await gitOf(site)).last_report).toBeNull()
    forge.instead = undefined
    await silent(site)
    expect(statesOf(site).at(-1)).toBe('success')
    await replayAll(site, 'reports-retried')
  })

  test('is told again not before the forge wants to hear of it', async () => {
    const site = await connected()
    const busy = { status: 429, headers: { 'retry-after': '3' }, body: { message: 'slow down' } }
    const came = refuse(({ body }) => body?.context === `plinth/${site.name}`, busy)
    const { deploy_id } = await push(site, page('four'))
    await w.ended(deploy_id, owner.key)
    await expect.poll(() => came.length, soon).toBe(2)
    expect((came[1] ?? 0) - (came[0] ?? 0)).toBeGreaterThanOrEqual(3000)
    forge.instead = undefined
    await silent(site)
    expect(statesOf(site).at(-1)).toBe('success')
  })

  test('G01: that the token may not tell of is given up at once, and the connection says why', async () => {
    const site = await connected()
    const came = refuse(({ body }) => body?.context === `plinth/${site.name}`, {
      status: 401,
      body: { message: `Bad ${token} \`x` },
    })
    const { deploy_id } = await push(site, page('five'))
    expect((await w.ended(deploy_id, owner.key)).status).toBe('active')
    await silent(site)
    await expect
      .poll(async () => (await gitOf(site)).last_report, soon)
      .toMatchObject({
        at: expect.any(String),
        error: expect.stringContaining('does not know the token'),
      })
    // one try for each state that it saw
    expect(came.length).toBeLessThanOrEqual(2)
    expect(JSON.stringify((await gitOf(site)).last_report)).not.toContain(token)
    const histories = await replayAll(site, 'reports-given-up')
    expect([/⚠️ told \d, given up [12]/.test(histories), histories.includes(token)]).toEqual([true, false])
  })

  test('that was held up does not hide what was told of the same commit later', async () => {
    const site = await connected({ build_command: 'exit 3' })
    refuse(({ body }) => body?.context === `plinth/${site.name}` && body.state === 'failure', away)
    const first = await push(site, page('six'))
    expect((await w.ended(first.deploy_id, owner.key)).status).toBe('failed')
    const json = { repo_url: `${server.origin}/ada/site.git`, branch: site.branch, build_command: slowly, output_dir: 'dist' }
    await w.call(`PUT /api/v1/sites/${site.id}/git`, { key: owner.key, json })
    const second = (await w.call(`POST /api/v1/sites/${site.id}/git/deploy`, { key: owner.key })).body
    expect(await w.ended(second.id, owner.key)).toMatchObject({ status: 'active', git: { commit: first.commit } })
    await expect.poll(() => statesOf(site), soon).toContain('success')
    forge.instead = undefined
    await silent(site)
    expect(statesOf(site).at(-1)).toBe('success')
  })
})

test('a deployment ends when another one is live, and is back after a rollback', async () => {
  const site = await connected()
  const first = await push(site, page('old'))
  expect((await w.ended(first.deploy_id, owner.key)).status).toBe('active')
  const second = await push(site, page('new'))
  expect((await w.ended(second.deploy_id, owner.key)).status).toBe('active')
  const states = () => [first, second].map(({ deploy_id }) => deploymentsOf(deploy_id).at(-1)?.state)
  await expect.poll(states, soon).toEqual(['inactive', 'success'])
  expect((await w.call(`POST /api/v1/deploys/${first.deploy_id}/activate`, { key: owner.key })).status).toBe(200)
  await expect.poll(states, soon).toEqual(['success', 'inactive'])
  await silent(site)
  const last = [first, second].map(({ commit }) => statusesOf(site).findLast((status) => status.commit === commit)?.state)
  expect(last).toEqual(['success', 'success'])
})

describe('the comment of a pull request', () => {
  test('is one, also with ten quick pushes, and shows the one link with the newest commit', async () => {
    const site = await connected({ kind: 'gitea' })
    let last = await propose(site, 'opened', page('first'))
    for (let i = 0; i < 10; i++) last = await propose(site, 'synchronized', page(`push ${i}`))
    await expect.poll(() => commentOf(site), soon).toContain(`\`${last.commit.slice(0, 8)}\` |\n| State | ✅ Ready`)
    expect(commentsOf(site)).toHaveLength(1)
    const link = /\| Address \| \[Open\]\((.*)\)/.exec(commentOf(site))?.[1]
    const listed = (await w.call(`GET /api/v1/sites/${site.id}/git/previews`, { key: owner.key })).body
    expect(link).toBe(listed[0].url)
    await expect
      .poll(() => statusesOf(site).at(-1), soon)
      .toMatchObject({ commit: last.commit, state: 'success', target_url: link })
    await silent(site)
    expect(commentsOf(site)).toHaveLength(1)
  })

  test('says that the preview is removed when the pull request is closed, and its deployment ends', async () => {
    // another site of the same repository has environments of its own
    await connected()
    const site = await connected()
    const { commit, branch, deploy_id } = await propose(site, 'opened', page('to be closed'))
    await expect.poll(() => commentOf(site), soon).toContain('✅ Ready')
    await expect.poll(() => statesOf(site).at(-1), soon).toBe('success')
    await silent(site)
    await deliver(site, 'pull_request', pullRequest('closed', branch, commit))
    await expect.poll(() => commentOf(site), soon).toContain('Removed')
    expect(commentOf(site)).not.toContain('Address')
    await expect.poll(() => deploymentsOf(deploy_id).at(-1)?.state, soon).toBe('inactive')
    await silent(site)
    expect([commentsOf(site).length, statesOf(site).at(-1)]).toEqual([1, 'success'])
    const environments = forge.asked
      .filter(({ body }) => body?.payload?.deploy_id === deploy_id)
      .map(({ body }) => body.environment)
    expect(environments).toEqual([`${site.subdomain}/preview/${branch}`])
  })

  test('of a fork says that it waits for approval, and nothing is built or marked', async () => {
    const site = await connected({ kind: 'gitea' })
    const answer = await deliver(site, 'pull_request', pullRequest('opened', 'main', 'a'.repeat(40), true))
    expect(answer.skipped).toBe('fork')
    await expect.poll(() => commentOf(site), soon).toContain('approval')
    await silent(site)
    expect([statesOf(site), commentsOf(site).length]).toEqual([[], 1])
  })

  test('that the forge does not take holds back no other report', async () => {
    const site = await connected({ kind: 'gitea' })
    const isComment = ({ what, body }: Asked) => /\/comments/.test(what) && (body === undefined || body.body?.includes(site.id))
    refuse(isComment, { status: 500, body: { message: 'no such pull request' } })
    await propose(site, 'opened', page('held back'))
    await expect.poll(() => statesOf(site).at(-1), soon).toBe('success')
    expect(commentsOf(site)).toEqual([])
    forge.instead = undefined
    await silent(site)
    expect(commentOf(site)).toContain('✅ Ready')
  })

  test('is not made twice when the worker is killed while it is made', async () => {
    await using mortal = await world({ worker: false, env: { PLINTH_ALLOW_PRIVATE_GIT: 'true' } })
    const site = await connected({ kind: 'gitea', at: mortal, project: await mortal.project('enterprise') })
    const { promise: isMade, resolve: made } = Promise.withResolvers<void>()
    forge.instead = (asked) => {
      if (!asked.what.startsWith('POST') || !asked.body?.body?.includes(site.id)) return undefined
      forge.notes.push({ id: 100 + forge.notes.length, author: 'me', body: asked.body.body })
      made()
      return new Promise(() => undefined)
    }
    const first = startWorkerProcess(mortal)
    await deliver(site, 'pull_request', pullRequest('opened', 'main', 'b'.repeat(40), true))
    await isMade
    first.kill('SIGKILL')
    forge.instead = undefined
    const second = startWorkerProcess(mortal)
    const commented = () => mortal.db.selectFrom('git_previews').select(['commented', 'comment_id']).execute()
    await expect.poll(commented, soon).toEqual([{ commented: 'waiting_for_approval', comment_id: expect.any(String) }])
    expect(commentsOf(site)).toHaveLength(1)
    second.kill('SIGTERM')
    await once(second, 'exit')
  })
})

function startWorkerProcess(at: World) {
  const { dataDir, secretKey } = at.config
  const env = {
    PATH: process.env['PATH'],
    PLINTH_DATA_DIR: dataDir,
    PLINTH_DATABASE_URL: at.database.url,
    PLINTH_TEMPORAL_ADDRESS: at.temporal.address,
    PLINTH_TEMPORAL_NAMESPACE: at.temporal.namespace,
    PLINTH_SECRET_KEY: Buffer.from(secretKey ?? '').toString('base64'),
    PLINTH_ALLOW_PRIVATE_GIT: 'true',
    PLINTH_LOG_LEVEL: 'error',
  }
  return spawn(process.execPath, ['workflows/main.ts'], { env, stdio: ['ignore', 'ignore', 'inherit'] })
}

test('what Temporal has forgotten is told all the same', async () => {
  await using forgetful = await world({ ownTemporal: true, env: { PLINTH_ALLOW_PRIVATE_GIT: 'true' } })
  const site = await connected({ kind: 'gitea', at: forgetful, project: await forgetful.project('enterprise') })
  const came = refuse(({ what }) => what.includes('/comments'), away)
  await deliver(site, 'pull_request', pullRequest('opened', 'main', 'c'.repeat(40), true))
  await expect.poll(() => came.length, soon).toBeGreaterThan(0)
  await forgetful.killTemporal()
  await forgetful.startTemporal({ forget: true })
  forge.instead = undefined
  const options = { stalledAfterMs: 0, dueWithinMs: 0, checkIntervalMs: 1000, retryPauseMs: 60_000 }
  expect(await reconcile(forgetful, forgetful.workflows, new Date(Date.now() + 1), options)).toEqual([`git:${site.id}`])
  await expect.poll(() => commentOf(site), soon).toContain('approval')
  expect(commentsOf(site)).toHaveLength(1)
})

describeHistories(
  /^reports-.*\.json$/,
  ['told', 'retried', 'given-up'].map((ending) => `reports-${ending}`),
)
