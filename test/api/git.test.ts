import { createHash } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { operations } from '../../api/operations/index.ts'
import { open, openKeyring } from '../../infra/crypto/seal.ts'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

// The connection of a repository through REST. Nothing is fetched: deploys stay queued.

let w: World
let owner: TestProject
let site: any
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await makeSite(w, owner)
})

const repo_url = 'https://forge.example.com/ada/notes.git'
const token = 'glpat-Abc123_secret-of-the-repository'

const git = (siteId = site.id) => `/api/v1/sites/${siteId}/git`
const connect = (json: object, key = owner.key) => w.call(`PUT ${git()}`, { key, json })
async function connected(json: object = {}): Promise<any> {
  const { status, body } = await connect({ repo_url, ...json })
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
  return body
}
const read = async (key = owner.key) => (await w.call(`GET ${git()}`, { key })).body
const post = (what: string, key = owner.key) => w.call(`POST ${git()}/${what}`, { key })
const row = () => w.db.selectFrom('git_connections').selectAll().where('site_id', '=', site.id).executeTakeFirst()
const keyring = () => openKeyring(w.config.secretKey ?? new Uint8Array())
const opened = (sealed: string | null | undefined, column: string) =>
  open(keyring(), sealed ?? '', { table: 'git_connections', id: site.id, column })

/** Everything that PostgreSQL holds, as text. */
async function stored(): Promise<string> {
  const tables = ['git_connections', 'git_deliveries', 'git_previews', 'deploys', 'workflow_starts', 'sites', 'mails'] as const
  const rows = await Promise.all(tables.map((table) => w.db.selectFrom(table).selectAll().execute()))
  return JSON.stringify(rows)
}

describe('G01: the connection', () => {
  test('without a repository GET says so, and what needs one is refused with what to do', async () => {
    expect(await read()).toEqual({ connected: false })
    for (const what of ['deploy', 'webhook', 'deploy-hook']) {
      const { status, body } = await post(what)
      expect([what, status, body]).toEqual([what, 409, { message: expect.stringContaining('connect it first') }])
    }
  })

  test('an address is enough; everything else has a default', async () => {
    const answer = await connected()
    expect(answer).toEqual({
      connected: true,
      repo_url,
      branch: 'main',
      has_token: false,
      install_command: null,
      build_command: null,
      output_dir: null,
      root_dir: null,
      branch_previews: false,
      pull_request_previews: true,
      watch_paths: [],
      forge: null,
      webhook: null,
      deploy_hook: null,
      last_commit: null,
      last_deploy_id: null,
      last_report: null,
    })
    expect(await read()).toEqual(answer)
  })

  test('a PUT replaces everything but the token and the branch; an empty text is none', async () => {
    const settings = {
      branch: 'feature/über',
      install_command: 'pnpm install',
      build_command: 'pnpm run docs && mv out public',
      output_dir: 'packages/docs/.vitepress/dist/',
      root_dir: './packages/docs',
      branch_previews: true,
      pull_request_previews: false,
      watch_paths: ['docs/**', '!docs/drafts/**'],
    }
    const shown = { ...settings, output_dir: 'packages/docs/.vitepress/dist', root_dir: 'packages/docs' }
    expect(await connected({ ...settings, token })).toMatchObject({ ...shown, has_token: true })
    expect(await read()).toMatchObject(shown)
    const empty = { install_command: ' ', build_command: '', output_dir: '', root_dir: '.' }
    expect(await connected(empty)).toMatchObject({
      branch: 'feature/über',
      has_token: true,
      install_command: null,
      build_command: null,
      output_dir: null,
      root_dir: null,
      branch_previews: false,
      pull_request_previews: true,
      watch_paths: [],
    })
  })

  test('G01: no read shows a secret, and PostgreSQL holds them sealed only', async () => {
    const answers = [await connected({ token })]
    const webhook = (await post('webhook')).body
    const hook = (await post('deploy-hook')).body
    answers.push(await connected(), await read(), await read(await w.key(owner, 'readonly')))
    answers.push((await w.call(`GET /api/v1/sites/${site.id}`, { key: owner.key })).body, (await post('deploy')).body)
    const secrets = [token, webhook.secret, hook.url.split('/').at(-1)]
    const texts = [JSON.stringify(answers), await stored()]
    for (const text of texts) for (const secret of secrets) expect(text.includes(secret)).toBe(false)
    const { token_sealed, webhook_secret_sealed, deploy_hook_sha256 } = (await row()) ?? {}
    expect(opened(token_sealed, 'token_sealed')).toBe(token)
    expect(opened(webhook_secret_sealed, 'webhook_secret_sealed')).toBe(webhook.secret)
    expect(deploy_hook_sha256).toBe(createHash('sha256').update(secrets[2]).digest('hex'))
  })

  test('a token is kept when absent, replaced, and erased by null', async () => {
    await connected({ token })
    const sealed = (await row())?.token_sealed
    expect((await connected()).has_token).toBe(true)
    expect((await row())?.token_sealed).toBe(sealed)
    await connected({ token: 'another' })
    expect(opened((await row())?.token_sealed, 'token_sealed')).toBe('another')
    expect((await connected({ token: null })).has_token).toBe(false)
    expect((await row())?.token_sealed).toBe(null)
    expect((await connected()).has_token).toBe(false)
  })

  test.each([
    ['the same server', 'https://forge.example.com/eve/other', 200],
    ['another case of its name', 'https://FORGE.example.com:443/ada/notes', 200],
    ['another server', 'https://evil.example.com/ada/notes.git', 400],
    ['a server below it', 'https://x.forge.example.com/ada/notes.git', 400],
  ])('a token that is kept goes to %s: %s %i', async (_what, url, status) => {
    await connected({ token })
    const kept = await connect({ repo_url: url })
    expect(kept.status).toBe(status)
    if (status === 200) return
    expect(kept.body.message).toContain('token')
    expect((await read()).repo_url).toBe(repo_url)
    expect((await connect({ repo_url: url, token: 'of-the-new-one' })).status).toBe(200)
    expect((await connect({ repo_url, token: null })).body.has_token).toBe(false)
  })

  test.each([
    ['http://forge.example.com/ada/notes.git', 'https://'],
    ['git@forge.example.com:ada/notes.git', 'ssh'],
    ['ssh://git@forge.example.com/ada/notes.git', 'ssh'],
    ['git://forge.example.com/ada/notes.git', 'https://'],
    ['file:///etc/passwd', 'https://'],
    ['/etc/passwd', 'address'],
    ['ext::sh -c whoami', ''],
    ['--upload-pack=touch', 'address'],
    ['https://-oProxyCommand=x/y', ''],
    ['https://user:secret@forge.example.com/x', 'token'],
    ['https://forge.example.com:8443/x', 'port'],
    ['https://forge.example.com./x', 'host'],
    ['https://forge.example.com/x?y=1', 'query'],
    ['https://forge.example.com/x#y', 'fragment'],
    ['https://forge.example.com', 'repository'],
    ['https://forge.example.com\\@127.0.0.1/x', 'backslash'],
    ['https://forge.example.com/x\ny', 'white space'],
    [`https://forge.example.com/${'x'.repeat(2048)}`, '2048'],
    ['', ''],
    ['https://localhost/x', 'private'],
    ['https://LOCALHOST/x', 'private'],
    ['https://git.localhost/x', 'private'],
    ['https://localhost.localdomain/x', 'private'],
    ['https://127.0.0.1/x', 'private'],
    ['https://127.1/x', 'private'],
    ['https://0x7f.1/x', 'private'],
    ['https://2130706433/x', 'private'],
    ['https://①②⑦.0.0.1/x', 'private'],
    ['https://0/x', 'private'],
    ['https://10.1.2.3/x', 'private'],
    ['https://172.16.0.1/x', 'private'],
    ['https://192.168.1.1/x', 'private'],
    ['https://169.254.169.254/latest/meta-data', 'private'],
    ['https://100.64.0.1/x', 'private'],
    ['https://[::1]/x', 'private'],
    ['https://[::ffff:127.0.0.1]/x', 'private'],
    ['https://[64:ff9b::7f00:1]/x', 'private'],
    ['https://[fd00::1]/x', 'private'],
    ['https://[fe80::1]/x', 'private'],
  ])('the address %s is refused', async (url, said) => {
    const { status, body } = await connect({ repo_url: url })
    expect([status, body.message]).toEqual([400, expect.stringContaining('repo_url')])
    expect(body.message).toContain(said)
    expect(body.message).not.toContain('secret')
    expect(await read()).toEqual({ connected: false })
  })

  test.each([
    ['branch', '', 400],
    ['branch', '-x', 400],
    ['branch', 'a..b', 400],
    ['branch', 'a b', 400],
    ['branch', 'x.lock', 400],
    ['branch', 'x\r', 400],
    ['branch', 'refs/pull/1/head', 400],
    ['branch', 'a'.repeat(40), 400],
    ['branch', null, 422],
    ['root_dir', '../x', 400],
    ['root_dir', 'a\\b', 400],
    ['output_dir', 'dist/../..', 400],
    ['output_dir', '.', 400],
    ['output_dir', 'a\0b', 400],
    ['output_dir', 'node_modules/x', 400],
    ['output_dir', 7, 422],
    ['install_command', 'a\nb', 422],
    ['install_command', 'a\0b', 422],
    ['build_command', 'x'.repeat(1001), 422],
    ['build_command', '\ud800', 422],
    ['watch_paths', 'docs/**', 422],
    ['watch_paths', [''], 422],
    ['watch_paths', ['x'.repeat(301)], 422],
    ['watch_paths', ['a\nb'], 422],
    ['watch_paths', Array(101).fill('x'), 422],
    ['token', '', 422],
    ['token', 'a b', 422],
    ['token', 'a\nb', 422],
    ['token', 'ä', 422],
    ['token', 'x'.repeat(2001), 422],
    ['branch_previews', 'yes', 422],
  ])('%s cannot be %j', async (member, value, expected) => {
    const { status, body } = await connect({ repo_url, [member]: value })
    expect([status, body.message]).toEqual([expected, expect.stringContaining(member)])
    expect(await read()).toEqual({ connected: false })
  })

  test.each([
    ['install_command', 'x'.repeat(1000)],
    ['build_command', '🦉'.repeat(1000)],
    ['watch_paths', Array(100).fill('x'.repeat(300))],
    ['token', '~'.repeat(2000)],
  ])('%s may be as long as it may', async (member, value) => {
    expect((await connect({ repo_url, [member]: value })).status).toBe(200)
  })

  test('where private networks are permitted, so are their addresses, ports and plain http', async () => {
    await using intranet = await world({ worker: false, env: { PLINTH_ALLOW_PRIVATE_GIT: 'true' } })
    const project = await intranet.project()
    const { id } = await makeSite(intranet, project)
    for (const url of ['http://127.0.0.1:3000/ada/notes.git', 'https://localhost/x', 'https://[::1]:8443/x']) {
      const { status, body } = await intranet.call(`PUT ${git(id)}`, { key: project.key, json: { repo_url: url } })
      expect([url, status, body.repo_url]).toEqual([url, 200, url])
    }
  })

  test('another repository inherits nothing: neither previews with their links and approvals, nor what the forge has said', async () => {
    await connected()
    const preview = {
      site_id: site.id,
      project_id: owner.id,
      fetch_ref: 'refs/pull/3/head',
      branch: 'main',
      updated_at: new Date(),
    }
    const linked = { pull_request: 3, comment_id: '77', commented: 'x', head_commit: 'a'.repeat(40) }
    await w.db
      .insertInto('git_previews')
      .values({
        ...preview,
        ...linked,
        ref: 'pull:3',
        from_fork: true,
        approved: true,
        closed_at: null,
      })
      .execute()
    await w.db.updateTable('git_connections').set({ forge: 'gitea' }).where('site_id', '=', site.id).execute()
    const previews = () => w.db.selectFrom('git_previews').selectAll().where('site_id', '=', site.id).executeTakeFirst()

    await connected({ repo_url: repo_url.replace(/\.git$/, ''), branch: 'next' })
    expect([(await previews())?.approved, (await read()).forge]).toEqual([true, 'gitea'])
    await connected({ repo_url: 'https://forge.example.com/eve/notes' })
    expect(await previews()).toMatchObject({ approved: false, comment_id: null, closed_at: expect.any(Date) })
    expect((await read()).forge).toBe(null)
  })

  test('it ends with all of its secrets', async () => {
    await connected({ token })
    const hook = (await post('deploy-hook')).body.url
    await post('webhook')
    for (let time = 0; time < 2; time++) {
      const { status, body } = await w.call(`DELETE ${git()}`, { key: owner.key })
      expect([status, body]).toEqual([200, { ok: true }])
    }
    expect([await read(), await row()]).toEqual([{ connected: false }, undefined])
    expect((await w.call(`POST /hooks/git/${site.id}`)).status).toBe(404)
    expect((await w.call(`POST ${new URL(hook).pathname}`)).status).toBe(404)
    expect(await connected()).toMatchObject({ has_token: false, webhook: null, deploy_hook: null })
  })
})

describe('G02: deploy now', () => {
  test('answers a queued deploy of the connected branch, and the same one while it waits', async () => {
    await connected()
    const first = await post('deploy')
    expect([first.status, first.body]).toEqual([
      200,
      expect.objectContaining({ status: 'queued', source_kind: 'git', activate: true, is_preview: false, git: null }),
    ])
    expect((await post('deploy')).body.id).toBe(first.body.id)
    expect(await read()).toMatchObject({ last_deploy_id: first.body.id, last_commit: null })
    const git = { commit: 'c'.repeat(40), ref: 'main', message: 'm', author: 'a' }
    await w.db
      .updateTable('deploys')
      .set({ git: JSON.stringify(git) as never })
      .where('id', '=', first.body.id)
      .execute()
    expect((await read()).last_commit).toBe(git.commit)
  })

  test('Z05: a suspended project cannot; it may read and disconnect', async () => {
    const late = await w.project()
    const { id } = await makeSite(w, late)
    await w.call(`PUT ${git(id)}`, { key: late.key, json: { repo_url } })
    await w.call(`PATCH /operator/v1/projects/${late.id}`, { key: operatorToken, json: { suspended: true } })
    const { status, body } = await w.call(`POST ${git(id)}/deploy`, { key: late.key })
    expect([status, body.message]).toEqual([402, expect.stringContaining('suspended')])
    expect((await w.call(`GET ${git(id)}`, { key: late.key })).body.connected).toBe(true)
    expect((await w.call(`DELETE ${git(id)}`, { key: late.key })).status).toBe(200)
  })
})

describe('G03: the webhook', () => {
  test('has an address and a secret that is shown once', async () => {
    await connected()
    const made = (await post('webhook')).body
    expect(made).toEqual({
      url: `${w.config.urls.base}/hooks/git/${site.id}`,
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    })
    const shown = await read()
    expect(shown.webhook).toEqual({ url: made.url, created_at: expect.stringMatching(/Z$/), last_delivery: null })
    expect(JSON.stringify(shown)).not.toContain(made.secret.slice('whsec_'.length))
  })

  test('has another secret after a rotation', async () => {
    await connected()
    const [one, other] = [(await post('webhook')).body, (await post('webhook')).body]
    expect([other.url, other.secret === one.secret]).toEqual([one.url, false])
  })
})

describe('the deploy hook', () => {
  test('has an address that is shown once', async () => {
    await connected()
    const made = (await post('deploy-hook')).body
    const { pathname, origin } = new URL(made.url)
    expect([origin, pathname]).toEqual([w.config.urls.base, expect.stringMatching(/^\/hooks\/deploy\/[\w-]{43}$/)])
    expect((await read()).deploy_hook).toEqual({ created_at: made.created_at, last_used_at: null })
  })

  test('is replaced by the next one, and removed', async () => {
    await connected()
    const [one, other] = [(await post('deploy-hook')).body.url, (await post('deploy-hook')).body.url]
    const call = async (url: string) => (await w.call(`POST ${new URL(url).pathname}`)).status
    expect([await call(one), await call(other)]).toEqual([404, 200])
    expect((await w.call(`DELETE ${git()}/deploy-hook`, { key: owner.key })).body).toEqual({ ok: true })
    expect([await call(other), (await read()).deploy_hook]).toEqual([404, null])
    expect((await w.call(`DELETE ${git()}/deploy-hook`, { key: owner.key })).status).toBe(200)
  })
})

const endpoints = [
  ['GET', '', undefined],
  ['PUT', '', { repo_url }],
  ['DELETE', '', undefined],
  ['POST', '/deploy', undefined],
  ['POST', '/webhook', undefined],
  ['POST', '/deploy-hook', undefined],
  ['DELETE', '/deploy-hook', undefined],
] as const

test.each(endpoints)(
  'A03 C03: %s git%s: reading needs readonly, all else editor; others find nothing',
  async (method, path, json) => {
    await connected()
    const call = async (key: string) => (await w.call(`${method} ${git()}${path}`, { key, json })).status
    expect(await call((await w.project()).key)).toBe(404)
    expect(await call(await w.key(owner, 'readonly'))).toBe(method === 'GET' ? 200 : 403)
    expect(await call(await w.key(owner, 'editor'))).toBe(200)
  },
)

test.each([
  ['PUT', '', 409],
  ['POST', '/deploy', 409],
  ['POST', '/webhook', 409],
  ['POST', '/deploy-hook', 409],
  ['GET', '', 200],
  ['DELETE', '/deploy-hook', 200],
  ['DELETE', '', 200],
] as const)('in the trash: %s git%s answers %i', async (method, path, status) => {
  await connected()
  await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
  const answer = await w.call(`${method} ${git()}${path}`, { key: owner.key, ...(method === 'PUT' && { json: { repo_url } }) })
  expect(answer.status).toBe(status)
  if (status === 409) expect(answer.body.message).toContain('trash')
})

test('E38: every operation of a repository is a tool too', async () => {
  const json = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  const { body } = await w.call('POST /mcp', { key: owner.key, json })
  const names = body.result.tools.map((tool: { name: string }) => tool.name)
  expect(names).toEqual(expect.arrayContaining(operations.filter((op) => op.tag === 'Git').map((op) => op.id)))
})
