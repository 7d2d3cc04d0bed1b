import { describe, expect, test } from 'vitest'
import { forgeAddress } from '../../infra/forges/address.ts'
import { openForge } from '../../infra/forges/client.ts'
import type { DeploymentReport, StatusReport } from '../../infra/forges/reports.ts'
import { guardedSend } from '../../infra/forges/send.ts'
import { ForgeError } from '../../infra/forges/transport.ts'
import { type ForgeServer, startForgeServer, type Told } from './forges-server.ts'

test.each([
  ['https://github.com/ada/site.git', undefined, 'github https://api.github.com ada/site'],
  ['https://github.com/ada/site', 'gitlab', 'github https://api.github.com ada/site'],
  ['https://acme.ghe.com/ada/site', undefined, 'github https://api.acme.ghe.com ada/site'],
  ['https://git.example.com/ada/site.git', 'github', 'github https://git.example.com/api/v3 ada/site'],
  ['https://gitlab.com/team/web/site.git', undefined, 'gitlab https://gitlab.com/api/v4 team/web/site'],
  ['https://git.example.com:8443/team/site.git', 'gitlab', 'gitlab https://git.example.com:8443/api/v4 team/site'],
  ['https://codeberg.org/ada/site.git', undefined, 'gitea https://codeberg.org/api/v1 ada/site'],
  ['https://git.example.com/ada/site.git', 'gitea', 'gitea https://git.example.com/api/v1 ada/site'],
  ['https://example.com/gitea/ada/site.git', 'gitea', 'gitea https://example.com/gitea/api/v1 ada/site'],
  ['https://bitbucket.org/team/site', undefined, 'bitbucket https://api.bitbucket.org/2.0 team/site'],
  ['https://git.example.com/scm/web/site.git', 'bitbucket_dc', undefined],
  ['https://git.example.com/ada/site.git', 'bitbucket', undefined],
  ['https://git.example.com/ada/site.git', 'generic', undefined],
  ['https://git.example.com/ada/site.git', undefined, undefined],
  ['https://github.com.evil.example/ada/site', undefined, undefined],
  ['https://github.com/ada', undefined, undefined],
  ['nonsense', 'github', undefined],
] as const)('the API of %s, seen from %s, is %s', (url, seen, expected) => {
  const address = forgeAddress(url, seen)
  expect(address && `${address.forge} ${address.base} ${address.repository}`).toBe(expected)
})

const forges = ['github', 'gitlab', 'gitea', 'bitbucket'] as const
const repositories = { github: 'ada/site', gitlab: 'team/web/site', gitea: 'ada/site', bitbucket: 'team/site' }
const site = { id: '0198a6b0-0000-7000-8000-000000000001', name: 'docs' }
const now = new Date('2026-11-21T12:00:00Z')
const secretToken = 'secret-token'

function connect(server: ForgeServer, forge: (typeof forges)[number], token = secretToken) {
  const origin = forge === 'bitbucket' ? 'https://bitbucket.org' : server.origin
  const options = { repo_url: `${origin}/${repositories[forge]}.git`, seen: forge, token, send: server.send, now: () => now }
  const client = openForge(options)
  if (!client) throw new Error(`no client for ${forge}`)
  return client
}

const status: StatusReport = {
  commit: 'a'.repeat(40),
  ref: 'main',
  state: 'pending',
  site,
  description: 'The site is being built',
  target_url: 'https://plinth.example/log',
}

describe('commit statuses', () => {
  const context = 'plinth/docs'
  const text = { target_url: 'https://plinth.example/log', description: 'The site is being built' }
  test.each([
    [
      'github',
      `POST /api/v3/repos/ada/site/statuses/${status.commit}`,
      'Bearer secret-token',
      { state: 'pending', context, ...text },
      { failure: 'failure', cancelled: 'error' },
    ],
    [
      'gitlab',
      `POST /api/v4/projects/team%2Fweb%2Fsite/statuses/${status.commit}`,
      'Bearer secret-token',
      { state: 'pending', ref: 'main', name: context, ...text },
      { failure: 'failed', cancelled: 'canceled' },
    ],
    [
      'gitea',
      `POST /api/v1/repos/ada/site/statuses/${status.commit}`,
      'token secret-token',
      { state: 'pending', context, ...text },
      { failure: 'failure', cancelled: 'error' },
    ],
    [
      'bitbucket',
      `POST /2.0/repositories/team/site/commit/${status.commit}/statuses/build`,
      'Bearer secret-token',
      { state: 'INPROGRESS', key: site.id, name: context, refname: 'main', url: text.target_url, description: text.description },
      { failure: 'FAILED', cancelled: 'STOPPED' },
    ],
  ] as const)('of %s', async (forge, what, authorization, body, states) => {
    await using stack = new AsyncDisposableStack()
    const server = await startForgeServer(stack)
    const client = connect(server, forge)
    await client.setStatus(status)
    for (const state of ['failure', 'cancelled'] as const) await client.setStatus({ ...status, state })
    const headers = { authorization, 'content-type': 'application/json', 'user-agent': 'plinth' }
    expect(server.asked[0]).toMatchObject({ what, headers })
    expect(server.asked[0]?.body).toEqual(body)
    expect(server.asked.slice(1).map((asked) => asked.body.state)).toEqual([states.failure, states.cancelled])
  })

  test('GitLab refuses a state that is there already, which is what was wanted', async () => {
    await using stack = new AsyncDisposableStack()
    const server = await startForgeServer(stack)
    const from = (state: string) =>
      `Cannot transition status via :enqueue from :${state} (Reason(s): Status cannot transition via "enqueue")`
    const client = connect(server, 'gitlab')
    server.instead = () => ({ status: 400, body: { message: from('running') } })
    await client.setStatus(status)
    await expect(client.setStatus({ ...status, state: 'success' })).rejects.toThrow(/Cannot transition/)
  })

  test.each([
    ['github', 'Bearer word'],
    ['gitlab', 'Bearer word'],
    ['gitea', `Basic ${btoa('ada:word')}`],
    ['bitbucket', `Basic ${btoa('ada:word')}`],
  ] as const)('a user and password of %s are sent as %s', async (forge, authorization) => {
    await using stack = new AsyncDisposableStack()
    const server = await startForgeServer(stack)
    await connect(server, forge, 'ada:word').setStatus(status)
    expect(server.asked[0]?.headers.authorization).toBe(authorization)
  })
})

const deployment: DeploymentReport = {
  deploy_id: '0198a6b0-0000-7000-8000-00000000000d',
  commit: 'b'.repeat(40),
  ref: 'main',
  state: 'pending',
  environment: 'preview/feature x',
  is_live: false,
  description: 'Deployed',
  log_url: 'https://plinth.example/log',
  site_url: 'https://preview.example/',
}

describe('records of deployments', () => {
  test('of GitHub: one for a deploy, however often it is reported', async () => {
    await using stack = new AsyncDisposableStack()
    const server = await startForgeServer(stack)
    const client = connect(server, 'github')
    const id = await client.recordDeployment(deployment)
    expect(await client.recordDeployment({ ...deployment, state: 'success' })).toBe(id)
    expect(await client.recordDeployment({ ...deployment, state: 'inactive', known_id: id })).toBe(id)
    const query = `sha=${deployment.commit}&environment=preview%2Ffeature+x&per_page=100`
    expect(server.asked.map(({ what }) => what.replace('/api/v3/repos/ada/site/deployments', '…'))).toEqual([
      `GET …?${query}`,
      'POST …',
      `POST …/${id}/statuses`,
      `GET …?${query}`,
      `POST …/${id}/statuses`,
      `POST …/${id}/statuses`,
    ])
    expect(server.asked[1]?.body).toEqual({
      ref: deployment.commit,
      environment: 'preview/feature x',
      description: 'Deployed',
      payload: { deploy_id: deployment.deploy_id },
      production_environment: false,
      transient_environment: true,
      auto_merge: false,
      required_contexts: [],
    })
    const states = server.asked.flatMap(({ what, body }) => (what.endsWith('/statuses') ? [body] : []))
    const links = { log_url: deployment.log_url, environment_url: deployment.site_url, description: 'Deployed' }
    expect(states).toEqual(['in_progress', 'success', 'inactive'].map((state) => ({ state, ...links })))
  })

  test.each(['inactive', 'replaced', 'overtaken'] as const)(
    'of GitHub: %s ends what is there, and makes nothing',
    async (state) => {
      await using stack = new AsyncDisposableStack()
      const server = await startForgeServer(stack)
      const client = connect(server, 'github')
      expect(await client.recordDeployment({ ...deployment, state })).toBeUndefined()
      const known_id = await client.recordDeployment(deployment)
      expect(await client.recordDeployment({ ...deployment, state, known_id })).toBe(known_id)
      const statuses = server.asked.filter(({ what }) => what.endsWith('/statuses')).map(({ body }) => body.state)
      expect(statuses).toEqual(['in_progress', 'inactive'])
    },
  )

  test('of GitHub: two deploys of one commit are two', async () => {
    await using stack = new AsyncDisposableStack()
    const client = connect(await startForgeServer(stack), 'github')
    const first = await client.recordDeployment(deployment)
    expect(await client.recordDeployment({ ...deployment, deploy_id: 'another' })).not.toBe(first)
  })

  test('of GitLab', async () => {
    await using stack = new AsyncDisposableStack()
    const server = await startForgeServer(stack)
    const client = connect(server, 'gitlab')
    const known_id = await client.recordDeployment(deployment)
    expect(await client.recordDeployment({ ...deployment, state: 'success', known_id })).toBe(known_id)
    await client.recordDeployment({ ...deployment, state: 'replaced', known_id })
    await client.recordDeployment({ ...deployment, state: 'overtaken', known_id })
    await client.recordDeployment({ ...deployment, state: 'inactive', known_id })
    const calls = server.asked.map(({ what, body }) => [
      what.replace('/api/v4/projects/team%2Fweb%2Fsite', '…').replace(/\?.*/, '?'),
      body,
    ])
    expect(calls).toEqual([
      ['GET …/deployments?', undefined],
      [
        'POST …/deployments',
        { environment: 'preview/feature x', sha: deployment.commit, ref: 'main', tag: false, status: 'running' },
      ],
      ['PUT …/environments/9', { external_url: deployment.site_url }],
      [`PUT …/deployments/${known_id}`, { status: 'success' }],
      [`PUT …/deployments/${known_id}`, { status: 'canceled' }],
      ['GET …/environments?', undefined],
      ['POST …/environments/9/stop', {}],
    ])
  })

  test.each(['gitea', 'bitbucket'] as const)('%s has none, and is not asked', async (forge) => {
    await using stack = new AsyncDisposableStack()
    const server = await startForgeServer(stack)
    expect(await connect(server, forge).recordDeployment(deployment)).toBeUndefined()
    expect(server.asked).toEqual([])
  })
})

describe.each(forges)('the one comment in a pull request of %s', (forge) => {
  const marker = forge === 'bitbucket' ? `[//]: # (plinth:${site.id})` : `<!-- plinth:${site.id} -->`
  const report = { number: 7, site_id: site.id, body: 'Building' }
  const open = async (stack: AsyncDisposableStack) => {
    const server = await startForgeServer(stack)
    return { server, client: connect(server, forge) }
  }
  const writes = ({ asked }: ForgeServer) => asked.map(({ what }) => what.split(' ')[0]).filter((method) => method !== 'GET')

  test('is made once and then edited', async () => {
    await using stack = new AsyncDisposableStack()
    const { server, client } = await open(stack)
    const known_id = await client.putComment(report)
    expect(await client.putComment({ ...report, body: 'Ready', known_id })).toBe(known_id)
    expect(server.notes.map(({ body }) => body)).toEqual([`${marker}\n\nReady`])
    expect(server.asked.at(-1)?.headers['content-type']).toBe('application/json')
  })

  test('is found again when its id was lost, behind many others', async () => {
    await using stack = new AsyncDisposableStack()
    const { server, client } = await open(stack)
    for (let id = 0; id < 130; id++) server.notes.push({ id, author: 'me', body: `Nice ${marker}\n${marker}` })
    const first = await client.putComment(report)
    expect(await client.putComment({ ...report, body: 'Ready' })).toBe(first)
    expect(server.notes.length).toBe(131)
    expect(server.notes.at(-1)?.body).toBe(`${marker}\n\nReady`)
  })

  test('is none that somebody else has made with our marker', async () => {
    await using stack = new AsyncDisposableStack()
    const { server, client } = await open(stack)
    server.notes.push({ id: 1, author: 'mallory', body: `${marker}\nphishing` })
    await client.putComment(report)
    await client.putComment(report)
    expect(server.notes.map(({ author, body }) => [author, body.split('\n').at(-1)])).toEqual([
      ['mallory', 'phishing'],
      ['me', 'Building'],
    ])
  })

  test('is found by its marker alone when the token may not know whose it is', async () => {
    await using stack = new AsyncDisposableStack()
    const { server, client } = await open(stack)
    server.me = undefined
    const id = await client.putComment(report)
    expect(await client.putComment(report)).toBe(id)
    expect(server.notes.length).toBe(1)
  })

  test('is made anew when it was deleted', async () => {
    await using stack = new AsyncDisposableStack()
    const { server, client } = await open(stack)
    const known_id = await client.putComment(report)
    server.notes.pop()
    server.notes.push({ id: 1, author: 'other', body: 'x' }, { id: 2, author: 'other', body: 'y' })
    expect(await client.putComment({ ...report, known_id })).not.toBe(known_id)
    expect(writes(server).filter((method) => method === 'POST').length).toBe(2)
  })

  test('of another site is another one', async () => {
    await using stack = new AsyncDisposableStack()
    const { client } = await open(stack)
    expect(await client.putComment(report)).not.toBe(await client.putComment({ ...report, site_id: 'other' }))
  })
})

describe('what goes wrong at a forge', () => {
  const reset = String(now.getTime() / 1000 + 90)
  test.each([
    [
      { status: 401, body: { message: 'Bad credentials' } },
      'denied',
      /does not know the token \(Bad credentials\): it may have expired/,
    ],
    [{ status: 403, body: { message: 'Resource not accessible' } }, 'denied', /it needs the permission “Commit statuses: write”/],
    [{ status: 404, body: { message: 'Not Found' } }, 'gone', /does not have it \(Not Found\), or the token may not see it/],
    [{ status: 301, headers: { location: 'https://evil.example/' }, body: {} }, 'gone', /has moved/],
    [{ status: 422, body: { message: 'No commit found for SHA' } }, 'refused', /answered 422 \(No commit found for SHA\)/],
    [{ status: 500, body: '<h1>oops</h1>' }, 'unavailable', /answered 500$/],
    [{ status: 200, body: '<h1>a proxy</h1>' }, 'unavailable', /did not answer with JSON/],
    [{ status: 429, headers: { 'retry-after': '7' } }, 'rate_limited', /no more requests for 7 s/],
    [{ status: 403, headers: { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset } }, 'rate_limited', /for 90 s/],
    [{ status: 429, headers: { 'ratelimit-reset': reset } }, 'rate_limited', /for 90 s/],
    [{ status: 429, headers: { 'retry-after': '999999999' } }, 'rate_limited', /for 3600 s/],
    [{ status: 429 }, 'rate_limited', /for 60 s/],
    [{ status: 400, body: { message: 'bad secret-token' } }, 'refused', /bad \*\*\*/],
  ] as [Told, string, RegExp][])('%j is %s', async (told, kind, message) => {
    await using stack = new AsyncDisposableStack()
    const server = await startForgeServer(stack)
    server.instead = () => told
    const error = await connect(server, 'github')
      .setStatus(status)
      .catch((error: unknown) => error)
    expect(error).toBeInstanceOf(ForgeError)
    expect(error).toMatchObject({ kind, message: expect.stringMatching(message), isRetryable: /limited|unavail/.test(kind) })
    expect(server.asked.length).toBe(1)
  })

  test('a forge that is away may be back later', async () => {
    const send = () => Promise.reject(new Error('connect ECONNREFUSED'))
    const client = openForge({ repo_url: 'https://github.com/ada/site', seen: undefined, token: 'x', send, now: () => now })
    await expect(client?.setStatus(status)).rejects.toMatchObject({
      kind: 'unavailable',
      message: 'api.github.com did not answer',
    })
  })

  test('a forge at a private address is not asked', async () => {
    await using stack = new AsyncDisposableStack()
    const server = await startForgeServer(stack)
    const at = (repo_url: string, allowPrivate: boolean) =>
      openForge({ repo_url, seen: 'gitea', token: 'x', send: guardedSend({ allowPrivate }), now: () => now })
    const http = `${server.origin}/ada/site.git`
    for (const repo_url of [http, http.replace('http:', 'https:'), 'https://127.0.0.1/ada/site.git'])
      await expect(at(repo_url, false)?.setStatus(status)).rejects.toMatchObject({ name: 'ForgeError', kind: 'refused' })
    expect(server.asked).toEqual([])
    await at(http, true)?.setStatus(status)
    expect(server.asked.length).toBe(1)
  })

  test.each(forges)('%s names the right that the token lacks', async (forge) => {
    await using stack = new AsyncDisposableStack()
    const server = await startForgeServer(stack)
    server.instead = () => ({ status: 403, body: { message: 'no' } })
    const report = { number: 7, site_id: site.id, body: 'x' }
    await expect(connect(server, forge).putComment(report)).rejects.toThrow(/it needs the (permission|scope) .{3,}/)
  })
})
