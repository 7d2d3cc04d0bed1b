import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite, newAddress } from './form-site.ts'

// Check 80: only pages of the site post to it. The site is at its subdomain, at a domain, at a wildcard and at a name of other scripts.

let w: World
let owner: TestProject
let site: FormSite
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
  site = await makeFormSite(w, owner)
  await addDomain(site, `${site.subdomain}.example.com`, true)
  await addDomain(site, `shop.${site.subdomain}.example.org`, true)
  const wildcard = { domain: `*.${site.subdomain}.example.org` }
  await w.db.updateTable('domains').set(wildcard).where('domain', '=', `shop.${site.subdomain}.example.org`).execute()
  await addDomain(site, `${site.subdomain}.bücher.example`, true)
  await addDomain(site, `${site.subdomain}.example.net`, false)
})
afterAll(() => w?.[Symbol.asyncDispose]())

async function addDomain({ id }: FormSite, domain: string, verified: boolean): Promise<void> {
  const { status, body } = await w.call(`POST /api/v1/sites/${id}/domains`, { key: owner.key, json: { domain } })
  expect([status, body]).toEqual([200, expect.anything()])
  if (verified) await w.db.updateTable('domains').set({ verified_at: new Date() }).where('id', '=', body.id).execute()
}

/** Whether the post was taken, or why not. The clock moves, so that no rate decides. */
async function answerTo(origin: string): Promise<string> {
  w.advance(3000)
  const { status, headers, body } = await site.post({}, { origin })
  expect(headers.get('access-control-allow-origin')).toBe(status === 200 ? origin : null)
  return status === 200 ? 'ok' : `${status} ${body.reason}`
}

/** `SITE` stands for the subdomain of the site. */
test.each([
  'http://SITE.plinth.localhost:8080',
  'https://SITE.plinth.localhost:8443',
  'https://SITE.example.com',
  'http://SITE.example.com',
  'http://SITE.example.com:8080',
  'https://shop.SITE.example.org',
  'https://SITE.xn--bcher-kva.example',
])('80 F03: %s is of the site', async (origin) => {
  expect(await answerTo(origin.replace('SITE', site.subdomain))).toBe('ok')
})

test.each([
  ['null', 'null'],
  ['several', 'https://SITE.example.com, https://SITE.example.com'],
  ['several, apart by a space', 'https://SITE.example.com https://SITE.example.com'],
  ['another scheme', 'ftp://SITE.example.com'],
  ['a scheme of another kind', 'chrome-extension://SITE.example.com'],
  ['no scheme', 'SITE.example.com'],
  ['a scheme only', 'https://'],
  ['another port', 'http://SITE.plinth.localhost:8081'],
  ['the usual port', 'http://SITE.plinth.localhost'],
  ['a port that is the scheme’s own', 'https://SITE.example.com:443'],
  ['a port with zeros', 'http://SITE.plinth.localhost:08080'],
  ['a custom domain at another port', 'https://SITE.example.com:4430'],
  ['https at the port of http', 'https://SITE.plinth.localhost:8080'],
  ['upper case', 'https://SITE.EXAMPLE.COM'],
  ['upper case of the scheme', 'HTTPS://SITE.example.com'],
  ['a dot at the end', 'https://SITE.example.com.'],
  ['a dot at the end and a port', 'http://SITE.plinth.localhost.:8080'],
  ['a path', 'https://SITE.example.com/'],
  ['a query', 'https://SITE.example.com?x'],
  ['a fragment', 'https://SITE.example.com#'],
  ['a backslash', 'https://SITE.example.com\\'],
  ['user information', 'https://x@SITE.example.com'],
  ['the site as user information', 'https://SITE.example.com@evil.example'],
  ['the site as user and password', 'http://SITE.plinth.localhost:8080@evil.example'],
  ['the site at the beginning', 'https://SITE.example.com.evil.example'],
  ['the subdomain at the beginning', 'http://SITE.plinth.localhost.evil.example:8080'],
  ['the site at the end', 'https://evil-SITE.example.com'],
  ['the site below', 'https://www.SITE.example.com'],
  ['a label below the subdomain', 'http://www.SITE.plinth.localhost:8080'],
  ['the platform', 'http://localhost:8080'],
  ['the domain of subdomains', 'http://plinth.localhost:8080'],
  ['the domain above', 'https://example.com'],
  ['a domain that is not verified', 'https://SITE.example.net'],
  ['the apex of a wildcard', 'https://SITE.example.org'],
  ['two labels below a wildcard', 'https://a.b.SITE.example.org'],
  ['the wildcard itself', 'https://*.SITE.example.org'],
  ['a host that ends like a wildcard', 'https://evil-SITE.example.org'],
  ['other scripts, not in punycode', 'https://SITE.b\u00fccher.example'],
  ['a letter that looks like another', 'https://SITE.ex\u00e4mple.com'],
  ['a soft hyphen', 'https://SITE.exam\u00adple.com'],
  ['percent sequences', 'https://SITE%2eexample.com'],
  ['an IPv4 address', 'http://127.0.0.1:8080'],
  ['an IPv6 address', 'http://[::1]:8080'],
  ['an address as one number', 'http://2130706433:8080'],
  ['a file', 'file://'],
  ['data', 'data:text/html,x'],
  ['5,000 characters', `https://SITE.example.com${'a'.repeat(5000)}`],
])('80 F03: an Origin with %s is refused', async (_what, origin) => {
  expect(await answerTo(origin.replaceAll('SITE', site.subdomain))).toBe('403 origin_not_allowed')
})

/** The status line and the reason of a post whose headers are sent as they are. */
async function sendRaw(origins: readonly string[]): Promise<string> {
  const { hostname, port } = new URL(w.base)
  const socket = connect(Number(port), hostname)
  const lines = [`x-forwarded-for: ${newAddress()}`, ...origins, 'content-type: application/json', 'content-length: 2']
  socket.write(`POST /f/${site.id} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${lines.join('\r\n')}\r\n\r\n{}`)
  const answer = await text(socket)
  return `${answer.split(' ')[1]} ${/"reason":"(\w+)"/.exec(answer)?.[1]}`
}

test('80: several Origin headers are refused, and an empty one is none', async () => {
  const own = `Origin: https://${site.subdomain}.example.com`
  expect(await sendRaw([own])).toBe('200 undefined')
  expect(await sendRaw([own, own])).toBe('403 origin_not_allowed')
  expect(await sendRaw(['Origin: https://evil.example', own])).toBe('403 origin_not_allowed')
  expect(await sendRaw(['Origin:'])).toBe('403 origin_required')
  expect(await sendRaw(['Origin:  \t '])).toBe('403 origin_required')
  expect(await sendRaw(['Referer: https://evil.example/'])).toBe('403 origin_required')
})

test('F04 80: a domain that was removed, or is of another site of the project, is refused', async () => {
  const other = await makeFormSite(w, owner)
  const domain = `${other.subdomain}.example.com`
  await addDomain(other, domain, true)
  expect(await answerTo(`https://${domain}`)).toBe('403 origin_not_allowed')
  expect((await other.post({}, { origin: `https://${domain}` })).status).toBe(200)
  const { id } = await w.db.selectFrom('domains').select('id').where('domain', '=', domain).executeTakeFirstOrThrow()
  await w.call(`DELETE /api/v1/domains/${id}?confirm=true`, { key: owner.key })
  expect((await other.post({}, { origin: `https://${domain}` })).body.reason).toBe('origin_not_allowed')
})
