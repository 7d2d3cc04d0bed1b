import { z } from 'zod'
import { conflict, invalid } from '../core/errors.ts'
import { maxSubdomainLength, minSubdomainLength } from '../core/limits.ts'
import { isReservedSubdomain, parseSubdomain } from '../core/subdomain-names.ts'

/** The pattern of `parseSubdomain` for the OpenAPI document: no hyphen at the ends, nor as both third and fourth character. */
const subdomainPattern = '^[A-Za-z0-9][A-Za-z0-9-](?:[A-Za-z0-9][A-Za-z0-9-]|-[A-Za-z0-9])[A-Za-z0-9-]{0,58}[A-Za-z0-9]$'

/** A subdomain as callers send it; a refusal by `readSubdomain` is a 400 or 409, not a 422. */
export const subdomainField = z
  .string()
  .meta({ minLength: minSubdomainLength, maxLength: maxSubdomainLength, pattern: subdomainPattern })
  .describe('5 to 63 letters, digits and hyphens; fewer than 9 need a paid plan.')

/**
 * Returns the name in lower case.
 * @throws AppError `conflict` when it is reserved, `invalid` when it is no name
 */
export function readSubdomain(raw: string): string {
  const wanted = raw.toLowerCase()
  // some reserved names are also too short, but "reserved" says more
  if (isReservedSubdomain(wanted)) throw conflict(`the subdomain ${wanted} is reserved; choose another`, 'name_reserved')
  const parsed = parseSubdomain(wanted)
  if (!parsed.ok) throw invalid(`the subdomain ${parsed.reason}`)
  return parsed.subdomain
}
