import { collectFaults, type Line, linesOf } from './lines.ts'
import { isFixed, type PathPattern, parsePathPattern } from './path-pattern.ts'
import { captureOf } from './query.ts'
import {
  maxDynamicRules,
  maxRedirectLine,
  maxStaticRules,
  type RedirectRule,
  type RuleFault,
  type RuleStatus,
  ruleStatuses,
} from './rules.ts'
import { parseTarget } from './target.ts'

/** `from [name=value …] to [status[!]] [# comment]`, one rule a line, as Netlify writes it. */
export function parseRedirects(text: string): { rules: RedirectRule[]; faults: RuleFault[] } {
  const faults = collectFaults('_redirects')
  const rules: RedirectRule[] = []
  const seen = new Map<string, number>()
  let dynamic = 0
  for (const line of linesOf(text, maxRedirectLine, faults)) {
    const parsed = parseLine(line)
    if (typeof parsed === 'string') {
      faults.add(line.number, parsed)
      continue
    }
    const { rule, pattern } = parsed
    const isDynamic = rule.query !== undefined || !isFixed(pattern)
    const earlier = isDynamic ? undefined : seen.get(pattern.prefix)
    if (earlier !== undefined) faults.add(line.number, `never applies: line ${earlier} has the same path`)
    else if (isDynamic && dynamic === maxDynamicRules)
      faults.add(line.number, `is left out: a site has at most ${maxDynamicRules} rules with a placeholder, a splat or a query`)
    else if (!isDynamic && seen.size === maxStaticRules)
      faults.add(line.number, `is left out: a site has at most ${maxStaticRules} rules without placeholders`)
    else {
      rules.push(rule)
      if (isDynamic) dynamic += 1
      else seen.set(pattern.prefix, line.number)
    }
  }
  return { rules, faults: faults.list() }
}

function parseLine({ number, text }: Line): { rule: RedirectRule; pattern: PathPattern } | string {
  const all = text.split(/[ \t]+/)
  const comment = all.findIndex((part) => part.startsWith('#'))
  const [from = '', ...parts] = comment === -1 ? all : all.slice(0, comment)
  if (/^(?:https?:)?\/\//i.test(from)) return 'names a host in its path; connect the domain to the site instead'
  const pattern = parsePathPattern(from)
  if (typeof pattern === 'string') return pattern
  const at = parts.findIndex((part) => part.startsWith('/') || /^https?:/i.test(part))
  const to = parts[at]
  if (to === undefined) return 'has no target that begins with a slash or https://'
  const query = parseConditions(parts.slice(0, at), pattern.names)
  if (typeof query === 'string') return query
  const [statusText = '301', ...rest] = parts.slice(at + 1)
  if (statusText.includes('=') || rest.length > 0)
    return 'has a condition behind its status: Country=, Language= and Role= do not exist here'
  const status = ruleStatuses.find((known) => String(known) === statusText.replace('!', ''))
  if (status === undefined) return `has the status "${statusText.slice(0, 20)}"; the statuses are ${ruleStatuses.join(', ')}`
  const target = parseTarget(to, [...pattern.names, ...query.flatMap(([, value]) => captureOf(value) ?? [])])
  if (typeof target === 'string') return target
  if (isInside(status) && target.origin !== '')
    return `has a target on another host, which the status ${status} cannot fetch; redirect to it`
  return {
    rule: {
      line: number,
      from,
      ...(query.length > 0 && { query }),
      to,
      status,
      ...(statusText.endsWith('!') && { force: true }),
    },
    pattern,
  }
}

const isInside = (status: RuleStatus) => status === 200 || status === 404

function parseConditions(parts: readonly string[], pathNames: readonly string[]): [string, string][] | string {
  const conditions: [string, string][] = []
  const names = new Set<string>()
  const captures = new Set(pathNames)
  for (const part of parts) {
    const equals = part.indexOf('=')
    if (equals < 1) return `has "${part.slice(0, 40)}" between its path and its target, which is no parameter such as id=:id`
    const [name, value] = [part.slice(0, equals), part.slice(equals + 1)]
    if (names.has(name)) return `names the parameter "${name.slice(0, 40)}" twice`
    const capture = captureOf(value)
    if (capture !== undefined && captures.has(capture)) return `uses the placeholder ":${capture.slice(0, 40)}" twice`
    if (capture !== undefined) captures.add(capture)
    names.add(name)
    conditions.push([name, value])
  }
  return conditions
}
