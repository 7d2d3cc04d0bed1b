import { isFixed, matchPath, type PathPattern, parsePathPattern } from './path-pattern.ts'
import { captureOf, matchQuery } from './query.ts'
import type { HeaderBlock, RedirectRule, SiteRules } from './rules.ts'
import { parseTarget, type Target } from './target.ts'

interface PreparedRedirect {
  readonly rule: RedirectRule
  readonly pattern: PathPattern
  readonly target: Target
}

interface RedirectTable {
  /** By path, without a slash at its end. */
  readonly fixed: ReadonlyMap<string, PreparedRedirect>
  /** In the order of their lines. */
  readonly dynamic: readonly PreparedRedirect[]
}

/** The rules of a deploy, ready for look-ups; made once for each load. */
export interface PreparedRules {
  readonly redirects: RedirectTable
  /** Those with `!`; undefined when there is none. */
  readonly forced: RedirectTable | undefined
  /** The headers that `_headers` adds to responses at a path of a request. */
  headersFor(path: string): readonly AppliedHeader[]
}

/** A header of a response, with the lines of `_headers` that it comes from. */
export interface AppliedHeader {
  readonly name: string
  readonly value: string
  readonly lines: readonly number[]
}

/** @param rules as `compileRules` made them */
export function prepareRules(rules: SiteRules): PreparedRules {
  const redirects = rules.redirects.flatMap(prepareRedirect)
  const forced = redirects.filter(({ rule }) => rule.force)
  const blocks = rules.headers.flatMap((block) => {
    const pattern = parsePathPattern(block.path)
    return typeof pattern === 'string' ? [] : [{ block, pattern }]
  })
  return {
    redirects: tableOf(redirects),
    forced: forced.length > 0 ? tableOf(forced) : undefined,
    headersFor: (path) => mergeBlocks(blocks.filter(({ pattern }) => matchPath(pattern, path)).map(({ block }) => block)),
  }
}

function prepareRedirect(rule: RedirectRule): PreparedRedirect[] {
  const pattern = parsePathPattern(rule.from)
  if (typeof pattern === 'string') return []
  const target = parseTarget(rule.to, [...pattern.names, ...(rule.query ?? []).flatMap(([, value]) => captureOf(value) ?? [])])
  return typeof target === 'string' ? [] : [{ rule, pattern, target }]
}

function tableOf(redirects: readonly PreparedRedirect[]): RedirectTable {
  const fixed = new Map<string, PreparedRedirect>()
  const dynamic: PreparedRedirect[] = []
  for (const redirect of redirects) {
    const isDynamic = redirect.rule.query !== undefined || !isFixed(redirect.pattern)
    if (isDynamic) dynamic.push(redirect)
    else if (!fixed.has(redirect.pattern.prefix)) fixed.set(redirect.pattern.prefix, redirect)
  }
  return { fixed, dynamic }
}

/**
 * The first value that `use` makes of a rule that matches, in the order of the lines.
 *
 * @param query of the request, empty or beginning with `?`
 */
export function findRedirect<Value>(
  { fixed, dynamic }: RedirectTable,
  path: string,
  query: string,
  use: (redirect: PreparedRedirect, captures: readonly string[]) => Value | undefined,
): Value | undefined {
  let waiting = fixed.get(path.endsWith('/') ? path.slice(0, -1) : path)
  let parameters: URLSearchParams | undefined
  for (const redirect of dynamic) {
    if (waiting && waiting.rule.line < redirect.rule.line) {
      const value = use(waiting, [])
      if (value !== undefined) return value
      waiting = undefined
    }
    const captures = matchPath(redirect.pattern, path)
    if (!captures) continue
    const conditions = redirect.rule.query
    if (conditions) parameters ??= new URLSearchParams(query)
    const values = conditions && parameters ? matchQuery(conditions, parameters) : []
    const value = values && use(redirect, [...captures, ...values])
    if (value !== undefined) return value
  }
  return waiting && use(waiting, [])
}

/** All blocks that match apply, in their order: values of the same name are joined. */
function mergeBlocks(blocks: readonly HeaderBlock[]): AppliedHeader[] {
  const headers = new Map<string, AppliedHeader>()
  for (const { line, set, unset = [] } of blocks) {
    for (const name of unset) headers.delete(name.toLowerCase())
    for (const [name, value] of set) {
      const known = headers.get(name.toLowerCase())
      const lines = known ? [...known.lines.filter((other) => other !== line), line] : [line]
      headers.set(name.toLowerCase(), { name: known?.name ?? name, value: known ? `${known.value}, ${value}` : value, lines })
    }
  }
  return [...headers.values()]
}
