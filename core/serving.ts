import { encodePath, encodeQuery, parseRequestPath, type RequestTarget } from './request-path.ts'
import { findRedirect, type PreparedRules } from './site-rules/prepare.ts'
import type { RedirectRule, RedirectStatus, RuleFile } from './site-rules/rules.ts'
import { composeLocation } from './site-rules/target.ts'

/** The line of the deploy's own rules that decided; absent when the serving rules of the platform did. */
interface Decided {
  readonly rule?: { readonly file: RuleFile; readonly line: number }
}

export type Decision =
  /** `path` as in the manifest: no leading slash. */
  | ({ readonly kind: 'file'; readonly path: string; readonly status: 200 | 404 } & Decided)
  /** `location` is complete, with its query: visible ASCII that begins with exactly one slash, or with the host that a rule names. */
  | ({ readonly kind: 'redirect'; readonly location: string; readonly status: RedirectStatus } & Decided)
  | ({ readonly kind: 'missing' } & Decided)

export interface DecideOptions {
  /** The raw query of the request: empty, or beginning with `?`. */
  readonly query?: string
  readonly rules?: PreparedRules | undefined
  /** Whether each page has one address, to which its other addresses redirect (addendum E32). */
  readonly canonical?: boolean
}

type Has = (path: string) => boolean

const missing: Decision = { kind: 'missing' }
const file = (path: string, status: 200 | 404 = 200): Decision => ({ kind: 'file', path, status })

/**
 * Decides how a request for a path is answered (the specification's serving rules, addendum E8 and E32). Redirects inside the site come to an
 * end within {@link maxRedirects}, whatever the rules.
 *
 * @param path as `parseRequestPath` returns it
 * @param has whether the deploy contains a file; takes a manifest path
 */
export function decide(path: string, has: Has, options: DecideOptions = {}): Decision {
  return decideOnce(path, has, options)
}

/** Browsers follow no more of them in a row. */
const maxRedirects = 20
/** The most rules that are applied for one request, those of the redirects that are followed included. */
const maxApplied = 200

/** What is left of both for a request. */
interface Budget {
  redirects: number
  rules: number
}

/** @param followed set when the request is one that a browser would make next, for a redirect whose end is being looked for */
function decideOnce(path: string, has: Has, options: DecideOptions, followed?: Budget): Decision {
  if (isReserved(path)) return missing
  if (isSettingsFile(path)) return notFound(has)
  const { rules } = options
  if (rules === undefined || isChallenge(path)) return byFiles(path, has, options) ?? orElse(path, has)
  // the first rule that matches counts, so a rule with `!` is looked for only to learn whether it may be the one
  if (rules.forced && findRedirect(rules.forced, path, options.query ?? '', () => true)) {
    const first = byRules(path, has, options, rules, followed)
    if (first?.isForced) return first.decision
  }
  return byFiles(path, has, options) ?? byRules(path, has, options, rules, followed)?.decision ?? orElse(path, has)
}

/** An existing file, a clean URL or a directory index. */
function byFiles(path: string, has: Has, options: DecideOptions): Decision | undefined {
  const wanted = path.slice(1)
  if (path.endsWith('/')) {
    if (has(`${wanted}index.html`)) return file(`${wanted}index.html`)
    const page = `${wanted.slice(0, -1)}.html`
    const address = options.canonical && has(page) ? addressOf(page, has) : undefined
    return address === undefined ? undefined : moved(address, options)
  }
  if (has(wanted)) return pageOrAddress(wanted, path, has, options)
  if (hasExtension(wanted)) return undefined
  if (has(`${wanted}.html`)) return pageOrAddress(`${wanted}.html`, path, has, options)
  return has(`${wanted}/index.html`) ? moved(`${path}/`, options) : undefined
}

const moved = (to: string, { query = '' }: DecideOptions): Decision => ({
  kind: 'redirect',
  location: encodePath(to) + encodeQuery(query),
  status: 301,
})

function pageOrAddress(page: string, path: string, has: Has, options: DecideOptions): Decision {
  const address = options.canonical ? addressOf(page, has) : undefined
  return address === undefined || address === path ? file(page) : moved(address, options)
}

/** The address that a page answers at without redirect: `/about` or `/about/`; undefined when it answers at its own path only. */
function addressOf(page: string, has: Has): string | undefined {
  if (!page.endsWith('.html')) return undefined
  const stem = page.slice(0, -'.html'.length)
  const name = stem.slice(stem.lastIndexOf('/') + 1)
  if (name === 'index') return `/${stem.slice(0, -'index'.length)}`
  const address = `/${stem}`
  const answers = name !== '' && !hasExtension(stem) && !has(stem) && !isReserved(address) && !isSettingsFile(address)
  return answers ? address : undefined
}

interface ByRule {
  readonly decision: Decision
  readonly isForced: boolean
}

/** The first rule that matches and applies. */
function byRules(path: string, has: Has, options: DecideOptions, rules: PreparedRules, followed?: Budget): ByRule | undefined {
  const { query = '' } = options
  const budget = followed ?? { redirects: maxRedirects, rules: maxApplied }
  return findRedirect(rules.redirects, path, query, (rule, target, captures): ByRule | undefined => {
    budget.rules -= 1
    const found = budget.rules < 0 ? undefined : composeLocation(target, captures, query)
    if (found === undefined) return undefined
    const { location, next } = found
    const decided = { rule: { file: '_redirects', line: rule.line } } as const
    const by = (decision: Decision) => ({ decision: { ...decision, ...decided }, isForced: rule.force === true })
    if (rule.status === 200 || rule.status === 404) {
      const page = next && pageAt(next.path, has)
      if (page === undefined) return by(notFound(has))
      return isWrongType(rule, path, page) ? undefined : by(file(page, rule.status))
    }
    if (next?.path === path && next.query === query) return undefined
    if (next && !followed && !comesToAnEnd(next, has, options, budget)) return undefined
    return by({ kind: 'redirect', location, status: rule.status })
  })
}

/** Whether the redirects inside the site that begin at a request end at something else. */
function comesToAnEnd(start: RequestTarget, has: Has, options: DecideOptions, budget: Budget): boolean {
  let at: RequestTarget | undefined = start
  while (at !== undefined) {
    budget.redirects -= 1
    const decision = decideOnce(at.path, has, { ...options, query: at.query }, budget)
    if (budget.redirects < 0 || budget.rules < 0) return false
    const isInside = decision.kind === 'redirect' && decision.location.startsWith('/')
    at = isInside ? parseRequestPath(decision.location.split('#', 1)[0] ?? '') : undefined
  }
  return true
}

/** The page that a rewrite shows: the file, its clean URL or its directory index. */
function pageAt(path: string, has: Has): string | undefined {
  if (isReserved(path) || isSettingsFile(path)) return undefined
  const stem = path.endsWith('/') ? path.slice(1, -1) : path.slice(1)
  const candidates = path.endsWith('/') ? [] : [stem]
  if (stem !== '') candidates.push(`${stem}.html`)
  return [...candidates, stem === '' ? 'index.html' : `${stem}/index.html`].find(has)
}

/** A rewrite of many paths to a page does not answer for a script or an image that is missing. */
function isWrongType({ from, force, status }: RedirectRule, path: string, page: string): boolean {
  if (force || status !== 200 || !page.endsWith('.html') || !hasExtension(path) || path.endsWith('.html')) return false
  return from.includes('*') || (page === 'index.html' && from.includes('/:'))
}

const notFound = (has: Has): Decision => (has('404.html') ? file('404.html', 404) : missing)

/** The site's own page for what is missing, or the fallback of apps with addresses of their own. */
function orElse(path: string, has: Has): Decision {
  if (has('404.html') || hasExtension(path) || !has('index.html')) return notFound(has)
  return file('index.html')
}

/** Settings of this platform and of others, which answer as if they were not published. */
const rootSettings: ReadonlySet<string> = new Set(['/_redirects', '/_headers', '/netlify.toml', '/vercel.json', '/plinth.json'])

/** Settings of web servers and of git count in every folder. */
export const isSettingsFile = (path: string) =>
  rootSettings.has(path) || path.endsWith('/.htaccess') || path.endsWith('/.gitattributes')

/** The platform's own prefix, case-insensitive like Caddy's path matcher. */
export const isReserved = (path: string) => /^\/__svc(?:\/|$)/i.test(path)

/** Challenges of certificate authorities, which no rule may answer or redirect. */
const isChallenge = (path: string) => path.startsWith('/.well-known/acme-challenge/')

/** Whether the last segment has a dot that is not its first character. */
export const hasExtension = (path: string) => path.indexOf('.', path.lastIndexOf('/') + 2) !== -1
