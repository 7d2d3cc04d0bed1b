import { type AppliedHeader, mergeBlocks } from './merge-headers.ts'
import { fixedPath, matchPath, type PathPattern, parsePathPattern, splitPath } from './path-pattern.ts'
import { matchQuery, queryNames } from './query.ts'
import type { RedirectRule, SiteRules } from './rules.ts'
import { parseTarget, type Target } from './target.ts'

interface DynamicRule {
  readonly rule: RedirectRule
  readonly pattern: PathPattern
  readonly target: Target
}

/** Redirects, rewrites and pages for what is not found. */
interface RedirectTable {
  /** By path, without a slash at its end. */
  readonly fixed: ReadonlyMap<string, RedirectRule>
  /** In the order of their lines. */
  readonly dynamic: readonly DynamicRule[]
}

/** The rules of a deploy, ready for look-ups; made once for each load. */
export interface PreparedRules {
  readonly redirects: RedirectTable
  /** Those with `!` only; undefined when there is none. */
  readonly forced: RedirectTable | undefined
  /** The headers that `_headers` adds to responses at a path of a request. Undefined when it adds none to any. */
  readonly headersFor: ((path: string) => AppliedHeader[]) | undefined
}

/** @param rules as `compileRules` made them */
export function prepareRules({ redirects, headers }: SiteRules): PreparedRules {
  const forced = redirects.filter(({ force }) => force)
  const blocks = headers.flatMap((block) => {
    const pattern = parsePathPattern(block.path)
    return typeof pattern === 'string' ? [] : [{ ...block, pattern }]
  })
  return {
    redirects: tableOf(redirects),
    forced: forced.length > 0 ? tableOf(forced) : undefined,
    headersFor: blocks.length > 0 ? headersFor : undefined,
  }

  function headersFor(path: string): AppliedHeader[] {
    const split = splitPath(path)
    return mergeBlocks(blocks.filter(({ pattern }) => matchPath(pattern, split)))
  }
}

/** A path that is its own pattern, as nearly all are: a load of thousands need not parse them. */
const plainPath = /^(?:\/[\w.~-]+)+$/

function tableOf(rules: readonly RedirectRule[]): RedirectTable {
  const fixed = new Map<string, RedirectRule>()
  const dynamic: DynamicRule[] = []
  for (const rule of rules) {
    if (!rule.query && plainPath.test(rule.from)) {
      if (!fixed.has(rule.from)) fixed.set(rule.from, rule)
      continue
    }
    const pattern = parsePathPattern(rule.from)
    if (typeof pattern === 'string') continue
    const only = rule.query ? undefined : fixedPath(pattern)
    if (only !== undefined) {
      if (!fixed.has(only)) fixed.set(only, rule)
      continue
    }
    const target = parseTarget(rule.to, [...pattern.names, ...queryNames(rule.query ?? [])])
    if (typeof target !== 'string') dynamic.push({ rule, pattern, target })
  }
  return { fixed, dynamic }
}

type Use<Value> = (rule: RedirectRule, target: Target, captures: readonly string[]) => Value | undefined

/**
 * The first value that `use` makes of a rule that matches, in the order of the lines. Look-ups do not depend on the number of fixed rules.
 *
 * @param query of the request, empty or beginning with `?`
 * @param use takes a rule, its target, and what its path and its query capture
 */
export function findRedirect<Value>(
  { fixed, dynamic }: RedirectTable,
  path: string,
  query: string,
  use: Use<Value>,
): Value | undefined {
  let waiting = fixed.get(path.endsWith('/') ? path.slice(0, -1) : path)
  if (dynamic.length === 0) return waiting && useFixed(waiting, use)
  const split = splitPath(path)
  let parameters: URLSearchParams | undefined
  for (const { rule, pattern, target } of dynamic) {
    if (waiting && waiting.line < rule.line) {
      const value = useFixed(waiting, use)
      if (value !== undefined) return value
      waiting = undefined
    }
    const captures = matchPath(pattern, split)
    if (!captures) continue
    if (rule.query) {
      parameters ??= new URLSearchParams(query)
      const values = matchQuery(rule.query, parameters)
      if (!values) continue
      captures.push(...values)
    }
    const value = use(rule, target, captures)
    if (value !== undefined) return value
  }
  return waiting && useFixed(waiting, use)
}

/** Targets of fixed rules are parsed when they are needed: of thousands, few ever are. */
function useFixed<Value>(rule: RedirectRule, use: Use<Value>): Value | undefined {
  const target = parseTarget(rule.to, [])
  return typeof target === 'string' ? undefined : use(rule, target, [])
}
