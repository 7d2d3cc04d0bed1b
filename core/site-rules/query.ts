type Condition = readonly [name: string, value: string]

/** The name that a value `:name` captures; undefined when the value is meant literally. */
export const captureOf = (value: string) => (/^:[A-Za-z_]\w*$/.test(value) ? value.slice(1) : undefined)

/** What the query of a request gives the conditions of a rule; undefined when it does not meet them. */
export function matchQuery(conditions: readonly Condition[], parameters: URLSearchParams): string[] | undefined {
  const captures: string[] = []
  for (const [name, wanted] of conditions) {
    const value = parameters.get(name)
    if (value === null) return undefined
    if (captureOf(wanted) !== undefined) captures.push(value)
    else if (value !== wanted) return undefined
  }
  return captures
}
