import { once } from 'node:events'
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import type { Updateable } from 'kysely'
import type { AccessMode } from '../../core/access.ts'
import { seal } from '../../infra/crypto/seal.ts'
import { createVisits } from '../../infra/crypto/visits.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../../services/feeds/routes.ts'
import { makeSite } from '../make.ts'
import { secretKey, type TestProject, type World } from '../world.ts'
import { newAddress } from './form-site.ts'

export interface LoginAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** `name=value` of the cookie that was set. */
  readonly cookie: string | undefined
}

export interface LoginOptions {
  /** The host of the site when absent. */
  readonly host?: string
  /** Those of the page at the host when absent; `null` sends none. */
  readonly origin?: string | null
  /** Another one for each post when absent. */
  readonly address?: string
  readonly headers?: Record<string, string>
  readonly base?: string
}

/** A site that visitors have to log in to. */
export interface ClosedSite {
  readonly id: string
  readonly project_id: string
  readonly subdomain: string
  readonly host: string
  readonly url: string
  post(path: string, fields: Record<string, string> | string, options?: LoginOptions): Promise<LoginAnswer>
  /** Changes the lock as an operation does. */
  change(values: Updateable<DB['access_locks']>): Promise<void>
  lock(): Promise<{ epoch: string; opens_count: number }>
}

export const password = 'open, sesame'
export const sealedPassword = (w: World, id: string, text = password) =>
  seal(w.keyring, text, { table: 'access_locks', id, column: 'sealed_password' })

export async function makeClosedSite(w: World, project: TestProject, mode: AccessMode = 'password'): Promise<ClosedSite> {
  const site = await makeSite(w, project)
  const { host } = new URL(site.url)
  const { id } = site
  const at = { site_id: id, project_id: project.id, updated_at: new Date() }
  const sealed_password = mode === 'password' ? sealedPassword(w, id) : null
  await w.db
    .insertInto('access_locks')
    .values({ ...at, mode, sealed_password })
    .execute()
  await bumpRoutes(w.db, { site_id: id })
  return {
    id,
    project_id: project.id,
    subdomain: site.subdomain,
    host,
    url: site.url,
    post: (path, fields, options) => post(w, path, fields, { host, ...options }),
    async change(values) {
      await w.db.updateTable('access_locks').set(values).where('site_id', '=', id).execute()
      await bumpRoutes(w.db, { site_id: id })
    },
    lock: () =>
      w.db.selectFrom('access_locks').select(['epoch', 'opens_count']).where('site_id', '=', id).executeTakeFirstOrThrow(),
  }
}

/** Sends a form as browsers and others do. */
export async function post(
  w: World,
  path: string,
  fields: Record<string, string> | string,
  { host = '', origin, address = newAddress(), headers, base = w.base }: LoginOptions,
): Promise<LoginAnswer> {
  const scheme = headers?.['x-forwarded-proto'] ?? new URL(w.config.urls.base).protocol.slice(0, -1)
  const from = origin === undefined ? `${scheme}://${host}` : origin
  const outgoing = request(base + path, {
    method: 'POST',
    headers: {
      host,
      'content-type': 'application/x-www-form-urlencoded',
      'x-forwarded-for': address,
      ...(from === null ? {} : { origin: from }),
      ...headers,
    },
  }).end(typeof fields === 'string' ? fields : new URLSearchParams(fields).toString())
  return await loginAnswerTo(outgoing)
}

/** What is answered to a request that has been sent. */
export async function loginAnswerTo(outgoing: ClientRequest): Promise<LoginAnswer> {
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  const [set] = response.headers['set-cookie'] ?? []
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: await text(response),
    cookie: set?.split(';', 1)[0],
  }
}

const visits = createVisits(secretKey)

/** What the cookie of an answer grants at the site. */
export async function visitOf(site: ClosedSite, { cookie }: LoginAnswer, host = new URL(site.url).hostname) {
  const { epoch } = await site.lock()
  return visits.read({ site_id: site.id, host, epoch }, cookie?.slice(cookie.indexOf('=') + 1) ?? '')
}
