import { collectFaults, type Line, linesOf } from './lines.ts'
import { fixedPath, parsePathPattern } from './path-pattern.ts'
import { parseConditions, queryNames } from './query.ts'
import {
  maxDynamicRules,
  maxRedirectLine,
  maxStaticRules,
  type RedirectRule,
  type RuleFault,
  type RuleStatus,
  ruleStatuses,
} from './rules.ts'
import { composeLocation, parseTarget } from './target.ts'

/** `path [name=value …] target [status[!]] [# comment]`, one rule a line, as Netlify documents it. */
export function parseRedirects(text: string): { rules: RedirectRule[]; faults: RuleFault[] } {
  const faults = collectFaults('_redirects')
  const rules: RedirectRule[] = []
  const fixed = new Map<string, number>()
  for (const line of linesOf(text, maxRedirectLine, faults)) {
    const parsed = parseLine(line)
    if (typeof parsed === 'string') {
      faults.add(line.number, parsed)
      continue
    }
    const { rule, only } = parsed
    const earlier = only === undefined ? undefined : fixed.get(only)
    if (earlier !== undefined) faults.add(line.number, `never applies, because line ${earlier} has the same path`)
    else if (only === undefined && rules.length - fixed.size === maxDynamicRules) faults.add(line.number, tooManyDynamic)
    else if (only !== undefined && fixed.size === maxStaticRules) faults.add(line.number, tooManyStatic)
    else {
      rules.push(rule)
      if (only !== undefined) fixed.set(only, line.number)
    }
  }
  return { rules, faults: faults.list() }
}

const tooManyDynamic = `is one too many: a site has at most ${maxDynamicRules} rules with a placeholder, a star or a parameter`
const tooManyStatic = `is one too many: a site has at most ${maxStaticRules} rules without placeholders`

interface ParsedLine {
  readonly rule: RedirectRule
  /** The one path that it is for, when the path alone decides. */
  readonly only: string | undefined
}

function parseLine({ number, text }: Line): ParsedLine | string {
  const all = text.split(/[ \t]+/)
  const comment = all.findIndex((part) => part.startsWith('#'))
  const [from = '', ...parts] = comment === -1 ? all : all.slice(0, comment)
  if (/^(?:https?:)?\/\//i.test(from)) return 'names a host before its path; a rule applies to all hosts of the site'
  const pattern = parsePathPattern(from)
  if (typeof pattern === 'string') return pattern
  if (isOfPlatform(from)) return 'has a path that the platform answers itself'
  const at = parts.findIndex((part) => part.startsWith('/') || /^https?:/i.test(part))
  const to = parts[at]
  if (to === undefined) return 'has no target that begins with a slash or with https://'
  const query = parseConditions(parts.slice(0, at), pattern.names)
  if (typeof query === 'string') return query
  const status = parseStatus(parts.slice(at + 1))
  if (typeof status === 'string') return status
  const refusal = refusalOfTarget(to, [...pattern.names, ...queryNames(query)], status.status)
  if (refusal !== undefined) return refusal
  if (query.length > 0) return { rule: { line: number, from, query, to, ...status }, only: undefined }
  return { rule: { line: number, from, to, ...status }, only: fixedPath(pattern) }
}

/** Below `/__svc` and the challenges of certificates. */
const isOfPlatform = (path: string) => /^\/(?:__svc|\.well-known\/acme-challenge)(?:\/|$)/i.test(path)

function parseStatus([text = '301', ...rest]: readonly string[]): Pick<RedirectRule, 'status' | 'force'> | string {
  const condition = [text, ...rest].find((part) => part.includes('='))
  if (condition !== undefined)
    return `has the condition ${condition.slice(0, 40)}: rules by country, language or role are not supported`
  const force = text.endsWith('!')
  const status = ruleStatuses.find((known) => String(known) === (force ? text.slice(0, -1) : text))
  if (status === undefined) return `has the status ${text.slice(0, 20)}, which is none of ${ruleStatuses.join(', ')}`
  if (rest.length > 0) return `has "${rest[0]?.slice(0, 40)}" after its status`
  return force ? { status, force } : { status }
}

function refusalOfTarget(to: string, names: readonly string[], status: RuleStatus): string | undefined {
  const target = parseTarget(to, names)
  if (typeof target === 'string') return target
  if (status !== 200 && status !== 404) return undefined
  if (target.origin !== '') return `has a target on another host: with the status ${status} it can only be a page of the site`
  const path = composeLocation(target, names, '')?.next?.path ?? ''
  if (path.startsWith('/.netlify/')) return 'has a target below /.netlify, which exists at Netlify only'
  return isOfPlatform(path) ? 'has a target that the platform answers itself' : undefined
}
