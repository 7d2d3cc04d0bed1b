import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { request as requestOverHttps } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject } from 'vitest'
import { caddyDir } from '../../infra/caddy/config.ts'
import { loadConfig } from '../../infra/config.ts'
import { openDatabase } from '../../infra/db/database.ts'
import { apiOnSocket } from '../../infra/local/api-client.ts'
import { caFile } from '../../infra/local/caddy-process.ts'
import { startStack } from '../../infra/local/stack.ts'
import { startTelegram, type Telegram } from '../doubles/telegram.ts'
import { startMailServer } from '../infra/mail-server.ts'
import { randomName } from '../make.ts'
import { platformPorts } from '../ports.ts'

export interface ClosedSite {
  /** Over http. */
  readonly url: string
  readonly httpsUrl: string
  /** Calls an operation of the site: `GET /members`. */
  call(endpoint: string, body?: unknown): Promise<any>
  /** Changes what closes the site. */
  access(endpoint: string, body?: unknown): Promise<any>
  /** Waits until the login page of the site has this text. */
  shows(text: string): Promise<void>
}

/** What `npm start` runs, with a mail server, and published sites that are closed. */
export interface ClosedSites extends AsyncDisposable {
  readonly mails: Awaited<ReturnType<typeof startMailServer>>
  readonly telegram: Telegram
  /** The address at which messengers reach the platform. */
  readonly base: string
  /** Calls an operation of the project: `GET /messenger-channels`. */
  call(endpoint: string, body?: unknown): Promise<any>
  /** A site that is open to everybody. */
  published(): Promise<ClosedSite>
  /** A site that is closed with the password. */
  closed(password?: string): Promise<ClosedSite>
  /** A site that lets in who gets a code at one of the addresses. */
  emailed(...emails: string[]): Promise<ClosedSite>
  /** Lets every address have its next code at once. */
  forgetRates(): Promise<void>
  /** The code of the latest email to the address. */
  codeFor(address: string): Promise<string>
  /** The certificate with which Caddy signs those of sites; verified with the one that users are told to trust. */
  authorityOfSites(): Promise<X509Certificate>
  /** The status of an address whose certificate is verified as its users would. */
  verifiedStatus(url: string): Promise<number>
}

export const html = (content: string) => `<!doctype html><html lang="en"><title>Drafts</title><main>${content}</main></html>`
const signOut = '<form method="post" action="/__svc/logout"><button>Sign out</button></form>'
const files = [
  { path: 'index.html', content: html('<h1>All drafts</h1>') },
  { path: 'spring/index.html', content: html(`<h1>The draft of spring</h1>${signOut}`) },
]

export async function openClosedSites(): Promise<ClosedSites> {
  await using opened = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'plinth-gate-'))
  // the user of PostgreSQL has to pass through
  await chmod(dir, 0o711)
  opened.defer(() => rm(dir, { recursive: true, force: true }))
  const mails = opened.use(await startMailServer())
  const telegram = opened.use(await startTelegram())
  const ports = await platformPorts()
  const { bwrap, toolchain } = inject('buildTools')
  const settings = loadConfig({
    PLINTH_DATA_DIR: join(dir, 'data'),
    ...ports.settings,
    PLINTH_SMTP_URL: mails.url,
    PLINTH_PAYMENTS_TEST: 'true',
    PLINTH_TELEGRAM_API: telegram.api,
    PLINTH_TELEGRAM_BOT_TOKEN: telegram.token,
    PLINTH_BUILD_BWRAP: bwrap,
    PLINTH_BUILD_TOOLCHAIN: toolchain,
    PLINTH_CACHE_DIR: loadConfig().cacheDir,
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
  })
  const { config } = opened.use(await startStack(settings, { report: () => undefined, signal: new AbortController().signal }))
  const operator = config.operatorToken ?? ''
  const owner = { name: 'p', owner_email: 'owner@example.com', plan: 'enterprise' }
  const { id } = await call('POST /operator/v1/projects', owner, operator)
  const { key } = await call(`POST /operator/v1/projects/${id}/keys`, { name: 'full', scope: 'full' }, operator)

  async function call(endpoint: string, body?: unknown, token: string = key): Promise<any> {
    const answer = await apiOnSocket(config.sockets.api)(endpoint, token, body)
    if (answer.status !== 200) throw new Error(`${endpoint}: ${answer.status} ${JSON.stringify(answer.body)}`)
    return answer.body
  }

  /** A published site. */
  async function makeSite(): Promise<ClosedSite> {
    const site = await call('POST /api/v1/sites', { name: 'Drafts', subdomain: randomName() })
    await call(`POST /api/v1/sites/${site.id}/deploy-files`, { files, activate: true })
    const { host, hostname } = new URL(site.url)
    const body = async () => {
      const outgoing = request({ host: '127.0.0.1', port: ports.http, path: '/', headers: { host, accept: 'text/html' } }).end()
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
      const chunks = await response.toArray()
      return Buffer.concat(chunks as Buffer[]).toString()
    }
    const shows = (text: string) => expect.poll(body, { timeout: 60_000 }).toContain(text)
    await shows('All drafts')
    return {
      url: site.url,
      httpsUrl: `https://${hostname}:${ports.https}`,
      shows,
      call: (endpoint, json) => call(endpoint.replace(' ', ` /api/v1/sites/${site.id}`), json),
      access: (endpoint, json) => call(endpoint.replace(' ', ` /api/v1/sites/${site.id}/access`), json),
    }
  }

  const stack = opened.move()
  return {
    mails,
    telegram,
    base: `http://127.0.0.1:${ports.http}`,
    call: (endpoint, json) => call(endpoint.replace(' ', ' /api/v1'), json),
    published: makeSite,
    async closed(password = 'kite-and-river') {
      const site = await makeSite()
      await site.access('PUT ', { password })
      await site.shows('type="password"')
      return site
    },
    async emailed(...emails) {
      const site = await makeSite()
      for (const email of emails) await site.access('POST /emails', { email })
      await site.access('POST /email-mode', {})
      await site.shows('type="email"')
      return site
    },
    async forgetRates() {
      await using opened = openDatabase(config.database.url ?? '')
      await opened.db.deleteFrom('access_rates').execute()
    },
    async codeFor(address) {
      const find = () => {
        const own = mails.received.filter(({ envelope }) => envelope.to.includes(address))
        return own.map(({ text }) => /: (\d{6})$/m.exec(text ?? '')?.[1]).findLast((code) => code !== undefined)
      }
      await expect.poll(find, { timeout: 60_000 }).toBeDefined()
      return find() ?? ''
    },
    async authorityOfSites() {
      const folder = join(caddyDir(config), 'pki', 'authorities', 'local')
      const authority = new X509Certificate(await readFile(join(folder, 'intermediate.crt')))
      const { publicKey } = new X509Certificate(await readFile(caFile(config)))
      if (!authority.verify(publicKey)) throw new Error('the intermediate certificate is not of the local authority')
      return authority
    },
    async verifiedStatus(url) {
      const { hostname, host, pathname } = new URL(url)
      const trusted = { servername: hostname, ca: await readFile(caFile(config)) }
      const address = { host: '127.0.0.1', port: ports.https, path: pathname, headers: { host } }
      const outgoing = requestOverHttps({ ...address, ...trusted, agent: false }).end()
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
      response.resume()
      return response.statusCode ?? 0
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}
