import { createHmac, randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { fetchesDir } from '../../workflows/activities/fetch-repository.ts'
import { openQueues } from '../../workflows/open.ts'
import { fetchingProcesses } from '../infra/git-fixtures.ts'
import { type GitServer, startGitServer } from '../infra/git-server.ts'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'
import { openTemporalClient } from './temporal-client.ts'

// From a push to what visitors see, with a git server of this machine. What a stranger's repository may hold: test/infra/git-hostile.test.ts.

const stack = new AsyncDisposableStack()
let w: World
let owner: TestProject
let server: GitServer
let temporal: Client
/** Answers in place of the git server; true when it has done so. */
let intercept: (req: IncomingMessage, res: ServerResponse) => boolean
beforeEach(() => {
  intercept = () => false
})
beforeAll(async () => {
  server = stack.use(await startGitServer({ intercept: (req, res) => intercept(req, res) }))
  w = stack.use(await world({ runner: true, edge: true, env: { PLINTH_ALLOW_PRIVATE_GIT: 'true' } }))
  owner = await w.project('enterprise')
  temporal = await openTemporalClient(w, stack)
})
afterAll(() => stack.disposeAsync())

let repositories = 0
/** A site with a repository of its own. */
async function connected(settings: object = {}, { to = w, from = server, project = owner } = {}) {
  const name = `site-${++repositories}`
  const repository = from.repository(name)
  const site = await makeSite(to, project)
  const json = { repo_url: `${from.origin}/${name}.git`, ...settings }
  const { status, body } = await to.call(`PUT /api/v1/sites/${site.id}/git`, { key: project.key, json })
  if (status !== 200) throw new Error(JSON.stringify(body))
  return { site, repository }
}

// for a machine that is busy with other things
const soon = { timeout: 60_000 }

const page = (text: string) => ({ 'index.html': text })
const call = async (endpoint: string, json?: object) => (await w.call(endpoint, { key: owner.key, json })).body
const deployNow = (siteId: string) => call(`POST /api/v1/sites/${siteId}/git/deploy`)
const deployed = async (siteId: string) => await w.ended((await deployNow(siteId)).id, owner.key)
const logOf = async (deployId: string) => (await call(`GET /api/v1/deploys/${deployId}/logs`)).text as string
const deploysOf = (siteId: string) =>
  w.db.selectFrom('deploys').selectAll().where('site_id', '=', siteId).orderBy('seq').execute()
const live = async (site: { subdomain: string }) => (await w.visit(site.subdomain)).body
const idOf = (deployId: string) => `deploy:${deployId}:1`
async function detailsOf(deployId: string): Promise<string> {
  const handle = temporal.workflow.getHandle(idOf(deployId))
  return (await handle.query<{ currentDetails?: string }>('__temporal_workflow_metadata')).currentDetails ?? ''
}

/** Delivers pushes as Gitea does. */
async function webhookOf(siteId: string) {
  const { secret } = await call(`POST /api/v1/sites/${siteId}/git/webhook`)
  return (after: string, branch = 'main') => {
    const raw = JSON.stringify({ ref: `refs/heads/${branch}`, after, head_commit: { id: after, message: 'Told' } })
    const signature = createHmac('sha256', secret).update(raw).digest('hex')
    const headers = { 'x-gitea-event': 'push', 'x-gitea-delivery': randomUUID(), 'x-gitea-signature': signature }
    return w.call(`POST /hooks/git/${siteId}`, { headers, bytes: Buffer.from(raw), type: 'application/json' })
  }
}

/** Holds every request to the git server back until it is let go. */
function hold() {
  const held: (() => void)[] = []
  const reached = Promise.withResolvers<void>()
  let isOver = false
  intercept = (req, res) => {
    if (isOver) return false
    reached.resolve()
    held.push(() => {
      // as a server does that goes away in the middle
      res.destroy()
      req.destroy()
    })
    return true
  }
  return {
    reached: reached.promise,
    letGo() {
      isOver = true
      for (const end of held) end()
    },
  }
}

test('G02: deploy now shows what the branch is at, and the log and the deploy tell which commit that is', async () => {
  const { site, repository } = await connected()
  const commit = repository.pushFiles({ ...page('first'), 'a b/ü.txt': 'x' }, { message: 'Begin `it` <b>\n\nmore' })
  const first = await deployed(site.id)
  const git = { commit, ref: 'main', message: 'Begin `it` <b>', author: 'Ada Lovelace' }
  expect(first).toMatchObject({ status: 'active', source_kind: 'git', build_mode: 'static', activate: true, git, file_count: 2 })
  await expect.poll(() => live(site)).toBe('first')
  const lines = (await logOf(first.id)).split('\n')
  const name = repository.dir.split('/').at(-1)
  expect(lines.slice(0, 3)).toEqual([
    `fetching main of ${server.origin}/${name}`,
    `commit ${commit.slice(0, 7)} "Begin \`it\` <b>" by Ada Lovelace, 2 files, 6 bytes`,
    'unpacked 2 files',
  ])

  const next = repository.pushFiles(page('second'))
  expect((await deployed(site.id)).git.commit).toBe(next)
  await expect.poll(() => live(site)).toBe('second')
  expect((await w.visit(site.subdomain, '/a%20b/%C3%BC.txt')).status).toBe(404)
})

test('D23: the manifest of a site whose live deploy is from git is empty', async () => {
  const { site, repository } = await connected()
  repository.pushFiles(page('x'))
  await deployed(site.id)
  expect(await call(`GET /api/v1/sites/${site.id}/manifest`)).toEqual([])
})

test('an operator reads in Temporal which commit of whom is deployed, and a stranger’s text does nothing there', async () => {
  const { site, repository } = await connected()
  const commit = repository.pushFiles(page('x'), { message: '![x](https://evil.example) **bold**' })
  const tell = await webhookOf(site.id)
  const { deploy_id } = (await tell(commit)).body
  await w.ended(deploy_id, owner.key)
  const handle = temporal.workflow.getHandle(idOf(deploy_id))
  await handle.result()
  const description = await handle.describe()
  expect(await description.staticSummary()).toBe(`**A site** ← git \`main@${commit.slice(0, 7)}\` \`Told\``)
  const details = await detailsOf(deploy_id)
  expect(details).toContain('**A site** · deploy 1 from git `main`')
  expect(details).toContain(
    `✅ fetched \`main@${commit.slice(0, 7)}\` \`![x](https://evil.example) **bold**\` by \`Ada Lovelace\``,
  )
  const query = `\`Trigger\`="git" and GitRef="main" and SiteId="${site.id}" and DeployStatus="active"`
  await expect.poll(async () => (await temporal.workflow.count(query)).count).toBe(1)
})

describe('pushes', () => {
  test('G04: a signed push goes live, a forged one does nothing', async () => {
    const { site, repository } = await connected()
    const tell = await webhookOf(site.id)
    const { status, body } = await tell(repository.pushFiles(page('pushed')))
    expect(status).toBe(200)
    expect(await w.ended(body.deploy_id, owner.key)).toMatchObject({ status: 'active', git: { message: 'First' } })
    await expect.poll(() => live(site)).toBe('pushed')
    await webhookOf(site.id)
    expect((await tell(repository.pushFiles(page('forged')))).status).toBe(401)
    expect(await deploysOf(site.id)).toHaveLength(1)
  })

  test('G04: ten while one is fetched make two builds, and the last of them is live', async () => {
    const { site, repository } = await connected()
    const tell = await webhookOf(site.id)
    const push = async (i: number) => (await tell(repository.pushFiles(page(`push ${i}`)))).body.deploy_id
    const held = hold()
    const first = await push(0)
    await held.reached
    const others: string[] = []
    for (let i = 1; i < 10; i++) others.push(await push(i))
    held.letGo()
    expect(new Set(others).size).toBe(1)
    for (const id of [first, ...others]) expect((await w.ended(id, owner.key)).status).toMatch(/^(active|superseded)$/)
    expect(await deploysOf(site.id)).toHaveLength(2)
    await expect.poll(() => live(site)).toBe('push 9')
  })

  test('deliveries in another order than the pushes leave the newest commit live', async () => {
    const { site, repository } = await connected()
    const tell = await webhookOf(site.id)
    const commits = ['one', 'two', 'three'].map((text) => repository.pushFiles(page(text)))
    for (const commit of [2, 0, 1].map((i) => commits[i] ?? '')) {
      const { body } = await tell(commit)
      await w.ended(body.deploy_id, owner.key)
    }
    await expect.poll(() => live(site)).toBe('three')
    expect((await deploysOf(site.id)).map(({ git }) => git?.commit)).toEqual([commits[2], commits[2], commits[2]])
  })

  test('E5: a push joins the deploy that waits, which fetches the head of its own turn; an upload in between keeps its place', async () => {
    const { site, repository } = await connected()
    repository.pushFiles(page('one'))
    const held = hold()
    const first = await deployNow(site.id)
    await held.reached
    const second = await deployNow(site.id)
    const tell = await webhookOf(site.id)
    const commit = repository.pushFiles(page('two'))
    expect((await tell(commit)).body.deploy_id).toBe(second.id)
    expect((await call(`GET /api/v1/deploys/${second.id}`)).git.commit).toBe(commit)
    const upload = await call(`POST /api/v1/sites/${site.id}/deploy-files`, {
      files: [{ path: 'index.html', content: 'upload' }],
    })
    const third = await deployNow(site.id)
    expect(new Set([first.id, second.id, upload.id, third.id]).size).toBe(4)
    repository.pushFiles(page('three'))
    held.letGo()
    for (const { id } of [first, second, third]) expect((await w.ended(id, owner.key)).status).not.toBe('failed')
    expect((await w.ended(third.id, owner.key)).status).toBe('active')
    await expect.poll(() => live(site)).toBe('three')
    expect((await w.ended(second.id, owner.key)).status).toBe('superseded')
  })

  test('a branch of its own has a preview, which leaves the site as it is', async () => {
    const { site, repository } = await connected({ branch_previews: true })
    repository.pushFiles(page('live'))
    await deployed(site.id)
    const tell = await webhookOf(site.id)
    const { body } = await tell(repository.pushFiles(page('preview'), { branch: 'feature/x' }), 'feature/x')
    const deploy = await w.ended(body.deploy_id, owner.key)
    expect(deploy).toMatchObject({ status: 'ready', activate: false, is_preview: true, git: { ref: 'feature/x' } })
    const row = await w.db.selectFrom('preview_links').selectAll().where('site_id', '=', site.id).executeTakeFirstOrThrow()
    expect(row).toMatchObject({ deploy_id: deploy.id, token_sha256: expect.any(String) })
    await expect.poll(() => live(site)).toBe('live')
    const handle = temporal.workflow.getHandle(idOf(deploy.id))
    expect(await handle.result()).toEqual({ outcome: 'ready', summary: '✅ ready, not published' })
    expect(await detailsOf(deploy.id)).toContain('✅ the link of the preview shows it')
    await replay(await handle.fetchHistory())
    record(w.temporal, idOf(deploy.id), 'git-deploy-preview')
  })
})

describe('G05: a private repository over TLS', () => {
  const token = 'canary-3f8e21-token'
  let vault: GitServer
  let secured: World
  let project: TestProject
  beforeAll(async () => {
    vault = stack.use(await startGitServer({ tls: true, credentials: `oauth2:${token}` }))
    const env = { PLINTH_ALLOW_PRIVATE_GIT: 'true', NODE_EXTRA_CA_CERTS: vault.caFile }
    secured = stack.use(await world({ runner: true, edge: true, env }))
    project = await secured.project('pro')
  })
  const connect = (settings: object) => connected(settings, { to: secured, from: vault, project })
  const deploy = async (siteId: string) => {
    const { body } = await secured.call(`POST /api/v1/sites/${siteId}/git/deploy`, { key: project.key })
    return await secured.ended(body.id, project.key)
  }
  const log = async (id: string) => (await secured.call(`GET /api/v1/deploys/${id}/logs`, { key: project.key })).body.text

  test('goes live with its token, which is in no log, row, or history', async () => {
    const { site, repository } = await connect({ token })
    repository.pushFiles(page('private'))
    const { id, status } = await deploy(site.id)
    expect(status).toBe('active')
    await expect.poll(async () => (await secured.visit(site.subdomain)).body).toBe('private')
    const connection = await Connection.connect({ address: secured.temporal.address })
    const history = await new Client({ connection, namespace: secured.temporal.namespace }).workflow
      .getHandle(idOf(id))
      .fetchHistory()
    await connection.close()
    const rows = await secured.db.selectFrom('deploys').selectAll().where('id', '=', id).execute()
    const sealed = await secured.db.selectFrom('git_connections').selectAll().where('site_id', '=', site.id).execute()
    for (const text of [JSON.stringify([history, rows, sealed]), await log(id)]) {
      expect(text).not.toContain('canary')
      expect(text).not.toContain(btoa(`oauth2:${token}`))
    }
  })

  test.each([
    ['a wrong token', { token: 'canary-wrong' }, 'the token is valid and may read this repository'],
    ['none', {}, 'a private repository needs a token that may read it'],
  ])('with %s the deploy fails with a hint', async (_what, settings, hint) => {
    const { site, repository } = await connect(settings)
    repository.pushFiles(page('private'))
    const failed = await deploy(site.id)
    expect(failed).toMatchObject({ status: 'failed', error: expect.stringContaining(hint), build_mode: null })
    expect(failed.error).not.toContain('canary')
    expect(await log(failed.id)).toContain(`failed: ${failed.error}`)
  })
})

describe('a repository that cannot be deployed', () => {
  test('check 56: with large files elsewhere, a submodule, or a link in the place of its page', async () => {
    const { site, repository } = await connected()
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'0'.repeat(64)}\nsize 12345\n`
    repository.pushFiles({ ...page('x'), 'film.mp4': pointer })
    expect(await deployed(site.id)).toMatchObject({ status: 'failed', error: expect.stringMatching(/film\.mp4.*Git LFS/i) })
    const oid = 'a'.repeat(40)
    repository.commit(repository.rawTree([{ mode: '160000', name: 'theme', oid }]))
    expect(await deployed(site.id)).toMatchObject({ status: 'failed', error: expect.stringMatching(/theme.*submodule/i) })
    const link = repository.blob('/etc/passwd')
    repository.commit(
      repository.rawTree([
        { mode: '120000', name: 'index.html', oid: link },
        { mode: '100644', name: 'x.txt', oid: link },
      ]),
    )
    const linked = await deployed(site.id)
    expect(linked).toMatchObject({ status: 'failed', skipped_paths: ['index.html'] })
    expect(linked.error).toMatch(
      /^the repository has no index\.html at its root; name the folder .* output_dir of the git connection/,
    )
    expect(await logOf(linked.id)).toMatch(/left out 1 path \(a link\): index\.html/)
    expect(readdirSync(fetchesDir(w.config)).filter((name) => name.endsWith('.gz'))).toEqual([])
  })

  test('a branch that is not there names those that are, and the deploys that wait go on', async () => {
    const { site, repository } = await connected({ branch: 'trunk' })
    repository.pushFiles(page('x'))
    const failed = await deployed(site.id)
    expect(failed).toMatchObject({ status: 'failed', error: 'the repository has no branch trunk; it has main' })
    const handle = temporal.workflow.getHandle(idOf(failed.id))
    expect(await handle.result()).toEqual({ outcome: 'failed', summary: `❌ ${failed.error}` })
    await replay(await handle.fetchHistory())
    record(w.temporal, idOf(failed.id), 'git-deploy-failed')
    repository.pushFiles(page('y'), { branch: 'trunk' })
    expect((await deployed(site.id)).status).toBe('active')
  })

  test('one that was disconnected while it waited says so', async () => {
    const { site, repository } = await connected()
    repository.pushFiles(page('x'))
    const held = hold()
    const first = await deployNow(site.id)
    await held.reached
    const second = await deployNow(site.id)
    await call(`DELETE /api/v1/sites/${site.id}/git`)
    held.letGo()
    await w.ended(first.id, owner.key)
    expect(await w.ended(second.id, owner.key)).toMatchObject({
      status: 'failed',
      error: 'the repository was disconnected; connect it and deploy again',
    })
    expect(await logOf(second.id)).toBe('failed: the repository was disconnected; connect it and deploy again\n')
  })

  test('a server that is busy is asked again', async () => {
    const { site, repository } = await connected()
    repository.pushFiles(page('x'))
    let refused = 0
    intercept = (_req, res) => refused++ === 0 && !!res.writeHead(503).end()
    const deploy = await deployed(site.id)
    expect(deploy.status).toBe('active')
    expect(await logOf(deploy.id)).toContain('it answered 503')
    const handle = temporal.workflow.getHandle(idOf(deploy.id))
    await handle.result()
    await replay(await handle.fetchHistory())
    record(w.temporal, idOf(deploy.id), 'git-deploy')
  })

  test.each([
    ['answers 503', 'it answered 503', (res: ServerResponse) => void res.writeHead(503).end()],
    ['hangs', 'fetching main', () => undefined],
  ])('keeps no other site of its project from building while it %s', async (_how, reason, answer) => {
    const { site, repository } = await connected()
    repository.pushFiles(page('x'))
    let isAway = true
    const held: ServerResponse[] = []
    const name = repository.dir.split('/').at(-1) ?? ''
    intercept = (req, res) => {
      if (!isAway || !req.url?.includes(name)) return false
      held.push(res)
      answer(res)
      return true
    }
    const waiting = await deployNow(site.id)
    await expect.poll(() => logOf(waiting.id), soon).toContain(reason)
    await expect.poll(() => held.length, soon).toBeGreaterThan(0)

    const other = await connected()
    other.repository.pushFiles(page('other'))
    expect((await deployed(other.site.id)).status).toBe('active')
    expect((await call(`GET /api/v1/deploys/${waiting.id}`)).status).toBe('queued')

    isAway = false
    for (const res of held) res.destroy()
    expect((await w.ended(waiting.id, owner.key)).status).toBe('active')
  })

  test('a project whose repositories hang leaves a fetch to others, and gets a second one only while nobody else fetches', async () => {
    const [greedy, slow, modest] = [await w.project('pro'), await w.project('pro'), await w.project('pro')]
    const held = new Map<string, ServerResponse>()
    let isAway = true
    const hanging: string[] = []
    intercept = (req, res) => {
      const name = hanging.find((one) => req.url?.includes(one))
      if (!isAway || name === undefined) return false
      held.set(name, res)
      return true
    }
    const push = async (project: TestProject, hangs: boolean) => {
      const { site, repository } = await connected({}, { project })
      repository.pushFiles(page('x'))
      if (hangs) hanging.push(`${repository.dir.split('/').at(-1)}/`)
      const { body } = await w.call(`POST /api/v1/sites/${site.id}/git/deploy`, { key: project.key })
      return { ...body, key: project.key }
    }
    const stuck = [await push(slow, true)]
    await expect.poll(() => held.size, soon).toBe(1)
    stuck.push(await push(greedy, true), await push(greedy, true), await push(greedy, true))
    await expect.poll(() => held.size, soon).toBe(2)
    const { id, key } = await push(modest, false)
    expect((await w.ended(id, key)).status).toBe('active')
    expect(held.size).toBe(2)

    isAway = false
    for (const res of held.values()) res.destroy()
    for (const one of stuck) expect((await w.ended(one.id, one.key)).status).toBe('active')
  })

  test('a push joins a deploy that waits for its repository', async () => {
    const { site, repository } = await connected()
    repository.pushFiles(page('old'))
    let isAway = true
    intercept = (_req, res) => isAway && !!res.writeHead(503).end()
    const waiting = await deployNow(site.id)
    // the third pause is 16 s
    await expect.poll(async () => (await logOf(waiting.id)).match(/it answered 503/g)?.length, soon).toBe(3)
    const ofWaiting = () => w.db.selectFrom('deploys').select('fetch_after').where('id', '=', waiting.id).executeTakeFirst()
    await expect.poll(async () => (await ofWaiting())?.fetch_after, soon).toBeTruthy()
    repository.pushFiles(page('new'))
    expect((await deployNow(site.id)).id).toBe(waiting.id)
    isAway = false
    expect((await w.ended(waiting.id, owner.key)).status).toBe('active')
    await expect.poll(() => live(site)).toBe('new')
  })

  test('an operator who cancels ends the fetching, and the figures of the queue are right meanwhile', async () => {
    const { site, repository } = await connected()
    repository.pushFiles(page('x'))
    const held = hold()
    const { id } = await deployNow(site.id)
    await held.reached
    const { body: figures } = await w.call('GET /metrics', { key: operatorToken })
    expect(figures).toMatch(/^plinth_build_queue_length 1$/m)
    expect(figures).toMatch(/^plinth_deploys_waiting\{kind="git"\} 1$/m)
    await temporal.workflow.getHandle(idOf(id)).cancel()
    expect(await w.ended(id, owner.key)).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('the operator cancelled'),
    })
    held.letGo()
    expect((await deployed(site.id)).status).toBe('active')
  })
})

describe('a worker that goes while it fetches', () => {
  test('leaves nothing, and the deploy goes on with the next one', async () => {
    await using away = await world({ runner: true, fetcher: false, env: { PLINTH_ALLOW_PRIVATE_GIT: 'true' } })
    const project = await away.project('pro')
    const { site, repository } = await connected({}, { to: away, project })
    repository.pushFiles(page('x'))
    const held = hold()
    const processes = () => fetchingProcesses(process.pid, fetchesDir(away.config))
    const bundle = Promise.resolve({ code: inject('workflowBundle') })
    const startFetching = () => openQueues({ services: away, temporal: away.temporal, bundle, queues: ['fetch'] })
    const worker = await startFetching()
    const { body } = await away.call(`POST /api/v1/sites/${site.id}/git/deploy`, { key: project.key })
    await held.reached
    expect(processes()).toHaveLength(1)
    await worker[Symbol.asyncDispose]()
    expect(processes()).toEqual([])
    expect(readdirSync(fetchesDir(away.config))).toEqual([])
    held.letGo()
    await using _next = await startFetching()
    expect((await away.ended(body.id, project.key)).status).toBe('active')
  })

  test('a process that is killed is started again', async () => {
    const { site, repository } = await connected()
    repository.pushFiles(page('x'))
    const held = hold()
    const { id } = await deployNow(site.id)
    await held.reached
    for (const pid of fetchingProcesses()) process.kill(pid, 'SIGKILL')
    held.letGo()
    expect((await w.ended(id, owner.key)).status).toBe('active')
  })
})

describe('G01: the connection says how the repository is built', () => {
  test('by commands of the shell, in the folder that it names, and publishes the folder that it names', async () => {
    const { site, repository } = await connected({
      root_dir: 'docs',
      install_command: 'echo "made $(cat text)" > installed',
      build_command: 'mkdir -p www/sub && cat installed text > www/index.html && echo built',
      output_dir: 'www',
    })
    repository.pushFiles({ 'docs/text': 'by hand\n', 'index.html': 'not this one', 'docs/public/index.html': 'nor this' })
    const deploy = await deployed(site.id)
    expect(deploy).toMatchObject({ status: 'active', build_mode: 'build', error: null, file_count: 1 })
    await expect.poll(() => live(site)).toBe('made by hand\nby hand\n')
    const lines = (await logOf(deploy.id)).split('\n')
    expect(lines).toContain('$ cd docs && echo "made $(cat text)" > installed')
    expect(lines).toContain('stored 1 file (21 bytes) from docs/www')
    expect(lines.join('\n')).not.toContain('interrupted')
  })

  test('E30: its own values win over those of the site, member by member', async () => {
    const { site, repository } = await connected({ output_dir: 'www' })
    const json = { build_command: 'mkdir www && node -v > www/index.html', output_dir: 'dist', node_version: '22' }
    expect((await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json })).status).toBe(200)
    repository.pushFiles({ 'README.md': '# x' })
    expect(await deployed(site.id)).toMatchObject({ status: 'active', build_mode: 'build' })
    await expect.poll(() => live(site)).toMatch(/^v22\./)
  })

  test('a failing command, and a folder that is not there, are reported in the terms of the connection', async () => {
    const { site, repository } = await connected({ build_command: 'echo no; exit 3' })
    repository.pushFiles(page('x'))
    expect((await deployed(site.id)).error).toMatch(/^echo no; exit 3 failed with exit code 3\n/)
    const change = (json: object) =>
      call(`PUT /api/v1/sites/${site.id}/git`, { repo_url: `${server.origin}/${repository.dir.split('/').at(-1)}`, ...json })
    await change({ build_command: 'mkdir www', output_dir: 'dist' })
    expect((await deployed(site.id)).error).toMatch(
      /^the build wrote no folder "dist", which the git connection .* \(it wrote www\)$/,
    )
    await change({ build_command: 'mkdir www', output_dir: 'www' })
    expect((await deployed(site.id)).error).toMatch(/^"www", the output_dir of the git connection, has no index\.html/)
    await change({ output_dir: 'public' })
    expect((await deployed(site.id)).error).toMatch(/^the repository has no folder "public", which the git connection/)
    await change({ root_dir: 'apps/web' })
    expect((await deployed(site.id)).error).toMatch(
      /^the repository has no folder "apps\/web", the root_dir of the git connection/,
    )
    repository.pushFiles({ 'public/index.html': 'public', 'README.md': '# x' })
    await change({ output_dir: 'public' })
    expect(await deployed(site.id)).toMatchObject({ status: 'active', build_mode: 'static' })
    await expect.poll(() => live(site)).toBe('public')
  })
})

test('checks 65 and 66: with the settings of a public platform no address of this machine is asked for anything', async () => {
  await using open = await world()
  const project = await open.project('pro')
  const canary = stack.use(await startGitServer())
  const vault = stack.use(await startGitServer({ tls: true }))
  const { port } = canary
  const urls = [
    `http://127.0.0.1:${port}/x.git`,
    `http://localhost:${port}/x.git`,
    `https://localhost:${vault.port}/x.git`,
    `https://[::ffff:127.0.0.1]:${vault.port}/x.git`,
    `https://0x7f000001:${vault.port}/x.git`,
    `https://127.0.0.1/x.git`,
    `https://localhost/x.git`,
  ]
  const site = await makeSite(open, project)
  const now = new Date()
  for (const repo_url of urls) {
    await open.db
      .insertInto('git_connections')
      .values({
        site_id: site.id,
        project_id: project.id,
        repo_url,
        branch: 'main',
        branch_previews: false,
        pull_request_previews: false,
        watch_paths: [],
        created_at: now,
        updated_at: now,
      })
      .onConflict((conflict) => conflict.column('site_id').doUpdateSet({ repo_url }))
      .execute()
    const { body } = await open.call(`POST /api/v1/sites/${site.id}/git/deploy`, { key: project.key })
    expect(await open.ended(body.id, project.key), repo_url).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(/^the repository cannot be fetched: /),
    })
  }
  expect([canary.requests, vault.requests]).toEqual([[], []])
})

describeHistories(/^git-deploy.*\.json$/, ['git-deploy', 'git-deploy-failed', 'git-deploy-preview'])

test('a fetch leaves nothing in its folder but the process that is ready for the next one', async () => {
  const names = readdirSync(fetchesDir(w.config))
  expect(names.length).toBeLessThanOrEqual(1)
  for (const name of names) expect(readdirSync(join(fetchesDir(w.config), name))).toEqual([])
})
