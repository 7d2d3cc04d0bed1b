import { createHmac, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { loggedPath } from '../../api/logged-path.ts'
import { openKeyring, seal } from '../../infra/crypto/seal.ts'
import { makeWebhookSecret } from '../../infra/crypto/webhook-signatures.ts'
import { changeProof, readWebhook, type Webhook, webhookNames, webhookSecret, webhookSentAt } from '../infra/forges-fixtures.ts'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

/** A busy machine may be late once. */
const bestOfThree = { retry: 2 }

// What forges and scripts send without a key. Nothing is fetched: deploys stay queued.

let w: World
let owner: TestProject
let site: any
beforeAll(async () => {
  w = await world({ worker: false })
  // GitLab signs the time along
  w.advance(webhookSentAt.getTime() - Date.now())
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await connectedSite(w, owner)
})

/** A site that is connected, and whose webhook has the secret of the recorded deliveries. */
async function connectedSite(w: World, project: TestProject, settings: object = {}): Promise<any> {
  const made = await makeSite(w, project)
  await connect(w, project, made.id, settings)
  return made
}

async function connect(w: World, project: TestProject, id: string, settings: object = {}): Promise<void> {
  const json = { repo_url: 'https://forge.example.com/ada/notes.git', ...settings }
  const { status, body } = await w.call(`PUT /api/v1/sites/${id}/git`, { key: project.key, json })
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
  const place = { table: 'git_connections', id, column: 'webhook_secret_sealed' }
  const webhook_secret_sealed = seal(openKeyring(w.config.secretKey ?? new Uint8Array()), webhookSecret, place)
  await w.db
    .updateTable('git_connections')
    .set({ webhook_secret_sealed, webhook_created_at: new Date() })
    .where('site_id', '=', id)
    .execute()
}

const connectSite = (settings: object) => connect(w, owner, site.id, settings)
const deliverTo = (w: World, siteId: string, { headers, raw }: Webhook) =>
  w.call(`POST /hooks/git/${siteId}`, { headers, bytes: Buffer.from(raw) })
const deliver = (webhook: Webhook, siteId = site.id) => deliverTo(w, siteId, webhook)
const rowsOf = (w: World, id: string) => w.db.selectFrom('deploys').selectAll().where('site_id', '=', id).orderBy('seq').execute()
const deploys = (id = site.id) => rowsOf(w, id)
const previews = () => w.db.selectFrom('git_previews').selectAll().where('site_id', '=', site.id).orderBy('ref').execute()
const connection = async () => (await w.call(`GET /api/v1/sites/${site.id}/git`, { key: owner.key })).body
const lastDelivery = async () => (await connection()).webhook.last_delivery

const commit = (letter: string) => letter.repeat(40)

interface Sent {
  readonly event?: string
  readonly id?: string
  readonly secret?: string
}

/** A delivery as GitHub signs it. */
function github(payload: object | string, { event = 'push', id = randomUUID(), secret = webhookSecret }: Sent = {}): Webhook {
  const raw = typeof payload === 'string' ? payload : JSON.stringify(payload)
  const signature = `sha256=${createHmac('sha256', secret).update(raw).digest('hex')}`
  const headers = { 'content-type': 'application/json', 'x-github-event': event, 'x-github-delivery': id }
  return { headers: { ...headers, 'x-hub-signature-256': signature }, raw }
}

const push = (after = commit('a'), more: object = {}, branch = 'main') => ({
  ref: `refs/heads/${branch}`,
  before: commit('9'),
  after,
  commits: [{ id: after, added: [], modified: ['index.html'], removed: [] }],
  head_commit: { id: after, message: 'Change it', author: { name: 'Ada' } },
  ...more,
})

const pullRequest = (action: string, sha: string, { fork = false, branch = 'feature/x', number = 3 } = {}) => ({
  action,
  pull_request: {
    number,
    title: 'A feature',
    user: { login: 'ada' },
    head: { ref: branch, sha, repo: { id: fork ? 2 : 1 } },
    base: { ref: 'main', repo: { id: 1 } },
  },
})
const requested = (...given: Parameters<typeof pullRequest>) => github(pullRequest(...given), { event: 'pull_request' })

const forged = (webhook: Webhook) => changeProof(webhook, (value) => value.slice(0, -2) + (value.endsWith('00') ? '11' : '00'))
const unsigned = (webhook: Webhook) => changeProof(webhook, () => undefined)
const isSigned = ({ headers }: Webhook) => !('x-gitlab-token' in headers || 'x-svc-token' in headers)

describe('G04: the four forges and the generic form', () => {
  test.each(webhookNames.filter((name) => /^[a-z-]*?-(push(-signed|-form|-large)?|empty)$/.test(name)))(
    '%s makes a deploy, its forged twin does not',
    async (name) => {
      const webhook = readWebhook(name)
      const twins = [forged(webhook), unsigned(webhook), ...(isSigned(webhook) ? [{ ...webhook, raw: `${webhook.raw} ` }] : [])]
      for (const twin of twins) expect((await deliver(twin)).status).toBe(401)
      expect(await deploys()).toEqual([])

      const { status, body } = await deliver(webhook)
      expect([status, body]).toEqual([200, { ok: true, deploy_id: expect.any(String) }])
      const [deploy] = await deploys()
      expect(deploy).toMatchObject({ id: body.deploy_id, source_kind: 'git', status: 'queued', activate: true })
      if (name !== 'generic-empty')
        expect(deploy?.git).toMatchObject({ ref: 'main', commit: expect.stringMatching(/^[0-9a-f]{40}$/) })
    },
  )

  test.each(webhookNames)('%s is refused when it is forged, and answered when it is not', async (name) => {
    const webhook = readWebhook(name)
    for (const twin of [forged(webhook), unsigned(webhook)]) expect((await deliver(twin)).status).toBe(401)
    expect([await deploys(), await previews()]).toEqual([[], []])
    const { status, body } = await deliver(webhook)
    expect([status, body.ok]).toEqual([200, true])
  })

  test('what a push says is shown until it is fetched', async () => {
    await deliver(readWebhook('github-push'))
    const [deploy] = await deploys()
    const { body } = await w.call(`GET /api/v1/deploys/${deploy?.id}`, { key: owner.key })
    expect(body.git).toEqual({
      commit: '1f0c8ff3a4b2f1a6c4c9e5b7d0a1b2c3d4e5f601',
      ref: 'main',
      message: expect.stringContaining('Update the start pag'),
      author: expect.stringMatching(/\S/),
    })
    expect(await connection()).toMatchObject({ forge: 'github', last_deploy_id: deploy?.id, last_commit: body.git.commit })
  })

  test('a push of Bitbucket that moves several branches is answered with the deploy', async () => {
    await connectSite({ branch_previews: true })
    const { body } = await deliver(readWebhook('bitbucket-push-two'))
    const made = await deploys()
    expect(made.map(({ activate }) => activate)).toEqual([false, true])
    expect(body).toEqual({ ok: true, deploy_id: made[0]?.id })
    expect((await lastDelivery()).result).toBe(`skipped: event, deploy ${made[0]?.id}, deploy ${made[1]?.id}`)
    expect((await deliver(readWebhook('bitbucket-push-two'))).body).toMatchObject({ ok: true, skipped: 'event' })
    expect((await deploys()).length).toBe(2)
  })

  test('a script that delivers beside a forge does not take its place', async () => {
    await deliver(readWebhook('generic-push'))
    expect((await connection()).forge).toBe('generic')
    await deliver(readWebhook('gitea-push'))
    await deliver(readWebhook('generic-empty'))
    expect(await connection()).toMatchObject({ forge: 'gitea', webhook: { last_delivery: { forge: 'generic' } } })
  })
})

describe('check 64: what is no delivery of this webhook makes no deploy', () => {
  const other = makeWebhookSecret()
  test.each([
    ['unsigned', () => unsigned(github(push())), 401],
    ['of another secret', () => github(push(), { secret: other }), 401],
    ['of another body', () => ({ ...github(push()), raw: JSON.stringify(push(commit('b'))) }), 401],
    ['of a forge that is not named', () => ({ headers: {}, raw: '{}' }), 401],
    ['not JSON', () => github('{"ref":'), 400],
    ['empty', () => github('', { event: 'push' }), 200],
    ['of 6 MB', () => github(push(commit('a'), { padding: 'x'.repeat(6 * 1024 * 1024) })), 413],
  ])('one that is %s', async (_what, made, status) => {
    const answer = await deliver(made())
    expect([answer.status, Object.keys(answer.body)]).toEqual([status, status === 200 ? ['ok', 'skipped'] : ['message']])
    expect(await deploys()).toEqual([])
  })

  test('6 MB without an announced length are refused as well', async () => {
    const body = new ReadableStream({
      pull(controller) {
        controller.enqueue(Buffer.alloc(64 * 1024))
      },
    })
    const init = { method: 'POST', body, duplex: 'half', headers: { 'x-svc-token': webhookSecret } }
    const response = await fetch(`${w.base}/hooks/git/${site.id}`, init as RequestInit)
    expect(response.status).toBe(413)
  })

  test.each([
    ['an unknown site', async () => randomUUID()],
    ['no id', async () => 'x'],
    ['a site without a connection', async () => (await makeSite(w, owner)).id],
    [
      'a site in the trash',
      async () => {
        await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
        return site.id
      },
    ],
  ])('one for %s is 404', async (_what, of) => {
    const { status, body } = await deliver(github(push()), await of())
    expect([status, body]).toEqual([404, { message: expect.stringMatching(/\S/) }])
  })

  test('one without a secret at the site is 401', async () => {
    const bare = await makeSite(w, owner)
    const json = { repo_url: 'https://forge.example.com/x' }
    await w.call(`PUT /api/v1/sites/${bare.id}/git`, { key: owner.key, json })
    expect((await deliver(readWebhook('generic-push'), bare.id)).status).toBe(401)
  })

  test('one for another site is 401 there, as is one of a rotated secret', async () => {
    const neighbour = await makeSite(w, owner)
    const json = { repo_url: 'https://forge.example.com/x' }
    await w.call(`PUT /api/v1/sites/${neighbour.id}/git`, { key: owner.key, json })
    const { secret } = (await w.call(`POST /api/v1/sites/${neighbour.id}/git/webhook`, { key: owner.key })).body
    expect((await deliver(github(push()), neighbour.id)).status).toBe(401)
    expect((await deliver(github(push(), { secret }), neighbour.id)).status).toBe(200)
    await w.call(`POST /api/v1/sites/${neighbour.id}/git/webhook`, { key: owner.key })
    expect((await deliver(github(push(commit('b')), { secret }), neighbour.id)).status).toBe(401)
    expect((await deploys(neighbour.id)).length).toBe(1)
  })

  test('a delivery that is repeated or replayed is skipped', async () => {
    const once = github(push(), { id: 'the-one' })
    const { deploy_id } = (await deliver(once)).body
    for (let time = 0; time < 3; time++) expect((await deliver(once)).body).toEqual({ ok: true, skipped: 'duplicate' })
    await deliver(github(push(commit('b'))))
    expect((await deliver(once)).body).toEqual({ ok: true, skipped: 'duplicate' })
    expect((await deploys()).map(({ id, git }) => [id, git?.commit])).toEqual([[deploy_id, commit('b')]])
  })

  test('two identical deliveries in parallel make one deploy', async () => {
    for (let round = 0; round < 5; round++) {
      const at = await connectedSite(w, owner)
      const twin = github(push(), { id: 'twin' })
      const answers = await Promise.all(Array.from({ length: 6 }, () => deliver(twin, at.id)))
      expect(answers.filter(({ body }) => body.deploy_id).length).toBe(1)
      expect(answers.filter(({ body }) => body.skipped === 'duplicate').length).toBe(5)
      expect((await deploys(at.id)).length).toBe(1)
    }
  })

  test('a commit is deployed once, whatever its deliveries are called', async () => {
    const answers = await Promise.all(Array.from({ length: 6 }, () => deliver(github(push()))))
    expect(answers.filter(({ body }) => body.deploy_id).length).toBe(1)
    expect((await deploys()).length).toBe(1)
  })

  const skips: [string, object, Webhook, string][] = [
    ['another branch', {}, github(push(commit('a'), {}, 'next')), 'branch'],
    ['a ping', {}, github({ zen: '…' }, { event: 'ping' }), 'ping'],
    ['a tag', {}, github({ ...push(), ref: 'refs/tags/v1' }), 'event'],
    ['an event from which nothing follows', {}, github({}, { event: 'star' }), 'event'],
    ['the end of the branch', {}, github(push(commit('0'), { deleted: true })), 'deleted'],
    [
      'a marker',
      {},
      github(push(commit('a'), { head_commit: { id: commit('a'), message: 'Oops [skip deploy]' } })),
      'skip_marker',
    ],
    ['no watched file', { watch_paths: ['docs/**'] }, github(push()), 'watch_paths'],
    ['a pull request without previews', { pull_request_previews: false }, requested('opened', commit('a')), 'branch'],
  ]
  test.each(skips)('%s is skipped with its reason', async (_what, settings, webhook, reason) => {
    await connectSite(settings)
    expect((await deliver(webhook)).body).toEqual({ ok: true, skipped: reason })
    expect([(await lastDelivery()).result, await deploys(), await previews()]).toEqual([`skipped: ${reason}`, [], []])
  })

  test('on a plan without previews there are none', async () => {
    const free = await w.project('free')
    const at = await connectedSite(w, free, { branch_previews: true })
    for (const webhook of [requested('opened', commit('a')), github(push(commit('b'), {}, 'next'))])
      expect((await deliver(webhook, at.id)).body).toEqual({ ok: true, skipped: 'branch' })
  })
})

describe('what the owner sees of the latest delivery', () => {
  test('a deploy, one that joined it, a refusal', async () => {
    const at = expect.stringMatching(/Z$/)
    const { deploy_id } = (await deliver(github(push()))).body
    expect(await lastDelivery()).toEqual({ at, forge: 'github', event: 'push', result: `deploy ${deploy_id}` })
    expect((await deliver(github(push(commit('b'))))).body).toEqual({ ok: true, deploy_id })
    expect((await lastDelivery()).result).toBe(`merged into deploy ${deploy_id}`)
    w.advance(1001)
    await deliver(unsigned(readWebhook('gitea-push')))
    expect(await lastDelivery()).toMatchObject({ forge: 'gitea', result: expect.stringMatching(/^refused: .*x-gitea-signature/) })
    expect((await connection()).forge).toBe('github')
  })

  test('what anybody may send is noted once a second', async () => {
    await deliver(github(push()))
    w.advance(1001)
    await deliver(unsigned(readWebhook('gitea-push')))
    const first = await lastDelivery()
    await deliver(unsigned(readWebhook('gitlab-push')))
    expect(await lastDelivery()).toEqual(first)
    w.advance(1001)
    await deliver(unsigned(readWebhook('gitlab-push')))
    expect((await lastDelivery()).forge).toBe('gitlab')
  })
})

describe('gates', () => {
  test('Z05: a suspended project gets 402, and the same delivery is taken when it has paid', async () => {
    const late = await w.project()
    const at = await connectedSite(w, late)
    const suspend = (suspended: boolean) =>
      w.call(`PATCH /operator/v1/projects/${late.id}`, { key: operatorToken, json: { suspended } })
    await suspend(true)
    const webhook = readWebhook('github-push')
    const { status, body } = await deliver(webhook, at.id)
    expect([status, body.message]).toEqual([402, expect.stringContaining('suspended')])
    const shown = (await w.call(`GET /api/v1/sites/${at.id}/git`, { key: late.key })).body
    expect(shown.webhook.last_delivery.result).toBe(`refused: ${body.message}`)
    await suspend(false)
    expect((await deliver(webhook, at.id)).body).toEqual({ ok: true, deploy_id: expect.any(String) })
  })

  test('the rate of the plan answers 429, and the same delivery is taken later', async () => {
    const busy = await w.project('free')
    const webhook = readWebhook('gitea-push')
    const sites = [await connectedSite(w, busy), await connectedSite(w, busy)]
    const values = Array.from({ length: 10 }, (_none, index) => ({
      site_id: sites[1].id,
      project_id: busy.id,
      seq: 100 + index,
      source_kind: 'files' as const,
      activate: true,
      is_preview: false,
      created_at: new Date(webhookSentAt),
    }))
    await w.db.insertInto('deploys').values(values).execute()
    const refused = await deliver(webhook, sites[0].id)
    expect([refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([429, true])
    await w.db.deleteFrom('deploys').where('site_id', '=', sites[1].id).execute()
    expect((await deliver(webhook, sites[0].id)).body).toEqual({ ok: true, deploy_id: expect.any(String) })
  })
})

describe('previews', () => {
  test('a branch and its pull request share one; the number comes with the request', async () => {
    await connectSite({ branch_previews: true })
    const { deploy_id } = (await deliver(github(push(commit('a'), {}, 'feature/x')))).body
    expect(await previews()).toMatchObject([{ ref: 'feature/x', fetch_ref: 'refs/heads/feature/x', pull_request: null }])
    expect((await deliver(requested('opened', commit('a')))).body).toEqual({ ok: true, skipped: 'duplicate' })
    const [preview] = await previews()
    expect(preview).toMatchObject({ pull_request: 3, branch: 'feature/x', from_fork: false, head_commit: commit('a') })
    const [deploy] = await deploys()
    expect(deploy).toMatchObject({ id: deploy_id, activate: false, git_preview_id: preview?.id })
  })

  test('one ends with its pull request, and begins anew when that is opened again', async () => {
    const first = (await deliver(requested('opened', commit('a')))).body.deploy_id
    expect((await deliver(requested('closed', commit('a')))).body).toEqual({ ok: true, skipped: 'deleted' })
    expect((await previews())[0]?.closed_at).toBeInstanceOf(Date)
    expect((await deliver(requested('reopened', commit('a')))).body).toEqual({ ok: true, deploy_id: first })
    expect((await previews())[0]?.closed_at).toBe(null)
  })

  test('one ends with its branch', async () => {
    await connectSite({ branch_previews: true })
    await deliver(github(push(commit('a'), {}, 'feature/x')))
    await deliver(github(push(commit('0'), { deleted: true }, 'feature/x')))
    expect((await previews())[0]?.closed_at).toBeInstanceOf(Date)
  })

  test('the pull request of a fork waits for its approval, also when its branch is called as the live one', async () => {
    const fork = { fork: true, branch: 'main' }
    expect((await deliver(requested('opened', commit('a'), fork))).body).toEqual({ ok: true, skipped: 'fork' })
    expect((await deliver(requested('synchronize', commit('b'), fork))).body).toEqual({ ok: true, skipped: 'fork' })
    expect(await deploys()).toEqual([])
    const [preview] = await previews()
    const shown = { ref: 'pull:3', fetch_ref: 'refs/pull/3/head', branch: 'main', head_commit: commit('b') }
    expect(preview).toMatchObject({ ...shown, pull_request: 3, from_fork: true, approved: false })
    await w.db.updateTable('git_previews').set({ approved: true }).where('site_id', '=', site.id).execute()
    const { deploy_id } = (await deliver(requested('synchronize', commit('c'), fork))).body
    expect((await deploys()).map(({ id, activate, git_preview_id }) => [id, activate, git_preview_id])).toEqual([
      [deploy_id, false, preview?.id],
    ])
  })

  test('the fork of a forge that does not have its commits opens none', async () => {
    expect((await deliver(readWebhook('bitbucket-pull-request-fork'))).body).toEqual({ ok: true, skipped: 'fork' })
    expect(await previews()).toEqual([])
  })

  test.each(['github', 'gitlab', 'gitea', 'bitbucket', 'bitbucket-dc'])(
    'pull requests of %s open and close theirs',
    async (forge) => {
      const recorded = (what: string): Webhook => {
        const { headers, raw } = readWebhook(`${forge}-${forge === 'gitlab' ? 'merge' : 'pull'}-request-${what}`)
        // some recordings share the name of one delivery
        const named = ['x-github-delivery', 'x-gitlab-event-uuid', 'idempotency-key'].filter((name) => name in headers)
        return { raw, headers: { ...headers, ...Object.fromEntries(named.map((name) => [name, randomUUID()])) } }
      }
      expect((await deliver(recorded('opened'))).body).toEqual({ ok: true, deploy_id: expect.any(String) })
      expect(await previews()).toMatchObject([{ pull_request: expect.any(Number), from_fork: false, closed_at: null }])
      expect((await deliver(recorded('closed'))).body).toEqual({ ok: true, skipped: 'deleted' })
      expect((await previews())[0]?.closed_at).toBeInstanceOf(Date)
      expect((await deploys()).map(({ activate }) => activate)).toEqual([false])
    },
  )
})

describe('the deploy hook', () => {
  const made = async () =>
    new URL((await w.call(`POST /api/v1/sites/${site.id}/git/deploy-hook`, { key: owner.key })).body.url).pathname

  test('deploys the connected branch, whatever is sent along', async () => {
    const path = await made()
    const first = await w.call(`POST ${path}`)
    expect([first.status, first.body]).toEqual([200, { ok: true, deploy_id: expect.any(String) }])
    const [deploy] = await deploys()
    expect(deploy).toMatchObject({ id: first.body.deploy_id, source_kind: 'git', activate: true, git: null })
    expect((await connection()).deploy_hook.last_used_at).toMatch(/Z$/)
    expect((await w.call(`POST ${path}`, { bytes: Buffer.from('{not json'), type: 'text/x-any' })).status).toBe(200)
    expect((await w.call(`POST ${path}`, { bytes: Buffer.alloc(6 * 1024 * 1024) })).status).toBe(413)
  })

  test('is never a duplicate: a commit that has ended is deployed again', async () => {
    const path = await made()
    const { deploy_id } = (await w.call(`POST ${path}`)).body
    await w.db.updateTable('deploys').set({ status: 'failed' }).where('id', '=', deploy_id).execute()
    expect((await w.call(`POST ${path}`)).body.deploy_id).not.toBe(deploy_id)
  })

  test.each(['GET', 'PUT', 'PATCH', 'DELETE'])('does nothing on %s', async (method) => {
    const path = await made()
    for (const at of [path, `/hooks/git/${site.id}`]) {
      const { status, headers } = await w.call(`${method} ${at}`)
      expect([status, headers.get('allow')]).toEqual([405, 'POST'])
    }
    expect(await deploys()).toEqual([])
  })

  test('is unknown when it is wrong, removed, or its site is in the trash', async () => {
    const path = await made()
    expect((await w.call(`POST ${path}x`)).body).toEqual({ message: expect.stringContaining('no deploy hook') })
    await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key })
    expect((await w.call(`POST ${path}`)).status).toBe(404)
    expect(await deploys()).toEqual([])
  })

  test('Z05: a suspended project gets 402', async () => {
    const late = await w.project()
    const at = await connectedSite(w, late)
    const { body } = await w.call(`POST /api/v1/sites/${at.id}/git/deploy-hook`, { key: late.key })
    await w.call(`PATCH /operator/v1/projects/${late.id}`, { key: operatorToken, json: { suspended: true } })
    expect((await w.call(`POST ${new URL(body.url).pathname}`)).status).toBe(402)
    expect(await deploys(at.id)).toEqual([])
  })

  test('its address is neither in metrics nor in what is logged', async () => {
    const path = await made()
    await w.call(`POST ${path}`)
    const { body } = await w.call('GET /metrics', { key: operatorToken })
    const secret = path.split('/').at(-1) ?? ''
    expect([body.includes('route="POST /hooks/deploy/{secret}"'), body.includes(secret)]).toEqual([true, false])
    for (const at of [path, `/${path}`, `${path}/`, path.replace('hooks', 'Hooks'), `/hooks/git/../deploy/${secret}`])
      expect(loggedPath(at)).toBe('/hooks/…')
    for (const at of ['/api/v1/sites', '/hooks/git/x', '/mcp', '/__svc/login']) expect(loggedPath(at)).toBe(at)
    for (const at of ['/__svc/d/secret', '//__SVC//D/secret/file']) expect(loggedPath(at)).toBe('/__svc/d/…')
    expect(loggedPath(`/api/v1/sites/${owner.key}`)).toBe('/api/v1/sites/[masked]')
  })
})

describe('while Temporal is away', () => {
  test('deliveries and deploy hooks are answered within 2 s, and nothing is lost', bestOfThree, async () => {
    await using cut = await world({ worker: false, ownTemporal: true })
    const project = await cut.project('enterprise')
    const at = await connectedSite(cut, project)
    const hook = (await cut.call(`POST /api/v1/sites/${at.id}/git/deploy-hook`, { key: project.key })).body.url
    await cut.killTemporal()
    const began = performance.now()
    const delivered = await deliverTo(cut, at.id, github(push()))
    const hooked = await cut.call(`POST ${new URL(hook).pathname}`)
    expect(performance.now() - began).toBeLessThan(2000)
    expect([delivered.body.ok, hooked.body]).toEqual([true, { ok: true, deploy_id: delivered.body.deploy_id }])
    const starts = await cut.db.selectFrom('workflow_starts').select('workflow_id').execute()
    expect(starts.map(({ workflow_id }) => workflow_id)).toContainEqual(expect.stringContaining(delivered.body.deploy_id))
  })
})
