import { hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import type { RouteLock } from '../../services/feeds/locks.ts'
import type { Route } from '../../services/feeds/routes.ts'
import { locks, type States, sha256 } from './gate-visits.ts'
import {
  type Files,
  openTestEdge,
  permanentTokens,
  platformDomain,
  sendRaw,
  storeFiles,
  type TestEdgeOptions,
} from './test-edge.ts'

// Requests to a closed site. Each is sent to two edges with the same lock: one has a site full of content, the other an empty one.
// Whatever depends on the content differs between the two answers.

export const mark = 'SECRET'
const secret = (text: string) => `${mark} ${text}`
const files: Files = {
  'index.html': secret('home'),
  'about.html': secret('about'),
  '404.html': secret('own not-found page'),
  'blog/index.html': secret('blog'),
  'ünï/index.html': secret('unicode'),
  'style.css': `/* ${mark} */`.repeat(100),
  'assets/app.3f9a1c7be2d4.js': secret('script'),
  'large.bin': Buffer.alloc(300_000, secret('large')),
  _redirects: `/old /${mark}-new 301\n/moved/* https://elsewhere.test/${mark}/:splat 302\n/shown /about 200`,
  _headers: `/*\n  X-Own: ${mark}\n  Content-Type: Cache-Control\n/style.css\n  Access-Control-Allow-Origin: *`,
}
const retained: Files = { 'assets/before.9a8b7c6d5e4f.js': secret('retained') }

const site_id = 'id-of-site'
const previewToken = 'a'.repeat(52)
const deployId = '01a2b3c4-d5e6-7f80-9123-456789abcdef'

/** The two edges. */
export interface Pair extends AsyncDisposable {
  readonly full: number
  readonly empty: number
}

export async function openPair(lock: RouteLock | null, options: TestEdgeOptions = {}): Promise<Pair> {
  await using opened = new AsyncDisposableStack()
  const [full, empty] = [opened.use(await openTestEdge(options)), opened.use(await openTestEdge(options))]
  const names: Partial<Route> = {
    former: [{ subdomain: 'was', until: '2999-01-01T00:00:00.000Z' }],
    domains: [
      { domain: 'closed.test', primary: null },
      { domain: 'www.closed.test', primary: 'closed.test' },
      { domain: '*.wild.test', primary: null },
    ],
    lock,
  }
  const retained_sha256 = await storeFiles(full.cas, retained)
  const manifest_sha256 = await storeFiles(full.cas, files)
  await full.publish('site', files, {
    ...names,
    retained_sha256,
    canonical_urls: true,
    previews: [{ token_sha256: hashPreviewToken(previewToken), deploy_id: 'shown', manifest_sha256 }],
    permanent: [{ deploy_id: deployId, manifest_sha256, generation: 1 }],
  })
  const permanent = [{ deploy_id: deployId, manifest_sha256: await storeFiles(empty.cas, {}), generation: 1 }]
  await empty.publish('site', {}, { ...names, manifest_sha256: null, deploy_id: null, permanent })
  const stack = opened.move()
  return { full: full.port, empty: empty.port, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

/** One request. */
export interface Tried {
  /** The state of the visit. */
  readonly visit: string
  readonly bytes: string
}

/** What the edge with the content answers, and whether that depends on the content. */
export interface Judged extends Tried {
  readonly answer: string
  readonly leaks: boolean
}

const atOnce = 300

/** Sends the requests to both edges. */
export async function judge(pair: Pair, tried: readonly Tried[]): Promise<Judged[]> {
  const judged: Judged[] = []
  for (let at = 0; at < tried.length; at += atOnce) {
    const chunk = tried.slice(at, at + atOnce)
    const [full, empty] = await Promise.all([answersOf(pair.full, chunk), answersOf(pair.empty, chunk)])
    judged.push(
      ...chunk.map((one, i) => {
        const answer = full[i] ?? ''
        return { ...one, answer, leaks: answer !== empty[i] || answer.includes(mark) }
      }),
    )
  }
  return judged
}

/** Sends all requests over one connection, and splits what comes back. */
async function answersOf(port: number, tried: readonly Tried[]): Promise<string[]> {
  const last = 'GET / HTTP/1.1\r\nHost: nobody.test\r\nConnection: close\r\n\r\n'
  const text = await sendRaw(port, tried.map(({ bytes }) => bytes).join('') + last)
  const answers = text
    .replaceAll(/Date: .*\r\n/g, '')
    .split(/(?=HTTP\/1\.1 \d{3} )/)
    .slice(0, -1)
  if (answers.length !== tried.length) throw new Error(`${tried.length} requests had ${answers.length} answers`)
  return answers
}

/** A way to ask for a path: the method and headers. */
export type Shape = readonly [method: string, ...headers: string[]]

const program: Shape = ['GET']
const browser: Shape = ['GET', 'Accept: text/html,*/*;q=0.8', 'Sec-Fetch-Dest: document', 'Sec-Fetch-Mode: navigate']
const etag = `"${sha256(secret('home'))}"`
const others: readonly Shape[] = [
  ['HEAD'],
  ['HEAD', 'Accept: text/html', 'Sec-Fetch-Dest: document'],
  ['GET', 'Accept: text/html', 'Accept-Language: ru'],
  ['GET', `If-None-Match: ${etag}`],
  ['GET', 'If-None-Match: *'],
  ['GET', 'If-Match: "other"'],
  ['GET', 'If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT'],
  ['GET', 'Range: bytes=0-3'],
  ['GET', 'Range: bytes=999999999-'],
  ['GET', 'Range: bytes=0-3', `If-Range: ${etag}`],
  ['GET', 'Accept-Encoding: gzip', 'Accept: image/webp'],
  ['GET', 'Service-Worker: script'],
  ['POST', 'Content-Length: 0'],
  ['OPTIONS'],
  ['TRACE'],
]
export const shapes: readonly Shape[] = [program, browser, ...others]

export const paths = [
  ['/', '/index.html', '/about', '/about.html', '/about/', '/blog', '/blog/', '/blog/index.html', '/style.css', '/large.bin'],
  [
    '/404.html',
    '/404',
    '/missing',
    '/missing.css',
    '/missing/deep.js',
    '/assets/app.3f9a1c7be2d4.js',
    '/assets/before.9a8b7c6d5e4f.js',
  ],
  ['/old', '/moved/a', '/shown', '/_redirects', '/_headers', '/favicon.ico', '/robots.txt', '/.well-known/acme-challenge/x'],
  [
    '/index%2ehtml',
    '/%69ndex.html',
    '/%C3%BCn%C3%AF/',
    '//index.html',
    '/./index.html',
    '/a/../index.html',
    '/a%2f..%2findex.html',
  ],
  ['/INDEX.HTML', '/index.html?a=1&svc_s=1', '/?x', '/%00', '/%zz', '/style.css%20', 'http://site.plinth.test/index.html', '/#x'],
  ['/index.html/x.css', '/about.css', '/;x.css', '/_astro/x.1a2b3c4d.js', '/x.js?v=1'],
  [
    '/__svc/',
    '/__svc/login',
    '/__svc/d/',
    `/__svc/d/${'A'.repeat(48)}`,
    '/__svc/brand/logo.webp',
    '/__SVC/D/x',
    '/__svc/../index.html',
  ],
].flat()

/** As requests name the hosts where the site is served; the edge reads them as the second. */
export const hosts = [
  [`site.${platformDomain}`, `site.${platformDomain}`],
  ['closed.test', 'closed.test'],
  ['Any.Wild.test.:8080', 'any.wild.test'],
] as const

export const requestOf = (host: string, path: string, [method, ...headers]: Shape, more: readonly string[] = []) =>
  [`${method} ${path} HTTP/1.1`, `Host: ${host}`, ...headers, ...more, '', ''].join('\r\n')

export interface Product {
  readonly states: States
  readonly paths: readonly string[]
  readonly shapes: readonly Shape[]
  readonly hosts: readonly (readonly [asked: string, read: string])[]
}

/** Every combination. */
export const combine = ({ states, paths, shapes, hosts }: Product): Tried[] =>
  hosts.flatMap(([host, read]) =>
    Object.entries(states).flatMap(([visit, headersAt]) => {
      const headers = headersAt({ site_id, host: read, epoch: locks.password.epoch })
      return paths.flatMap((path) => shapes.map((shape) => ({ visit, bytes: requestOf(host, path, shape, headers) })))
    }),
  )

const addressesOf = (token: string) => [
  { host: 'preview.test', before: `/${token}` },
  { host: `${token}.preview.test`, before: '' },
]
/** The addresses of a link in both of its forms. */
export const previewAddresses = addressesOf(previewToken)
export const permanentAddresses = addressesOf(permanentTokens(deployId, 1))

/** The origin of the permanent link, as {@link hosts}. */
const permanentHost = `${permanentTokens(deployId, 1)}.preview.test`
export const permanentHosts = [[permanentHost, permanentHost]] as const
