import { z } from 'zod'
import { conflict, invalid } from '../core/errors.ts'
import { isReservedSubdomain, parseSubdomain } from '../core/hostnames.ts'
import { maxSubdomainLength, minSubdomainLength } from '../core/limits.ts'

/** What `parseSubdomain` accepts, for the documents: a hyphen neither at the ends nor at both the third and the fourth place. */
const subdomainPattern = '^[A-Za-z0-9][A-Za-z0-9-](?:[A-Za-z0-9][A-Za-z0-9-]|-[A-Za-z0-9])[A-Za-z0-9-]{0,58}[A-Za-z0-9]$'

/** A subdomain as callers send it; what `readSubdomain` refuses is a 400 or 409 and not a 422. */
export const subdomainField = z
  .string()
  .meta({ minLength: minSubdomainLength, maxLength: maxSubdomainLength, pattern: subdomainPattern })
  .describe('5 to 63 letters, digits and hyphens; fewer than 9 need a paid plan.')

/**
 * The name in lower case.
 * @throws AppError `conflict` when it is reserved, `invalid` when it is no name
 */
export function readSubdomain(raw: string): string {
  const wanted = raw.toLowerCase()
  // some reserved names are too short for anyone, but "reserved" tells more
  if (isReservedSubdomain(wanted)) throw conflict(`the subdomain ${wanted} is reserved; choose another`)
  const parsed = parseSubdomain(wanted)
  if (!parsed.ok) throw invalid(`the subdomain ${parsed.reason}`)
  return parsed.subdomain
}
