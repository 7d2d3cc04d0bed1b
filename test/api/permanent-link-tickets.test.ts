import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type AccessMode, accessModes } from '../../core/access.ts'
import { gatePaths } from '../../core/visits.ts'
import { createPermanentTokens, deployIdOf } from '../../infra/crypto/permanent-tokens.ts'
import { anybody, createVisits, type Visit } from '../../infra/crypto/visits.ts'
import { endVisits } from '../../services/access/visits.ts'
import { bumpRoutes } from '../../services/feeds/routes.ts'
import { transact } from '../../services/transact.ts'
import { deployFiles, page } from '../make.ts'
import { secretKey, type TestProject, type World, world } from '../world.ts'
import { type ClosedSite, makeClosedSite, password } from './closed-site.ts'
import { newAddress } from './form-site.ts'

// E34: the permanent links of a closed site are closed with it. A visitor logs in at the site, and a ticket takes the visit to the link.

let w: World
let owner: TestProject
let secondApi: string
beforeAll(async () => {
  w = await world({ edge: true })
  owner = await w.project('enterprise')
  secondApi = await w.openSecondApi()
})
afterAll(() => w?.[Symbol.asyncDispose]())

interface LinkedSite extends ClosedSite {
  /** The addresses of its two deploys, of which the second one is live. */
  readonly links: readonly [first: string, second: string]
}

async function linkedSite(mode: AccessMode = 'password'): Promise<LinkedSite> {
  const site = await makeClosedSite(w, owner, mode)
  await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json: { permanent_links: true } })
  const files = (name: string) => [page(name), { path: 'about.html', content: `about ${name}` }]
  const first = await deployFiles(w, owner, site.id, files('the first'))
  const second = await deployFiles(w, owner, site.id, files('the second'))
  for (const { permanent_url } of [first, second])
    await vi.waitUntil(async () => (await w.open(permanent_url)).status === 401, 10_000)
  return { ...site, links: [first.permanent_url, second.permanent_url] }
}

interface Shown {
  readonly status: number
  readonly url: string
  readonly body: string
  readonly headers: IncomingMessage['headers']
}

/** The token of a link. */
const labelOf = (link: string) => new URL(link).hostname.slice(0, 52)

const navigation = { 'sec-fetch-dest': 'document', 'sec-fetch-mode': 'navigate', accept: 'text/html' }

/** A browser: it keeps the cookies of each host, and follows redirects through edge and api as Caddy leads to them. */
function openBrowser(address = newAddress()) {
  const jar = new Map<string, Map<string, string>>()
  const visited: string[] = []

  async function ask(url: string, headers: Record<string, string> = navigation, base = w.base): Promise<Shown> {
    const { host, hostname, pathname, search } = new URL(url)
    visited.push(url)
    const cookie = [...(jar.get(hostname) ?? [])].map(([name, value]) => `${name}=${value}`).join('; ')
    const sent = { ...headers, ...(cookie !== '' && { cookie }) }
    if (!pathname.startsWith('/__svc/')) return { url, ...(await w.open(url, sent)) }
    const outgoing = request(base + pathname + search, { headers: { host, 'x-forwarded-for': address, ...sent } }).end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    keep(hostname, response.headers['set-cookie'])
    return { url, status: response.statusCode ?? 0, headers: response.headers, body: await text(response) }
  }

  function keep(hostname: string, set: readonly string[] = []): void {
    const own = jar.get(hostname) ?? new Map<string, string>()
    jar.set(hostname, own)
    for (const one of set) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(one) ?? []
      own.set(name, value)
    }
  }

  async function open(url: string, headers?: Record<string, string>): Promise<Shown> {
    const shown = await ask(url, headers)
    const { location } = shown.headers
    if (location === undefined) return shown
    if (visited.length > 30) throw new Error(`redirected for ever: ${visited.slice(-4).join(' ')}`)
    return await open(new URL(location, url).href, headers)
  }

  return {
    open,
    /** As {@link open}, without following redirects. */
    ask,
    visited,
    keep,
    cookies: (hostname: string) => [...(jar.get(hostname) ?? [])].map(([name]) => name),
    /** Follows the redirects from a link up to the address with its ticket, which is not opened. */
    async ticketFor(link: string): Promise<string> {
      const toSite = (await ask(link)).headers.location ?? ''
      return (await ask(toSite)).headers.location ?? ''
    },
  }
}
type Browser = ReturnType<typeof openBrowser>

const visits = createVisits(secretKey)
const day = 24 * 3_600_000

/** Gives a browser a visit at the site, as a login would. */
async function logIn(browser: Browser, site: ClosedSite, visit: Partial<Visit> = {}): Promise<void> {
  const { epoch } = await site.lock()
  const { hostname } = new URL(site.url)
  const whole = { subject: anybody, generation: 0, consent: 0, until: new Date(Date.now() + day), ...visit }
  browser.keep(hostname, [`svc_s=${visits.issue({ site_id: site.id, host: hostname, epoch }, whole)}`])
}

const bodyOf = async (browser: Browser, link: string) => {
  const { status, body } = await browser.open(link)
  return `${status} ${body}`
}

describe('E34: the permanent link of a closed site', () => {
  test('leads through the login of the site to the page that was asked for', async () => {
    const site = await linkedSite()
    const browser = openBrowser()
    const asked = await browser.open(`${site.links[0]}about?a=1&b=2`)
    expect([asked.status, new URL(asked.url).origin]).toEqual([401, site.url])
    expect(asked.body).not.toContain('about the first')
    const to = /name="to" value="([^"]*)"/.exec(asked.body)?.[1]?.replaceAll('&amp;', '&') ?? ''
    const entered = await site.post(gatePaths.password, { password, to })
    browser.keep(new URL(site.url).hostname, entered.headers['set-cookie'])
    // a redirect would be one of the form, which its page allows to the site alone
    expect([entered.status, entered.headers.location]).toEqual([200, undefined])
    const next = /^0; url=(\/__svc\/ticket\?.*)$/.exec(String(entered.headers['refresh']))?.[1] ?? ''
    const shown = await browser.open(new URL(next, site.url).href)
    expect([shown.status, shown.url, shown.body]).toEqual([200, `${site.links[0]}about?a=1&b=2`, 'about the first'])
    expect(browser.cookies(new URL(site.links[0]).hostname)).toEqual(['svc_s'])
    // the other deploy needs a ticket of its own, and no login
    expect(await bodyOf(browser, `${site.links[1]}about`)).toBe('200 about the second')
    expect((await site.lock()).opens_count).toBe(1)
  })

  test.each(accessModes)('opens with a visit of the mode %s, and counts no open', async (mode) => {
    const site = await linkedSite(mode)
    const browser = openBrowser()
    await logIn(browser, site)
    expect(await bodyOf(browser, `${site.links[0]}about`)).toBe('200 about the first')
    expect((await site.lock()).opens_count).toBe(0)
  })

  test('answers what it grants for this visitor alone, and what it refuses to nobody', async () => {
    const site = await linkedSite()
    const browser = openBrowser()
    await logIn(browser, site)
    const granted = await browser.open(`${site.links[0]}about`)
    expect(granted.headers).toMatchObject({
      'cache-control': 'private, no-store',
      vary: expect.stringContaining('Cookie, X-Plinth-Bypass'),
      'x-robots-tag': 'noindex',
      'cross-origin-resource-policy': 'same-origin',
    })
    for (const headers of [navigation, { accept: '*/*' }]) {
      const refused = await openBrowser().ask(`${site.links[0]}about`, headers)
      expect([refused.status, refused.headers['cache-control']]).toEqual([expect.toBeOneOf([303, 401]), 'private, no-store'])
      expect(refused.headers.etag).toBeUndefined()
    }
  })

  test('answers programs 401, and opens with the bypass token in both of its forms', async () => {
    const site = await linkedSite()
    const { token: bypass } = (await w.call(`POST /api/v1/sites/${site.id}/access/bypass`, { key: owner.key })).body
    const { hostname, host } = new URL(site.links[0])
    const shared = `${w.config.urls.preview}/${hostname.slice(0, 52)}/about`
    for (const address of [`${site.links[0]}about`, shared]) {
      expect((await w.open(address, { accept: '*/*' })).status).toBe(401)
      await expect.poll(async () => (await w.open(address, { 'x-plinth-bypass': bypass })).body).toBe('about the first')
      expect((await w.open(address, { 'x-plinth-bypass': `${bypass}x` })).status).toBe(401)
    }
    expect((await w.open(shared, navigation)).headers.location).toBe(`http://${host}/about`)
  })

  test('is not closed by previews_closed, which preview links are', async () => {
    const site = await linkedSite()
    const shown = await deployFiles(w, owner, site.id, [page('the third')], false)
    const preview = (await w.call(`POST /api/v1/deploys/${shown.id}/preview`, { key: owner.key })).body.url
    await expect.poll(async () => (await w.open(preview)).status).toBe(200)
    await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json: { previews_closed: true } })
    await expect.poll(async () => (await w.open(preview)).status).toBe(404)
    const browser = openBrowser()
    await logIn(browser, site)
    expect(await bodyOf(browser, `${site.links[0]}about`)).toBe('200 about the first')
  })

  test('opens for everybody once the site is open, also for those who are on their way', async () => {
    const site = await linkedSite()
    const browser = openBrowser()
    const toSite = (await browser.ask(`${site.links[0]}about`)).headers.location ?? ''
    await w.call(`DELETE /api/v1/sites/${site.id}/access`, { key: owner.key })
    await expect.poll(async () => (await w.open(site.links[0])).status).toBe(200)
    expect(await bodyOf(browser, toSite)).toBe('200 about the first')
  })

  test('has no other path of the platform than that of tickets', async () => {
    const site = await linkedSite()
    const { origin } = new URL(site.links[0])
    const browser = openBrowser()
    for (const path of ['/__svc/', gatePaths.password, gatePaths.logout, gatePaths.renew, gatePaths.pay, '/__svc/x']) {
      expect([path, (await browser.ask(origin + path)).status]).toEqual([path, expect.toBeOneOf([303, 404])])
      const asked = await browser.ask(origin + path)
      if (asked.status === 303) expect(asked.headers.location).toBe('/')
    }
    expect((await w.open(`${origin}${gatePaths.brand}logo.webp`, navigation)).status).toBe(404)
  })
})

describe('E34: a ticket', () => {
  /** A browser with a visit, the address with a ticket that it was sent to, and another browser. */
  async function withTicket(mode: AccessMode = 'password') {
    const site = await linkedSite(mode)
    const browser = openBrowser()
    await logIn(browser, site)
    return { site, browser, ticket: await browser.ticketFor(`${site.links[0]}about`), thief: openBrowser() }
  }
  const refused = async (browser: Browser, ticket: string) => {
    const answer = await browser.ask(ticket)
    expect([answer.status, answer.headers['set-cookie'], answer.headers.location]).toEqual([403, undefined, undefined])
    return answer
  }

  test('lets in once', async () => {
    const { site, browser, ticket, thief } = await withTicket()
    expect(new URL(ticket).origin).toBe(new URL(site.links[0]).origin)
    expect(await bodyOf(browser, ticket)).toBe('200 about the first')
    const answer = await refused(thief, ticket)
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(answer.body).toContain('href="/about"')
    expect((await thief.ask(`${site.links[0]}about`)).status).toBe(303)
  })

  test('lets one of two in who redeem it at the same time at two apis', async () => {
    const { ticket, browser, thief } = await withTicket()
    const answers = await Promise.all(
      [browser, thief].flatMap((one) => [one.ask(ticket), one.ask(ticket, navigation, secondApi)]),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual([303, 403, 403, 403])
  })

  test('of one deploy is refused at the link of another one, and stays good for its own', async () => {
    const { site, browser, ticket, thief } = await withTicket()
    await refused(thief, ticket.replace(new URL(site.links[0]).host, new URL(site.links[1]).host))
    expect(await bodyOf(browser, ticket)).toBe('200 about the first')
  })

  test('is refused at another name of the same deploy', async () => {
    const { site, ticket, thief } = await withTicket()
    const label = labelOf(site.links[0])
    const deployId = deployIdOf(label) ?? ''
    await refused(thief, ticket.replace(label, createPermanentTokens(secretKey)(deployId, 9)))
    await refused(thief, ticket.replace(label, 'a'.repeat(52)))
  })

  test('is refused after a minute, and the page leads to a new one', async () => {
    const { site, browser, ticket } = await withTicket()
    const age = (seconds: number) =>
      w.db
        .updateTable('access_tickets')
        .set({ created_at: new Date(Date.now() - seconds * 1000) })
        .where('site_id', '=', site.id)
        .execute()
    await age(61)
    const { body } = await refused(browser, ticket)
    const again = /href="([^"]*)"/.exec(body)?.[1] ?? ''
    expect(await bodyOf(browser, new URL(again, ticket).href)).toBe('200 about the first')
    const later = await browser.ticketFor(site.links[1])
    // the visit of the first link is no visit of the second
    await age(50)
    expect(await bodyOf(browser, later)).toContain('the second')
  })

  test.each(['', 'x', 'A'.repeat(43), `${'A'.repeat(43)}&ticket=${'A'.repeat(43)}`, '%00', "' or true --"])(
    'that nobody issued is refused: %j',
    async (wrong) => {
      const site = await linkedSite()
      await refused(openBrowser(), `${new URL(site.links[0]).origin}${gatePaths.ticket}?ticket=${wrong}&to=/`)
    },
  )

  test.each(['image', 'iframe', 'script', 'empty', 'object'])(
    'is neither issued nor redeemed for a page that embeds it as %s',
    async (dest) => {
      const { site, browser, ticket } = await withTicket()
      const embedded = { ...navigation, 'sec-fetch-dest': dest }
      const toSite = (await browser.ask(site.links[1])).headers.location ?? ''
      const asked = await browser.ask(toSite, embedded)
      expect([asked.status, asked.headers.location]).toEqual([404, undefined])
      expect((await browser.ask(ticket, embedded)).status).toBe(404)
      expect(await bodyOf(browser, ticket)).toBe('200 about the first')
    },
  )

  test('is not used up by HEAD', async () => {
    const { browser, ticket } = await withTicket()
    const { host, pathname, search } = new URL(ticket)
    const outgoing = request(w.base + pathname + search, { method: 'HEAD', headers: { host } }).end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    expect([response.statusCode, response.headers['set-cookie']]).toEqual([404, undefined])
    expect(await bodyOf(browser, ticket)).toBe('200 about the first')
  })

  test('waits for its visitor with at most 20 others', async () => {
    const { site, browser, ticket } = await withTicket()
    for (let i = 0; i < 20; i++) expect(await browser.ticketFor(`${site.links[0]}about`)).toContain('ticket=')
    const { count } = await w.db
      .selectFrom('access_tickets')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('site_id', '=', site.id)
      .executeTakeFirstOrThrow()
    expect(count).toBe(20)
    await refused(browser, ticket)
    // a visitor from another network has an allowance of their own
    const other = openBrowser('198.51.100.77')
    await logIn(other, site)
    expect(await bodyOf(other, `${site.links[0]}about`)).toBe('200 about the first')
  })
})

describe('E34, E36: a visit at a permanent link', () => {
  async function inside(mode: AccessMode, visit: Partial<Visit> = {}) {
    const site = await linkedSite(mode)
    const browser = openBrowser()
    await logIn(browser, site, visit)
    expect(await bodyOf(browser, `${site.links[0]}about`)).toBe('200 about the first')
    const link = `${site.links[0]}about`
    const isOut = () => expect.poll(async () => (await browser.ask(link)).status, { timeout: 1000 }).toBe(303)
    return { site, browser, link, isOut }
  }

  test('ends within a second when its visitor is removed', async () => {
    const subject = crypto.randomUUID()
    const { site, browser, isOut } = await inside('email', { subject })
    // a ticket that was issued before is of no use
    const ticket = await browser.ticketFor(site.links[1])
    await transact(w, async (tx) => {
      await endVisits(tx, { site_id: site.id, modes: ['email'] }, [subject], new Date())
      await bumpRoutes(tx, { site_id: site.id })
    })
    await isOut()
    await browser.ask(ticket)
    expect((await browser.ask(site.links[1])).status).toBe(303)
    const shown = await browser.open(site.links[0])
    expect([shown.status, new URL(shown.url).origin]).toEqual([401, site.url])
  })

  test.each<[string, object]>([
    ['everybody is signed out', { epoch: crypto.randomUUID() }],
    ['the access ends', { expires_at: new Date(Date.now() - 1000) }],
  ])('ends within a second when %s', async (_what, change) => {
    const { site, browser, isOut } = await inside('password')
    const ticket = await browser.ticketFor(site.links[1])
    await site.change(change)
    await isOut()
    await browser.ask(ticket)
    expect((await browser.ask(site.links[1])).status).toBe(303)
    expect((await browser.open(site.links[0])).status).toBe(401)
  })

  test('ends when the visit at the site does', async () => {
    const until = new Date(Math.floor(Date.now() / 1000) * 1000 + 3_600_000)
    const site = await linkedSite()
    const browser = openBrowser()
    await logIn(browser, site, { until })
    const answer = await browser.ask(await browser.ticketFor(site.links[0]))
    const [cookie = ''] = answer.headers['set-cookie'] ?? []
    const { hostname } = new URL(site.links[0])
    const { epoch } = await site.lock()
    const value = /^svc_s=([^;]*)/.exec(cookie)?.[1] ?? ''
    expect(visits.read({ site_id: site.id, host: hostname, epoch }, value)?.until).toEqual(until)
    expect(visits.read({ site_id: site.id, host: new URL(site.url).hostname, epoch }, value)).toBeUndefined()
    expect(cookie).toMatch(/; Path=\/; Max-Age=3(5\d\d|600); HttpOnly; SameSite=Lax$/)
  })

  test.each([-1000, 20_000])(
    'that has ended, or will in seconds, is asked for at the login of the site: %s ms',
    async (leftMs) => {
      const site = await linkedSite()
      const browser = openBrowser()
      await logIn(browser, site, { until: new Date(Date.now() + leftMs) })
      const shown = await browser.open(site.links[0])
      expect([shown.status, new URL(shown.url).origin]).toEqual([401, site.url])
    },
  )

  test('of a subscriber is renewed at the site first', async () => {
    const site = await linkedSite('subscribers')
    const browser = openBrowser()
    await logIn(browser, site, { until: new Date(Date.now() - 1000) })
    const toSite = (await browser.ask(`${site.links[0]}about`)).headers.location ?? ''
    const { location = '' } = (await browser.ask(toSite)).headers
    const renewal = new URL(location, site.url)
    expect([renewal.pathname, renewal.searchParams.get('to')]).toEqual([gatePaths.renew, toSite.slice(site.url.length)])
  })

  test('of a member who has to consent again waits for the consent', async () => {
    const { site, browser, isOut } = await inside('members')
    const settings = { consent_mode: 'checkbox', consent_version: 1 } as const
    await w.db
      .insertInto('member_settings')
      .values({ site_id: site.id, project_id: owner.id, ...settings })
      .execute()
    await bumpRoutes(w.db, { site_id: site.id })
    await isOut()
    const shown = await browser.open(site.links[0])
    expect([shown.status, new URL(shown.url).origin]).toEqual([401, site.url])
    expect(shown.body).toContain(`action="${gatePaths.consent}"`)
    await logIn(browser, site, { consent: 1 })
    expect(await bodyOf(browser, `${site.links[0]}about`)).toBe('200 about the first')
  })
})

describe('E34: the way back', () => {
  let site: LinkedSite
  beforeAll(async () => {
    site = await linkedSite()
  })

  test.each([
    ['another host', '//evil.example/'],
    ['another host after a backslash', '/\\evil.example'],
    ['another host after a tab', '/\t/evil.example'],
    ['an address', 'https://evil.example/'],
    ['another host after a dot', '/.//evil.example'],
    ['a network path of Windows', '\\\\evil.example'],
    ['the rest of a name', '.evil.example'],
    ['what follows a user', '@evil.example'],
    ['a script', 'javascript:alert(1)'],
    ['an escaped line end', '/%0d%0aSet-Cookie:%20a=b'],
    ['a line end', '/\r\nSet-Cookie: a=b'],
    ['a long path', `/${'x'.repeat(5000)}`],
    ['a path of the platform', '/__svc/logout'],
    ['another ticket', `${gatePaths.ticket}?link=x&to=//evil.example`],
  ])('never leaves the site and its links: %s', async (_what, to) => {
    const [first, second] = site.links
    const origins = [site.url, new URL(first).origin, new URL(second).origin]
    const browser = openBrowser()
    const address = `${site.url}${gatePaths.ticket}?link=${labelOf(first)}&to=${encodeURIComponent(to)}`
    const { body } = await browser.ask(address)
    for (const [, named] of body.matchAll(/(?:href|action)="([^"]*)"/g)) expect(named).toMatch(/^(\/(?![/\\])|data:)/)
    await logIn(browser, site)
    const issued = (await browser.ask(address)).headers.location ?? ''
    expect(new URL(issued).origin).toBe(new URL(first).origin)
    await browser.open(issued)
    // at the host of a link, with a good ticket
    const ticket = new URL(await browser.ticketFor(second))
    ticket.searchParams.set('to', to)
    const redeemed = await browser.ask(ticket.href)
    expect([redeemed.status, new URL(redeemed.headers.location ?? '', ticket).origin]).toEqual([303, ticket.origin])
    expect(redeemed.headers['set-cookie']).toHaveLength(1)
    expect(browser.visited.filter((url) => !origins.includes(new URL(url).origin))).toEqual([])
  })

  test('leads only to permanent links of the same site', async () => {
    const other = await linkedSite()
    const tokens = createPermanentTokens(secretKey)
    const browser = openBrowser()
    await logIn(browser, site)
    const own = labelOf(site.links[0])
    const deployId = deployIdOf(own) ?? ''
    const wrong = ['', 'x', 'a'.repeat(52), labelOf(other.links[0]), tokens(deployId, 9), 'evil.example', `${own}.evil.example`]
    for (const link of [...wrong, `${own}&link=${own}`]) {
      const answer = await browser.ask(`${site.url}${gatePaths.ticket}?link=${link}&to=/`)
      expect([link, answer.status, answer.headers.location]).toEqual([link, 404, undefined])
    }
  })

  test('follows a redirect of the deploy after the ticket only, without taking it along', async () => {
    const rules = {
      path: '_redirects',
      content: '/away https://elsewhere.example/ 302\n/__svc/* https://elsewhere.example/:splat 302!',
    }
    const { permanent_url } = await deployFiles(w, owner, site.id, [page('with rules'), rules])
    await expect.poll(async () => (await w.open(permanent_url)).status).toBe(401)
    const browser = openBrowser()
    expect(new URL((await browser.ask(`${permanent_url}away`)).headers.location ?? '').origin).toBe(site.url)
    await logIn(browser, site)
    const ticket = await browser.ticketFor(`${permanent_url}away`)
    const redeemed = await browser.ask(ticket)
    expect(redeemed.headers.location).toBe('/away')
    expect((await browser.ask(`${permanent_url}away`)).headers.location).toBe('https://elsewhere.example/')
  })
})
