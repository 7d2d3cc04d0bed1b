import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingHttpHeaders, type IncomingMessage, type RequestListener, request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { backgroundEncodings, mayHaveBackgroundVariants } from '../../core/encodings.ts'
import { compressible } from '../../core/media.ts'
import { compileRules } from '../../core/site-rules/compile.ts'
import { type ContentLimits, openContent } from '../../edge/content.ts'
import { edgeLimits } from '../../edge/edge.ts'
import { createHandler } from '../../edge/handler.ts'
import { openRouteTable } from '../../edge/routes.ts'
import type { Traffic } from '../../edge/traffic/traffic.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { openDiskCas } from '../../infra/cas/disk.ts'
import { storeManifest } from '../../infra/cas/manifests.ts'
import { openCas } from '../../infra/cas/open.ts'
import { encodeBytes } from '../../infra/compression/encode-bytes.ts'
import type { Config } from '../../infra/config.ts'
import { createPermanentTokens } from '../../infra/crypto/permanent-tokens.ts'
import { createVisits, type Visits } from '../../infra/crypto/visits.ts'
import { type Listen, openServer } from '../../infra/listen.ts'
import { createLogger } from '../../infra/log.ts'
import { mediaTypeOf } from '../../infra/media.ts'
import { noTerms, type RouteLock } from '../../services/feeds/locks.ts'
import type { Route } from '../../services/feeds/routes.ts'

export const platformDomain = 'plinth.test'
export const baseUrl = 'http://platform.test:8080'
export const previewUrl = 'http://preview.test:8080'
export const permanentTokens = createPermanentTokens(Buffer.alloc(32, 1))
export const visits = createVisits(Buffer.alloc(32, 1))
export const log = createLogger('edge', 'silent')

export type Files = Readonly<Record<string, string | Buffer>>

/**
 * Stores files as a deploy of them would: text with its gzip variant. Returns the hash of the manifest.
 * @param compressed whether to make the other variants as well
 */
export async function storeFiles(cas: Cas, files: Files, compressed = false): Promise<string> {
  const stored = Object.entries(files).map(async ([path, content]) => {
    const object = await cas.put(Buffer.from(content))
    const isText = compressible(mediaTypeOf(path))
    if (isText) await cas.encode(object.sha256, 'gzip')
    if (isText && compressed && mayHaveBackgroundVariants(object.size)) {
      for (const encoding of backgroundEncodings) {
        await cas.putVariant(object.sha256, encoding, await encodeBytes[encoding](Buffer.from(content)))
      }
    }
    return { path, ...object }
  })
  const { rules } = compileRules({ redirects: files._redirects?.toString(), headers: files._headers?.toString() })
  return await storeManifest({ add: cas.put }, await Promise.all(stored), rules)
}

/** A route of a live site; the site's id is made of its name. */
export function routeOf(subdomain: string, manifest_sha256: string | null, more: Partial<Route> = {}): Route {
  const always = {
    enabled: true,
    suspended: false,
    trashed: false,
    version: 1,
    retained_sha256: null,
    compressed: false,
    previews: [],
    permanent: [],
    former: [],
    domains: [],
    canonical_urls: false,
    delivery_files: [],
    delivery_page: null,
    lock: null,
  }
  return { site_id: `id-of-${subdomain}`, subdomain, deploy_id: manifest_sha256, manifest_sha256, ...always, ...more }
}

/** What closes a site with a password. */
export function lockOf(more: Partial<RouteLock> = {}): RouteLock {
  const unlimited = { expires_at: null, bypass_sha256: null, previews_closed: false, generations: [] }
  const always = { ...unlimited, consent_version: 0, terms: noTerms, brand: null }
  return { mode: 'password', epoch: '11111111-1111-4111-8111-111111111111', ...always, ...more }
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export interface Ask {
  readonly host?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
}

export async function ask(port: number, path: string, { host, method, headers }: Ask = {}): Promise<Answer> {
  const outgoing = request({
    port,
    path,
    method: method ?? 'GET',
    agent: false,
    headers: { ...headers, host: host ?? `site.${platformDomain}` },
  })
  outgoing.end()
  const [response] = await once(outgoing, 'response')
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }
}

/** Sends bytes as they are and returns everything that comes back until the server closes. */
export async function sendRaw(port: number, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write(Buffer.from(bytes, 'latin1'))
  return await text(socket)
}

export interface TestEdgeOptions {
  readonly limits?: ContentLimits
  /** Any free port, when absent. */
  readonly listen?: Listen
  /** Wraps the storage that the edge reads from. */
  readonly wrap?: (cas: Cas) => Cas
  /** Read instead of {@link visits}. */
  readonly readVisits?: Visits
  /** Changes each request before the edge sees it. */
  readonly prepare?: (req: IncomingMessage) => void
  /** When absent, nothing is counted. */
  readonly traffic?: Traffic
  /** The Caddy in front, which sends large files of the storage by itself. */
  readonly behind?: { readonly config: Config }
}

/** An edge with a storage in a temporary folder and routes made by hand. */
export async function openTestEdge(options: TestEdgeOptions = {}) {
  const { limits, wrap = (cas) => cas, readVisits = visits, prepare = () => undefined, traffic, behind } = options
  const listen = options.listen ?? (behind ? { path: behind.config.sockets.edge } : { port: 0 })
  await using opened = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'plinth-edge-'))
  opened.defer(() => rm(dir, { recursive: true }))
  const cas = await (behind ? openCas(behind.config.storage.url) : openDiskCas(join(dir, 'cas')))
  const routes = opened.use(await openRouteTable({ platformDomain, snapshotDir: join(dir, 'routes'), log }))
  routes.setConnected(true)
  const content = openContent(wrap(cas), limits)
  const tokens = { permanentTokens, visits: readVisits }
  const hosts = { platformDomain, baseUrl, previewUrl }
  const handler = createHandler({ ...hosts, routes, content, ...tokens, caddySends: behind !== undefined, traffic, log })
  const prepared: RequestListener = (req, res) => {
    prepare(req)
    handler(req, res)
  }
  const server = opened.use(await openServer(prepared, listen, edgeLimits))
  const port = server.port ?? 0
  const stack = opened.move()
  return {
    dir,
    cas,
    routes,
    port,
    /** Makes the files what `<subdomain>.plinth.test` serves. */
    async publish(subdomain: string, files: Files, more?: Partial<Route>): Promise<Route> {
      const route = routeOf(subdomain, await storeFiles(cas, files, more?.compressed), more)
      routes.apply([route], [])
      return route
    },
    ask: (path: string, options?: Ask) => ask(port, path, options),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}
export type TestEdge = Awaited<ReturnType<typeof openTestEdge>>

/** Counts what is read from the storage and which objects are still open. */
export function counting() {
  const counts = { opens: 0, open: 0 }
  const wrap = (cas: Cas): Cas => ({
    ...cas,
    async open(sha256, encoding) {
      counts.opens++
      const object = await cas.open(sha256, encoding)
      if (!object) return undefined
      counts.open++
      const closed = () => {
        counts.open--
      }
      return {
        size: object.size,
        stream: (start, end) => object.stream(start, end).once('close', closed),
        send: (...args) => object.send(...args).finally(closed),
        bytes: () => object.bytes().finally(closed),
        close: () => object.close().finally(closed),
      }
    },
  })
  return { counts, wrap }
}
