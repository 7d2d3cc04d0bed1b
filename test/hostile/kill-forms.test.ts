import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitUntil } from '../../infra/local/wait.ts'
import { startMailServer } from '../infra/mail-server.ts'
import { ok, type Platform, type Project, report, type Site, startPlatform } from './platform.ts'

// Visitors post forms and repeat each post until it is answered, while the api, PostgreSQL and the worker are killed one after the other. What
// was answered with 200 is stored exactly once, is counted, reaches the webhook of the owner, and is answered with one email.

const kills = ['api', 'postgres', 'worker', 'api', 'postgres', 'worker'] as const
/** Each takes 30 posts a minute. */
const siteCount = 60
/** The owner gets emails about these; those of a project are at most 60 an hour. */
const notifiedCount = 3
const visitors = 4
const betweenPostsMs = 150

let platform: Platform
let owner: Project
const sites: Site[] = []
const cleanup = new AsyncDisposableStack()
let mails: Awaited<ReturnType<typeof startMailServer>>
/** The ids of submissions in the order of their arrival at the webhook. */
const delivered: string[] = []

beforeAll(async () => {
  const receiver = createServer(async (req, res) => {
    const { data } = (await json(req)) as { data: { submission_id: string } }
    delivered.push(data.submission_id)
    res.end()
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  cleanup.defer(() => void receiver.close())
  mails = cleanup.use(await startMailServer())
  const settings = {
    PLINTH_SMTP_URL: mails.url,
    PLINTH_FORM_DIGEST_PAUSE: '5s',
    // each post comes from an address of its own
    PLINTH_TRUSTED_PROXIES: '127.0.0.1/32',
    PLINTH_ALLOW_PRIVATE_WEBHOOKS: 'true',
    PLINTH_WEBHOOK_RETRY_PAUSE: '1s',
  }
  platform = cleanup.use(await startPlatform({ settings }))
  owner = await platform.project('enterprise')
  for (let i = 0; i < siteCount; i++) sites.push(await makeSite(`kill-forms-${i}`))
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
  await ok(platform.call('POST /api/v1/webhooks', { key: owner.key, json: { url, events: ['form.received'] } }))
})
afterAll(() => cleanup.disposeAsync())

async function makeSite(subdomain: string): Promise<Site> {
  const { key } = owner
  const { id, url } = await ok(platform.call('POST /api/v1/sites', { key, json: { name: 'form', subdomain } }))
  const reply = { enabled: true, subject: 'Thank you', body: 'We have **your message**.' }
  await ok(platform.call(`PUT /api/v1/sites/${id}/autoreply`, { key, json: reply }))
  if (sites.length < notifiedCount) {
    await ok(platform.call(`PATCH /api/v1/sites/${id}/form`, { key, json: { notify_email: true } }))
  }
  return { id, host: new URL(url).host, key: owner.key }
}

const statuses = new Map<number, number>()
let posts = 0

/** Posts one submission after the other, each until it is answered with 200. The first value of each request is its id. */
function keepPosting(acknowledged: string[]) {
  const stopped = new AbortController()
  const posting = (async () => {
    while (!stopped.signal.aborted) {
      posts += 1
      const site = sites[posts % siteCount] as Site
      const request_id = crypto.randomUUID()
      while (!(await postOnce(site, request_id))) await pause(betweenPostsMs)
      acknowledged.push(request_id)
      await pause(betweenPostsMs)
    }
  })()
  return async () => {
    stopped.abort()
    await posting
  }
}

const visitorOf = (requestId: string) => `${requestId}@example.com`

let addresses = 0
async function postOnce(site: Site, request_id: string): Promise<boolean> {
  addresses += 1
  const headers = { origin: `http://${site.host}`, 'x-forwarded-for': `10.0.${addresses >> 8}.${addresses & 255}` }
  const json = { email: visitorOf(request_id), _request_id: request_id }
  const { status } = await platform.call(`POST /f/${site.id}`, { json, headers }).catch(() => ({ status: 0 }))
  statuses.set(status, (statuses.get(status) ?? 0) + 1)
  return status === 200
}

interface Submission {
  readonly id: string
  readonly site_id: string
  readonly request_id: string
}

async function storedSubmissions(): Promise<Submission[]> {
  const found: Submission[] = []
  for (;;) {
    const path = `GET /api/v1/forms/submissions?limit=200&offset=${found.length}`
    const { items, total } = await ok(platform.call(path, { key: owner.key }))
    found.push(...items)
    if (found.length >= total) return found
  }
}

/** What the mail server took: the visitors' replies, and how often each submission to a notified site is in an email to the owner. */
function mailed(stored: readonly Submission[]) {
  const notified = new Set(sites.slice(0, notifiedCount).map(({ id }) => id))
  const distinct = [...new Map(mails.received.map((mail) => [mail.messageId, mail])).values()]
  const toOwner = distinct.filter(({ envelope }) => envelope.to[0] === 'owner@example.com').map(({ text = '' }) => text)
  const repliesTo = new Set(distinct.map(({ envelope }) => envelope.to[0]))
  const mentions = stored
    .filter(({ site_id }) => notified.has(site_id))
    .map(({ request_id }) => toOwner.filter((text) => text.includes(visitorOf(request_id))).length)
  return {
    unanswered: stored.filter(({ request_id }) => !repliesTo.has(visitorOf(request_id))).length,
    mentions: Object.fromEntries(Object.entries(Object.groupBy(mentions, String)).map(([times, all]) => [times, all?.length])),
    /** Handed over again after a kill between the server's answer and its note; a mail program shows them once. */
    repeated: mails.received.length - distinct.length,
    replies: distinct.length - toOwner.length,
  }
}

test('39: kill -9 of api, PostgreSQL and worker while forms are posted: nothing acknowledged is lost, nothing is stored or mailed twice', async () => {
  const acknowledged: string[] = []
  const running = Array.from({ length: visitors }, () => keepPosting(acknowledged))
  const restarts: string[] = []
  for (const name of kills) {
    const before = acknowledged.length
    await waitUntil('acknowledged posts', () => acknowledged.length >= before + 5 * visitors, { timeoutMs: 120_000 })
    restarts.push(`${name} ${await platform.restart(name, 'SIGKILL')} ms`)
  }
  await Promise.all(running.map((stop) => stop()))
  const stored = await storedSubmissions()
  const ids = stored.map(({ request_id }) => request_id)
  const lost = acknowledged.filter((id) => !ids.includes(id))
  const twice = ids.length - new Set(ids).size
  const missing = () => stored.filter(({ id }) => !delivered.includes(id))
  await waitUntil('the webhook', () => missing().length === 0, { timeoutMs: 180_000 }).catch(() => undefined)
  const isMailed = () => mailed(stored).unanswered === 0 && !('0' in mailed(stored).mentions)
  await waitUntil('the emails', isMailed, { timeoutMs: 180_000 }).catch(() => undefined)
  const { unanswered, mentions, repeated, replies } = mailed(stored)
  const repeats = delivered.length - new Set(delivered).size
  report(
    'forms',
    `${lost.length} of ${acknowledged.length} acknowledged posts lost, ${twice} stored twice, ${missing().length} webhook calls missing, ${repeats} repeated; ${unanswered} without a reply; how often the emails to the owner name a submission: ${JSON.stringify(mentions)}, ${repeated} emails repeated (${restarts.join(', ')})`,
    '0 lost, 0 twice, 0 missing',
  )
  expect([lost, twice, missing()]).toEqual([[], 0, []])
  expect([unanswered, replies, Object.keys(mentions)]).toEqual([0, stored.length, ['1']])
  const workerKills = kills.filter((name) => name === 'worker').length
  expect(repeated).toBeLessThanOrEqual(workerKills)
  // every visitor repeats a post until it is answered, so nothing else is stored
  expect(ids).toHaveLength(acknowledged.length)
  expect([...statuses.keys()].filter((status) => ![0, 200, 429, 503].includes(status))).toEqual([])
  const overview = await ok(platform.call('GET /api/v1/forms/overview', { key: owner.key }))
  expect([overview.used, overview.counters.verified]).toEqual([stored.length, stored.length])
  const ofSites = overview.sites.reduce((sum: number, { counters }: any) => sum + counters.verified, 0)
  expect(ofSites).toBe(stored.length)
})
