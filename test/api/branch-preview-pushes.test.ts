import { createHmac, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Files, type GitServer, git, startGitServer } from '../infra/git-server.ts'
import { makeSite, page, randomName } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

// Pushes and pull requests of a forge, from the delivery of its webhook to what the link shows.

let w: World
let server: GitServer
let owner: TestProject
beforeAll(async () => {
  server = await startGitServer()
  w = await world({ edge: true, runner: true, env: { PLINTH_ALLOW_PRIVATE_GIT: 'true' } })
  owner = await w.project('enterprise')
})
afterAll(async () => {
  await w?.[Symbol.asyncDispose]()
  await server?.[Symbol.asyncDispose]()
})

interface Connected {
  readonly id: string
  readonly subdomain: string
  readonly key: string
  readonly secret: string
  readonly repository: ReturnType<GitServer['repository']>
}

const filesOf = (text: string): Files => ({ 'index.html': page(text).content })

/** A site that is connected to a repository whose branch main is there, with a webhook. */
async function connected(project = owner): Promise<Connected> {
  const { id, subdomain } = await makeSite(w, project)
  const name = randomName('repository')
  const repository = server.repository(name)
  repository.pushFiles(filesOf('main'))
  const { key } = project
  const json = { repo_url: `${server.origin}/${name}.git`, branch_previews: true, pull_request_previews: true }
  expect((await w.call(`PUT /api/v1/sites/${id}/git`, { key, json })).status).toBe(200)
  const { secret } = (await w.call(`POST /api/v1/sites/${id}/git/webhook`, { key })).body
  return { id, subdomain, key, secret, repository }
}

async function deliver({ id }: Pick<Connected, 'id'>, body: object, headersOf: (raw: string) => Record<string, string>) {
  const raw = JSON.stringify(body)
  const answer = await w.call(`POST /hooks/git/${id}`, {
    bytes: Buffer.from(raw),
    type: 'application/json',
    headers: headersOf(raw),
  })
  expect([answer.status, answer.body]).toEqual([200, expect.objectContaining({ ok: true })])
  return answer.body
}

/** As GitHub tells of it. */
const tell = (site: Connected, event: 'push' | 'pull_request', body: object) =>
  deliver(site, body, (raw) => ({
    'x-github-event': event,
    'x-github-delivery': randomUUID(),
    'x-hub-signature-256': `sha256=${createHmac('sha256', site.secret).update(raw).digest('hex')}`,
  }))

/** Makes a commit of a branch and tells of it. */
function push(site: Connected, text: string, branch = 'feature') {
  const after = site.repository.pushFiles(filesOf(text), { branch, message: text })
  return tell(site, 'push', { ref: `refs/heads/${branch}`, after, head_commit: { message: text, author: { name: 'Ada' } } })
}

const deleteBranch = (site: Connected, branch = 'feature') => {
  git(site.repository.dir, ['update-ref', '-d', `refs/heads/${branch}`])
  return tell(site, 'push', { ref: `refs/heads/${branch}`, after: '0'.repeat(40), deleted: true })
}

const request = (site: Connected, action: string, head: { ref: string; sha: string }, fork = false) =>
  tell(site, 'pull_request', {
    action,
    pull_request: {
      number: 7,
      title: 'Better',
      user: { login: 'ada' },
      head: { ...head, repo: { id: fork ? 2 : 1 } },
      base: { ref: 'main', repo: { id: 1 } },
    },
  })

/** A commit that only the pull request of a fork has. */
function forkCommit({ repository }: Connected, text: string): { ref: string; sha: string } {
  const sha = repository.pushFiles(filesOf(text), { branch: 'of-a-fork', message: text })
  git(repository.dir, ['update-ref', 'refs/pull/7/head', sha])
  git(repository.dir, ['update-ref', '-d', 'refs/heads/of-a-fork'])
  return { ref: 'patch-1', sha }
}

const call = (site: Connected, endpoint: string) => {
  const [method, path] = endpoint.split(' ')
  return w.call(`${method} /api/v1/sites/${site.id}/${path}`, { key: site.key })
}
const list = async (site: Connected): Promise<any[]> => (await call(site, 'GET git/previews')).body
const become = (site: Connected, expected: object) => expect.poll(async () => (await list(site))[0]).toMatchObject(expected)
/** Waits until the newest deploy of the newest preview is shown; answers the preview. */
async function ready(site: Connected, deployId: string): Promise<any> {
  await become(site, { state: 'ready', deploy_id: deployId })
  return (await list(site))[0]
}
const shows = (url: string, text: string) => expect.poll(async () => (await w.open(url)).body).toContain(text)
const isGone = (url: string) => expect.poll(async () => (await w.open(url)).status).toBe(404)

test('G04: a push to another branch opens a link, further pushes show under the same one, and it ends with the branch', async () => {
  const site = await connected()
  const first = await push(site, 'first of the branch')
  const { url } = await ready(site, first.deploy_id)
  await shows(url, 'first of the branch')
  expect((await w.visit(site.subdomain)).body).not.toContain('first of the branch')
  const deploy = (await w.call(`GET /api/v1/deploys/${first.deploy_id}`, { key: site.key })).body
  expect(deploy).toMatchObject({ status: 'ready', activate: false, is_preview: true, source_kind: 'git', preview_url: url })

  const second = await push(site, 'second of the branch')
  expect((await ready(site, second.deploy_id)).url).toBe(url)
  await shows(url, 'second of the branch')

  expect(await deleteBranch(site)).toMatchObject({ skipped: 'deleted' })
  await isGone(url)
  expect(await list(site)).toEqual([])
  const again = await push(site, 'the branch again')
  const reopened = await ready(site, again.deploy_id)
  expect(reopened.url).not.toBe(url)
  await shows(reopened.url, 'the branch again')
  expect((await w.open(url)).status).toBe(404)
})

test('G04: a pull request of a branch has the link of the branch, and opened again without a new commit another one', async () => {
  const site = await connected()
  const sha = site.repository.pushFiles(filesOf('asked for'), { branch: 'feature' })
  const opened = await request(site, 'opened', { ref: 'feature', sha })
  const { url, ...preview } = await ready(site, opened.deploy_id)
  expect(preview).toMatchObject({ ref: 'feature', pull_request: 7, from_fork: false, approved: true, head_commit: sha })
  await shows(url, 'asked for')
  const answer = await tell(site, 'push', { ref: 'refs/heads/feature', after: sha })
  expect(answer).toMatchObject({ skipped: 'duplicate' })

  expect(await request(site, 'closed', { ref: 'feature', sha })).toMatchObject({ skipped: 'deleted' })
  await isGone(url)
  const reopened = await request(site, 'reopened', { ref: 'feature', sha })
  const next = await ready(site, reopened.deploy_id)
  expect(next.url).not.toBe(url)
  await shows(next.url, 'asked for')
})

test('G04: the pull request of a fork waits for its approval, then it is built with each push', async () => {
  const site = await connected()
  const head = forkCommit(site, 'of a stranger')
  expect(await request(site, 'opened', head, true)).toMatchObject({ skipped: 'fork' })
  const [waiting] = await list(site)
  expect(waiting).toMatchObject({
    ref: 'pull:7',
    branch: 'patch-1',
    pull_request: 7,
    from_fork: true,
    approved: false,
    state: 'waiting_for_approval',
    url: null,
    head_commit: head.sha,
    newest_deploy_id: null,
    expires_at: null,
  })
  expect((await call(site, 'GET deploys')).body).toEqual([])

  const approve = () => call(site, `POST git/previews/${waiting.id}/approval`)
  const approved = await approve()
  expect([approved.status, approved.body]).toEqual([200, expect.objectContaining({ approved: true, state: 'building' })])
  const { url } = await ready(site, approved.body.newest_deploy_id)
  await shows(url, 'of a stranger')
  expect((await approve()).body).toMatchObject({ state: 'ready', url, newest_deploy_id: approved.body.newest_deploy_id })
  expect((await call(site, 'GET deploys')).body).toHaveLength(1)

  const next = await request(site, 'synchronize', forkCommit(site, 'and more of it'), true)
  expect((await ready(site, next.deploy_id)).url).toBe(url)
  await shows(url, 'and more of it')
})

test('Z02 Z05 P03: below Start branches are skipped, and an approval is refused, as it is while the project is suspended', async () => {
  const project = await w.project('start')
  const site = await connected(project)
  const change = (json: object) => w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json })
  const head = forkCommit(site, 'wanted')
  await request(site, 'opened', head, true)
  const [{ id }] = await list(site)
  const approve = () => call(site, `POST git/previews/${id}/approval`)
  await change({ plan: 'free' })
  const refused = await approve()
  expect([refused.status, refused.body.message]).toEqual([402, expect.stringContaining('Start')])
  expect(await push(site, 'skipped')).toMatchObject({ skipped: 'branch' })
  expect(await request(site, 'synchronize', head, true)).toMatchObject({ skipped: 'branch' })
  await change({ plan: 'start', suspended: true })
  expect((await approve()).status).toBe(402)
  expect(await list(site)).toMatchObject([{ approved: false, state: 'waiting_for_approval' }])
  await change({ suspended: false })
  expect((await approve()).status).toBe(200)
  await become(site, { state: 'ready' })
})

test('G04: a push that cannot be deployed has no link, and one that could before keeps what it showed', async () => {
  const site = await connected()
  const fail = () => {
    const after = site.repository.pushFiles(filesOf('lost'), { branch: 'feature' })
    git(site.repository.dir, ['update-ref', '-d', 'refs/heads/feature'])
    return tell(site, 'push', { ref: 'refs/heads/feature', after })
  }
  const first = await fail()
  await become(site, { state: 'failed', url: null, deploy_id: null, newest_deploy_id: first.deploy_id })
  const mended = await push(site, 'mended')
  const { url } = await ready(site, mended.deploy_id)
  await fail()
  await become(site, { state: 'failed', url, deploy_id: mended.deploy_id })
  await shows(url, 'mended')
})

test('G01: without its repository a site has no previews of branches', async () => {
  const site = await connected()
  const { url } = await ready(site, (await push(site, 'connected')).deploy_id)
  await shows(url, 'connected')
  expect((await call(site, 'DELETE git')).status).toBe(200)
  await isGone(url)
  expect(await list(site)).toEqual([])
})
