import { placeholderName } from './path-pattern.ts'
import type { RedirectRule } from './rules.ts'

type Conditions = NonNullable<RedirectRule['query']>

/** The names of what the conditions capture: values such as `:id`. */
export const queryNames = (conditions: Conditions) => conditions.flatMap(([, value]) => placeholderName(value) ?? [])

/**
 * Parses `name=value` parts; a text says why they are none, to follow the place.
 *
 * @param taken names that the path captures
 */
export function parseConditions(parts: readonly string[], taken: readonly string[]): Conditions | string {
  const conditions: [string, string][] = []
  const names = new Set<string>()
  const captures = new Set(taken)
  for (const part of parts) {
    const equals = part.indexOf('=')
    if (equals < 1) return `has "${part.slice(0, 40)}" between its path and its target, which is no parameter such as id=:id`
    const [name, value] = [part.slice(0, equals), part.slice(equals + 1)]
    const capture = placeholderName(value)
    if (names.has(name)) return `names the parameter ${name.slice(0, 40)} twice`
    if (capture !== undefined && captures.has(capture)) return `uses the placeholder :${capture.slice(0, 40)} twice`
    if (capture !== undefined) captures.add(capture)
    names.add(name)
    conditions.push([name, value])
  }
  return conditions
}

/** What a query gives the conditions of a rule. Undefined when it lacks a parameter, or has one that the rule does not name. */
export function matchQuery(conditions: Conditions, parameters: URLSearchParams): string[] | undefined {
  const captures: string[] = []
  for (const [name, wanted] of conditions) {
    const value = parameters.get(name)
    if (value === null) return undefined
    if (placeholderName(wanted) !== undefined) captures.push(value)
    else if (value !== wanted) return undefined
  }
  for (const name of parameters.keys()) if (!conditions.some(([known]) => known === name)) return undefined
  return captures
}
