import { decide, hasExtension } from '../core/serving.ts'
import type { RedirectStatus } from '../core/site-rules/rules.ts'
import { type Answered, whenRead } from './answered.ts'
import type { Content } from './content.ts'
import { pages } from './pages.ts'
import { type Exchange, sendFile, sendPage, sendRedirect } from './respond.ts'
import type { SiteFile, SiteFiles } from './site-files.ts'
import { withHeaders } from './site-headers.ts'

export interface Wanted {
  readonly manifest_sha256: string
  /** The manifest of retained assets; null when there are none. */
  readonly retained_sha256: string | null
  /** The path as the parameter of `decide`. */
  readonly path: string
  readonly query: string
  /** The prefix of the visitor's paths before those of the deploy. */
  readonly prefix: string
  readonly canonical_urls: boolean
  /** The names of headers, in lower case, that `_headers` cannot set here. */
  readonly reserved?: ReadonlySet<string> | undefined
}

/** What a deploy answers a request with. */
export type Found =
  | { readonly kind: 'file'; readonly file: SiteFile; readonly status: 200 | 404 }
  | { readonly kind: 'redirect'; readonly location: string; readonly status: RedirectStatus }
  | { readonly kind: 'missing' }

/** Finds what a deploy answers with by the serving rules. @throws when the storage fails */
export function findInDeploy(content: Content, wanted: Wanted): Found | Promise<Found> {
  return whenRead(content.files(wanted.manifest_sha256), (files) =>
    whenRead(findRetained(content, wanted, files), (retained) => findAmong(files, retained, wanted)),
  )
}

function findAmong(files: SiteFiles, retained: SiteFile | undefined, wanted: Wanted): Found {
  const { path, query, prefix, canonical_urls: canonical, reserved } = wanted
  const has = (file: string) => files.has(file) || file === retained?.path
  const decision = decide(path, has, { query, rules: files.rules, canonical })
  if (decision.kind === 'missing') return decision
  if (decision.kind === 'redirect') {
    const { status, location } = decision
    // a target on another host has no prefix
    return { kind: 'redirect', status, location: location.startsWith('/') ? prefix + location : location }
  }
  const file = retained?.path === decision.path ? retained : files.get(decision.path, path, reserved)
  return { kind: 'file', file, status: decision.status }
}

/** @throws as {@link sendFile} */
export function sendFound(exchange: Exchange, content: Content, found: Found): Answered {
  if (found.kind === 'missing') return sendPage(exchange, pages.missingFile)
  if (found.kind === 'redirect') return sendRedirect(exchange, found.status, found.location)
  return sendFile(exchange, content, found.file, found.status)
}

/** The retained asset at the wanted path, which answers like a file of the deploy. A file that the deploy has costs no second look-up. */
function findRetained(content: Content, { retained_sha256, path }: Wanted, live: SiteFiles) {
  const wanted = path.slice(1)
  if (retained_sha256 === null || !hasExtension(wanted) || live.has(wanted)) return undefined
  return whenRead(content.files(retained_sha256), (retained) => {
    if (!retained.has(wanted)) return undefined
    const asset = retained.get(wanted, path)
    // the headers of the live deploy, such as those that let other origins load its scripts
    return live.rules?.headersFor ? withHeaders(asset, live.rules.headersFor(path)) : asset
  })
}
