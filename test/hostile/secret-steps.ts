import { expect } from 'vitest'
import { waitUntil } from '../../infra/local/wait.ts'
import type { GitServer } from '../infra/git-server.ts'
import type { startMailServer } from '../infra/mail-server.ts'
import type { Canaries } from './canaries.ts'
import { type Answer, ok, type Platform, type Project, type Sent, type Site } from './platform.ts'

/** What visitors send, behind a proxy that is trusted. */
export const visitorAddress = '198.51.100.177'
/** Of a connection without a proxy. */
export const connectionAddress = '127.100.200.177'
export const visitorHeaders = { 'x-forwarded-for': visitorAddress, accept: 'text/html' }

// The steps of the search for secrets: each uses some of them, rightly and wrongly, and notes them as canaries.

/** What each step needs. */
export interface Uses {
  readonly platform: Platform
  readonly canaries: Canaries
  readonly mails: Awaited<ReturnType<typeof startMailServer>>
  readonly vault: GitServer
  readonly owner: Project
  /** One request, whose answer is remembered when it is a refusal. */
  readonly call: Platform['call']
  /** A request of the owner, which has to succeed. */
  readonly own: (endpoint: string, json?: unknown, sent?: Sent) => Promise<any>
  /** A request of a visitor to a site. */
  readonly visit: (endpoint: string, site: Pick<Site, 'host'>, sent?: Sent) => Promise<Answer>
  /** Sends a form of a login page. */
  readonly post: (path: string, site: Site, fields: Readonly<Record<string, string>>, cookie?: string) => Promise<Answer>
}

const message = 'canary-message-91c4 of a visitor'

/** A published site. */
export async function publishedSite({ own, owner, platform }: Uses, name: string): Promise<Site> {
  const { id, url } = await own('POST /api/v1/sites', { name, subdomain: `canary-${name}` })
  const files = [{ path: 'index.html', content: '<!doctype html><title>inside</title>inside' }]
  const deploy = await own(`POST /api/v1/sites/${id}/deploy-files`, { files })
  await platform.reaches(owner, deploy.id)
  return { id, host: new URL(url).host, key: owner.key }
}

const cookieOf = ({ headers }: Answer) => headers['set-cookie']?.[0]?.split(';', 1)[0] ?? ''

/** Waits until the edge answers the site with the status. */
const shows = ({ visit }: Uses, site: Site, status: number, sent: Sent = {}) =>
  waitUntil(`status ${status} of ${site.host}`, async () => (await visit('GET /', site, sent)).status === status, {
    timeoutMs: 20_000,
  })

/** The latest email to the address. */
async function emailTo({ mails }: Uses, address: string) {
  const find = () => mails.received.findLast(({ envelope }) => envelope.to.includes(address))
  await waitUntil(`an email to ${address}`, () => find() !== undefined, { timeoutMs: 60_000 })
  return find()?.text ?? ''
}

export interface ClosedSite extends Site {
  readonly cookie: string
  readonly bypass: string
}

/** A site with a password, a visit of it, and a token for programs. */
export async function usePassword(uses: Uses): Promise<ClosedSite> {
  const { own, canaries, post, visit } = uses
  const site = await publishedSite(uses, 'password')
  const access = `/api/v1/sites/${site.id}/access`
  const generated = canaries.add('credential', 'generated password', (await own(`PUT ${access}`, { level: 'strong' })).password)
  await shows(uses, site, 401)
  const first = cookieOf(await post('/__svc/login', site, { password: generated, to: '/' }))
  canaries.add('credential', 'visit with the generated password', first.slice('svc_s='.length))
  const password = canaries.add('credential', 'chosen password', 'canary "pässword" \\ 5d/41?f0+e1')
  await own(`PUT ${access}`, { password })
  expect((await own(`GET ${access}/password`)).password).toBe(password)
  await shows(uses, site, 401, { headers: { cookie: first } })
  const wrong = canaries.add('credential', 'wrong password', 'canary-wrong-pässword 5d41')
  expect((await post('/__svc/login', site, { password: wrong, to: '/' }, first)).status).toBe(401)
  const answer = await post('/__svc/login', site, { password, to: '/' })
  expect(answer.status).toBe(303)
  const cookie = cookieOf(answer)
  canaries.add('credential', 'visit with the chosen password', cookie.slice('svc_s='.length))
  await shows(uses, site, 200, { headers: { cookie } })
  const bypass = canaries.add('credential', 'bypass token', (await own(`POST ${access}/bypass`)).token)
  await shows(uses, site, 200, { headers: { 'x-plinth-bypass': bypass } })
  await visit('GET /', site, { headers: { 'x-plinth-bypass': `${bypass}x` } })
  await post('/__svc/logout', site, {}, cookie)
  return { ...site, cookie, bypass }
}

/** A site that emails codes: to a listed address, one that is not, and one that the mail server refuses. */
export async function useCodes(uses: Uses): Promise<Site> {
  const { own, call, canaries, post, mails } = uses
  const site = await publishedSite(uses, 'codes')
  const access = `/api/v1/sites/${site.id}/access`
  const address = (name: string) => canaries.add('visitor', `address of ${name}`, `${name}.canary@example.com`)
  const [ada, refused, mallory] = [address('ada'), address('refused'), address('mallory')]
  for (const email of [ada, refused]) await own(`POST ${access}/emails`, { email })
  expect((await call(`POST ${access}/emails`, { key: site.key, json: { email: ada.toUpperCase() } })).status).toBe(409)
  await own(`POST ${access}/email-mode`, {})
  await shows(uses, site, 401)
  const ask = (email: string) => post('/__svc/login/email', site, { email, to: '/' })
  mails.state.moods.set(refused, 'refuses').set(ada, 'puts off')
  for (const email of [refused, mallory]) expect((await ask(email)).status).toBe(401)
  const page = await ask(ada)
  const challenge = /name="challenge" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
  // too soon
  expect((await ask(ada)).status).toBe(429)
  await waitUntil('a try to send the code', () => mails.state.putOff.includes(ada), { timeoutMs: 20_000 })
  mails.state.moods.delete(ada)
  const code = canaries.add('code', 'emailed code', /\b\d{6}\b/.exec(await emailTo(uses, ada))?.[0] ?? '')
  const enter = (given: string) => post('/__svc/login/code', site, { email: ada, challenge, code: given, to: '/' })
  const wrong = canaries.add(
    'code',
    'wrong code',
    code.replace(/./, (digit) => String((Number(digit) + 5) % 10)),
  )
  expect((await enter(wrong)).status).toBe(401)
  const answer = await enter(code)
  expect(answer.status).toBe(303)
  const cookie = cookieOf(answer)
  canaries.add('credential', 'visit with the code', cookie.slice('svc_s='.length))
  await shows(uses, site, 200, { headers: { cookie } })
  // used
  expect((await enter(code)).status).toBe(401)
  const { items } = await own(`GET ${access}/emails`)
  await own(`DELETE ${access}/emails/${items.find(({ email }: { email: string }) => email === ada).id}`)
  await shows(uses, site, 401, { headers: { cookie } })
  return site
}

export interface Delivered extends Site {
  /** The path of the link. */
  readonly link: string
  /** The path of a large file. */
  readonly file: string
}

/** A site whose form is answered with a link to a large file. */
export async function useForm(uses: Uses): Promise<Delivered> {
  const { own, canaries, visit, call, mails } = uses
  const site = await publishedSite(uses, 'form')
  const autoreply = `/api/v1/sites/${site.id}/autoreply`
  await own(`PUT ${autoreply}`, { enabled: true, subject: 'Thank you', body: 'We have **your message**.' })
  const bytes = Buffer.concat([Buffer.from('%PDF-1.7\n'), Buffer.alloc(32 * 1024 * 1024, 'plinth')])
  await own(`POST ${autoreply}/files?name=guide.pdf&label=Guide`, undefined, { bytes })
  await own(`PATCH /api/v1/sites/${site.id}/form`, { notify_email: true })
  const email = canaries.add('visitor', 'address in a form', 'grace.canary@example.com')
  canaries.add('visitor', 'message in a form', message)
  const fields = { email, message, name: 'Grace' }
  const origin = `http://${site.host}`
  mails.state.moods.set(email, 'puts off')
  await ok(call(`POST /f/${site.id}`, { json: fields, headers: { ...visitorHeaders, origin } }))
  for (const sent of [
    { json: fields, headers: { ...visitorHeaders, origin: 'http://elsewhere.example' } },
    { json: [fields], headers: { ...visitorHeaders, origin } },
    { bytes: `{"message":"${message}`, headers: { ...visitorHeaders, origin } },
  ]) {
    expect((await call(`POST /f/${site.id}`, sent)).status).toBeGreaterThanOrEqual(400)
  }
  await waitUntil('a try to send the reply', () => mails.state.putOff.includes(email), { timeoutMs: 20_000 })
  mails.state.moods.delete(email)
  const link = /\/__svc\/d\/[\w.-]+/.exec(await emailTo(uses, email))?.[0] ?? ''
  canaries.add('link', 'link to files', link.slice('/__svc/d/'.length))
  const page = await visit(`GET ${link}`, site)
  expect(page.status).toBe(200)
  const file = /href="(\/__svc\/d\/[^"]+)"/.exec(page.body)?.[1] ?? ''
  expect(file.startsWith(link)).toBe(true)
  await visit(`GET ${link}x`, site)
  return { ...site, link, file }
}

export interface Previewed {
  /** Hosts that are secrets. */
  readonly hosts: readonly string[]
}

/** The links to one deploy that is not live. */
export async function usePreviews(uses: Uses): Promise<Previewed> {
  const { own, owner, canaries, visit, platform } = uses
  const site = await publishedSite(uses, 'preview')
  await own(`PATCH /api/v1/sites/${site.id}`, { permanent_links: true })
  const files = [{ path: 'index.html', content: '<!doctype html><title>draft</title>draft' }]
  const { id } = await own(`POST /api/v1/sites/${site.id}/deploy-files`, { files, activate: false })
  const { permanent_url } = await platform.reaches(owner, id)
  const preview = await own(`POST /api/v1/deploys/${id}/preview`)
  canaries.add('credential', 'preview link', preview.token)
  const { host, pathname } = new URL(preview.url)
  const hosts = [`${preview.token}.${host}`, new URL(permanent_url).host]
  canaries.add('credential', 'permanent link', hosts[1]?.split('.', 1)[0] ?? '')
  await visit(`GET ${pathname}`, { host })
  for (const host of hosts) {
    const shown = async () => (await visit('GET /', { host })).body.includes('draft')
    await waitUntil('the preview', shown, { timeoutMs: 20_000 })
    await visit('GET /nothing', { host })
  }
  return { hosts }
}

/** Sends secrets as callers do by mistake: in the wrong place, cut off, with the wrong method. */
export async function useWrongPlaces(uses: Uses, { host, link }: Delivered): Promise<void> {
  const { call, visit, owner, platform } = uses
  await call(`GET /api/v1/whoami?key=${owner.key}`)
  await call(`GET /api/v1/sites/${owner.key}`, { key: owner.key })
  await call('POST /mcp', { key: owner.key, json: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'whoami' } } })
  await call('GET /operator/v1/projects', { key: `${platform.operatorToken}x` })
  await call(`GET ${link}`)
  await visit(`GET ${link.toUpperCase()}`, { host })
  await visit(`GET /${link}`, { host })
  await visit(`POST ${link}`, { host })
}
