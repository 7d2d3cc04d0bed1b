import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { decidePush } from '../../core/git-decision.ts'
import type { GitEvent, PullRequest, Push } from '../../core/git-events.ts'
import { parseDelivery } from '../../core/git-push.ts'
import { makeWebhookSecret } from '../../infra/crypto/webhook-signatures.ts'
import { openForge } from '../../infra/forges/client.ts'
import { guardedSend } from '../../infra/forges/send.ts'
import { commentText } from '../../infra/forges/texts.ts'
import { verifyDelivery } from '../../infra/forges/verify.ts'
import { type Gitea, type GiteaRepository, giteaBuildTimeoutMs, startGitea } from '../infra/gitea.ts'

interface Received {
  readonly headers: IncomingHttpHeaders
  readonly raw: Buffer
}

const stack = new AsyncDisposableStack()
const secret = makeWebhookSecret()
const received: Received[] = []
let gitea: Gitea
let repository: GiteaRepository

beforeAll(async () => {
  gitea = stack.use(await startGitea())
  const http = createServer(async (request, response) => {
    received.push({ headers: request.headers, raw: await buffer(request) })
    response.end('{"ok":true}')
  })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  stack.defer(() => {
    http.closeAllConnections()
    http.close()
  })
  repository = await gitea.createRepository('site')
  await repository.addWebhook(`http://127.0.0.1:${(http.address() as AddressInfo).port}/hooks/git/1`, secret)
}, giteaBuildTimeoutMs)

afterAll(() => stack.disposeAsync())

const verify = ({ headers, raw }: Received, now = secret) => verifyDelivery({ headers, raw, secret: now, now: new Date() })

/** Waits for the event that fits. Deliveries come in any order. */
async function eventOf<T extends GitEvent>(fits: (event: T) => boolean): Promise<{ event: T; delivery: Received }> {
  const find = () =>
    received
      .flatMap((delivery) => {
        const parsed = parseDelivery(delivery.headers, JSON.parse(delivery.raw.toString()))
        return (parsed?.events ?? []).map((event) => ({ event: event as T, delivery }))
      })
      .find(({ event }) => fits(event))
  await expect.poll(() => find() !== undefined).toBe(true)
  return find() as { event: T; delivery: Received }
}

const pushOf = (commit: string) => eventOf<Push>((event) => event.kind === 'push' && event.commit === commit)
const requestOf = (action: PullRequest['action']) =>
  eventOf<PullRequest>((event) => event.kind === 'pull_request' && event.action === action)
const rules = { branch: 'main', branch_previews: false, pull_request_previews: true, watch_paths: ['docs/**'] }
const decide = (event: GitEvent) => {
  const decision = decidePush('gitea', event, rules)
  return decision.kind === 'skipped' ? decision.reason : decision.kind
}

const send = guardedSend({ allowPrivate: true })

describe('with a real Gitea', () => {
  const client = (token: string) => {
    const forge = openForge({ repo_url: repository.cloneUrl, seen: 'gitea', token, send, now: () => new Date() })
    if (!forge) throw new Error('no client')
    return forge
  }
  const site = { id: '0198a6b0-0000-7000-8000-000000000001', name: 'docs' }

  test('G04: a push is signed so that it passes, and says what has changed', async () => {
    const commit = await repository.push('main', { 'docs/a.md': 'a', 'index.html': 'i' }, 'Add a page – neu')
    const { event, delivery } = await pushOf(commit)
    expect(verify(delivery)).toEqual({
      ok: true,
      forge: 'gitea',
      delivery_id: `push ${String(delivery.headers['x-gitea-delivery'])}`,
    })
    expect(event).toEqual({
      kind: 'push',
      ref: 'main',
      commit,
      deleted: false,
      message: 'Add a page – neu\n',
      author: 'Ada',
      repo_url: repository.cloneUrl,
      changed_files: ['docs/a.md', 'index.html'],
    })
    expect(decide(event)).toBe('build')
    expect(decide({ ...event, changed_files: ['index.html'] })).toBe('watch_paths')
  })

  test('G04: its twins do not pass', async () => {
    const { delivery } = await eventOf((event) => event.kind === 'push')
    expect(verify(delivery, makeWebhookSecret()).ok).toBe(false)
    expect(verify({ ...delivery, raw: Buffer.concat([delivery.raw, Buffer.from(' ')]) }).ok).toBe(false)
    const { 'x-gitea-signature': _signature, ...unsigned } = delivery.headers
    expect(verify({ ...delivery, headers: unsigned }).ok).toBe(false)
  })

  test('G04: a marker in the message skips the push', async () => {
    const { event } = await pushOf(await repository.push('main', { 'docs/a.md': 'b' }, 'Change\n\n[skip deploy]'))
    expect(decide(event)).toBe('skip_marker')
  })

  test('G04: a pull request is opened, updated and closed, and its branch deleted', async () => {
    const commit = await repository.push('feature/über', { 'docs/b.md': 'b' }, 'Add b')
    const made = await gitea.api('POST', '/repos/ada/site/pulls', { head: 'feature/über', base: 'main', title: 'A | title' })
    const number = made.body.number as number
    const opened = await requestOf('opened')
    const expected = { number, ref: 'feature/über', commit, from_fork: false, base: 'main', title: 'A | title', author: 'ada' }
    expect(opened.event).toMatchObject(expected)
    expect(decide(opened.event)).toBe('preview')
    expect(verify(opened.delivery).ok).toBe(true)

    const next = await repository.push('feature/über', { 'docs/b.md': 'c' }, 'Change b')
    const updated = await requestOf('updated')
    expect(updated.event).toMatchObject({ ...expected, commit: next })
    expect(verify(updated.delivery).ok).toBe(true)

    await gitea.api('PATCH', `/repos/ada/site/pulls/${number}`, { state: 'closed' })
    const closed = await requestOf('closed')
    expect(verify(closed.delivery).ok).toBe(true)
    expect(decidePush('gitea', closed.event, rules)).toEqual({ kind: 'skipped', reason: 'deleted', ends: 'feature/über' })

    await repository.deleteBranch('feature/über')
    const gone = await eventOf<Push>((event) => event.kind === 'push' && event.deleted)
    expect(gone.event).toMatchObject({ ref: 'feature/über', commit: undefined })
    expect(verify(gone.delivery).ok).toBe(true)
  })

  test('the status of a commit is read back', async () => {
    const commit = await repository.push('main', { 'docs/s.md': 's' }, 'For a status')
    const report = { commit, ref: 'main', site, description: 'Deployed in 1 s', target_url: 'https://plinth.example/log' }
    await client(gitea.token).setStatus({ ...report, state: 'pending' })
    await client(gitea.token).setStatus({ ...report, state: 'success' })
    const { body } = await gitea.api('GET', `/repos/ada/site/commits/${commit}/status`)
    expect(body.state).toBe('success')
    expect(body.statuses).toMatchObject([
      { status: 'success', context: 'plinth/docs', description: report.description, target_url: report.target_url },
    ])
  })

  test('the one comment of a pull request is edited, also after its id was lost', async () => {
    await repository.push('comments', { 'docs/c.md': 'c' }, 'For comments')
    const made = await gitea.api('POST', '/repos/ada/site/pulls', { head: 'comments', base: 'main', title: 'Comments' })
    const number = made.body.number as number
    const facts = {
      site_name: 'docs',
      commit: 'a'.repeat(40),
      ref: 'x|<img src=x>`@ada',
      site_url: undefined,
      log_url: undefined,
      at: new Date(),
    }
    const put = (state: 'pending' | 'success', known_id?: string) =>
      client(gitea.token).putComment({ number, site_id: site.id, body: commentText({ ...facts, state }), known_id })
    const known_id = await put('pending')
    expect(await put('success', known_id)).toBe(known_id)
    expect(await put('success')).toBe(known_id)
    const { body } = await gitea.api('GET', `/repos/ada/site/issues/${number}/comments`)
    expect(body.length).toBe(1)
    expect(body[0].body).toBe(`<!-- plinth:${site.id} -->\n\n${commentText({ ...facts, state: 'success' })}`)

    const shown = await fetch(`${gitea.url}/api/v1/markdown`, {
      method: 'POST',
      headers: { authorization: `token ${gitea.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ Text: body[0].body, Mode: 'gfm', Context: 'ada/site' }),
    })
    const html = await shown.text()
    expect(html).toContain('x¦&lt;img src=x&gt;`@ada</code>')
    expect(html).not.toMatch(/<img|plinth:|href="[^"]*\/ada"/)
  })

  test('a token without the right is told so', async () => {
    const made = await gitea.api('POST', '/users/ada/tokens', { name: 'reader', scopes: ['read:repository'] })
    const commit = await repository.push('main', { 'docs/t.md': 't' }, 'For a token')
    const report = {
      commit,
      ref: 'main',
      state: 'success',
      site,
      description: 'x',
      target_url: 'https://plinth.example/',
    } as const
    await expect(client(made.body.sha1).setStatus(report)).rejects.toMatchObject({
      kind: 'denied',
      message: expect.stringContaining('write:repository'),
    })
    await expect(client('0'.repeat(40)).setStatus(report)).rejects.toMatchObject({
      kind: 'denied',
      message: expect.stringContaining('does not know the token'),
    })
  })

  test('a repository that is not there is gone', async () => {
    const repo_url = `${gitea.url}/ada/nothing.git`
    const forge = openForge({ repo_url, seen: 'gitea', token: gitea.token, send, now: () => new Date() })
    await expect(forge?.putComment({ number: 1, site_id: site.id, body: 'x' })).rejects.toMatchObject({ kind: 'gone' })
  })
})
