import { encodePath, parseRequestPath } from './request-path.ts'
import { findRedirect, type PreparedRules } from './site-rules/prepare.ts'
import type { RedirectStatus, RuleFile } from './site-rules/rules.ts'
import { composeLocation } from './site-rules/target.ts'

/** The line of the deploy's own rules that decided; undefined when the serving rules of the platform did. */
interface Decided {
  readonly rule?: { readonly file: RuleFile; readonly line: number }
}

export type Decision =
  /** `path` as in the manifest: no leading slash. */
  | ({ readonly kind: 'file'; readonly path: string; readonly status: 200 | 404 } & Decided)
  /** `location` is complete, with the query: visible ASCII that begins with exactly one slash, or with the host of a rule's target. */
  | ({ readonly kind: 'redirect'; readonly location: string; readonly status: RedirectStatus } & Decided)
  | ({ readonly kind: 'missing' } & Decided)

export interface DecideOptions {
  /** The raw query of the request: empty, or beginning with `?`. */
  readonly query?: string
  readonly rules?: PreparedRules | undefined
  /** Whether each page has one address only (addendum E32). */
  readonly canonical?: boolean
}

type Has = (path: string) => boolean

const missing: Decision = { kind: 'missing' }
const file = (path: string, status: 200 | 404 = 200): Decision => ({ kind: 'file', path, status })

/**
 * Decides how a request for a path is answered (the specification's serving rules, addendum E8 and E32).
 *
 * @param path as {@link parseRequestPath} returns it
 * @param has whether the deploy contains a file; takes a manifest path
 */
export function decide(path: string, has: Has, options: DecideOptions = {}): Decision {
  if (isReserved(path)) return missing
  if (unserved.has(path)) return notFound(has)
  const { rules } = options
  if (!rules) return byFiles(path, has, options) ?? notFoundOrFallback(path, has)
  const forced = rules.forced && byRules(path, has, options, rules)
  if (forced?.force) return forced.decision
  return byFiles(path, has, options) ?? byRules(path, has, options, rules)?.decision ?? notFoundOrFallback(path, has)
}

function byFiles(path: string, has: Has, { query = '' }: DecideOptions): Decision | undefined {
  const wanted = path.slice(1)
  if (path.endsWith('/')) return has(`${wanted}index.html`) ? file(`${wanted}index.html`) : undefined
  if (has(wanted)) return file(wanted)
  if (hasExtension(wanted)) return undefined
  if (has(`${wanted}.html`)) return file(`${wanted}.html`)
  if (has(`${wanted}/index.html`)) return { kind: 'redirect', location: `${encodePath(path)}/${query}`, status: 301 }
  return undefined
}

interface ByRule {
  readonly decision: Decision
  readonly force: boolean
}

function byRules(path: string, has: Has, { query = '' }: DecideOptions, rules: PreparedRules): ByRule | undefined {
  return findRedirect(rules.redirects, path, query, ({ rule, target }, captures) => {
    const location = composeLocation(target, captures, query)
    if (location === undefined) return undefined
    const decided = { rule: { file: '_redirects', line: rule.line } } as const
    const by = (decision: Decision) => ({ decision: { ...decision, ...decided }, force: rule.force === true })
    const { status } = rule
    if (status !== 200 && status !== 404) return by({ kind: 'redirect', location, status })
    const page = pageAt(parseRequestPath(location)?.path ?? '', has)
    return by(page === undefined ? notFound(has) : file(page, status))
  })
}

function pageAt(path: string, has: Has): string | undefined {
  const wanted = path.slice(1)
  if (path === '' || unserved.has(path)) return undefined
  const folder = wanted === '' || wanted.endsWith('/') ? wanted : `${wanted}/`
  return [wanted, `${wanted}.html`, `${folder}index.html`].find((candidate) => candidate !== '' && has(candidate))
}

const notFound = (has: Has): Decision => (has('404.html') ? file('404.html', 404) : missing)

function notFoundOrFallback(path: string, has: Has): Decision {
  if (has('404.html')) return file('404.html', 404)
  return !path.endsWith('/') && hasExtension(path) ? missing : has('index.html') ? file('index.html') : missing
}

/** Settings of the platform, which answer as if they were not published. */
const unserved: ReadonlySet<string> = new Set(['/plinth.json'])

/** The platform's own prefix, case-insensitive like Caddy's path matcher. */
const isReserved = (path: string) => /^\/__svc(?:\/|$)/i.test(path)

/** Whether the last segment has a dot that is not its first character. */
const hasExtension = (path: string) => path.indexOf('.', path.lastIndexOf('/') + 2) !== -1
