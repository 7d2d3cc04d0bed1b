const maxNamed = 10
const namePattern = /^[A-Za-z0-9_.-]{1,64}$/

/** Members or parameters that a request has, and those that its operation has. */
export interface GivenMembers {
  readonly given: Iterable<string>
  readonly known: readonly string[]
}

/**
 * The names of the first ten members that the operation does not have, so that a misspelt one is noticed. Names of another form would not fit
 * into a header, and are left out.
 */
export function ignoredMembers(...parts: readonly GivenMembers[]): string[] {
  const ignored = new Set<string>()
  for (const { given, known } of parts) {
    for (const name of given) {
      if (known.includes(name) || !namePattern.test(name)) continue
      ignored.add(name)
      if (ignored.size === maxNamed) return [...ignored]
    }
  }
  return [...ignored]
}
