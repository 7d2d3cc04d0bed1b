const maxDomainLength = 253
/** The longest domain with a leading `*.` and a final dot; a longer text is no domain in any script. */
export const maxDomainTextLength = maxDomainLength + 3
const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
const onlyDigits = /^(?:\d+|0x[0-9a-f]*)$/

export interface DomainRules {
  /** Names of the platform itself: its domain, the base host and the preview host. No custom domain may be above or below them. */
  readonly ownHosts: readonly string[]
  readonly isPublicSuffix: (name: string) => boolean
  /** Whether a leading `*.` is permitted; refused when absent. */
  readonly allowWildcard?: boolean
}

export type DomainVerdict = { readonly ok: true; readonly domain: string } | { readonly ok: false; readonly reason: string }

/**
 * Lower-cases and checks a custom domain (addendum E14): LDH labels of 1 to 63 characters, at least two of them, no IP address,
 * no name of the platform and no public suffix. One final dot is dropped.
 *
 * @param ascii the name after IDNA, as `toAsciiDomain` returns it; empty when the name has no ASCII form
 */
export function parseDomain(ascii: string, { ownHosts, isPublicSuffix, allowWildcard = false }: DomainRules): DomainVerdict {
  const refuse = (reason: string) => ({ ok: false, reason }) as const
  const domain = ascii.toLowerCase().replace(/\.$/, '')
  const isWildcard = domain.startsWith('*.')
  const host = isWildcard ? domain.slice(2) : domain
  if (domain === '') return refuse('is not a domain name: enter only the name, such as www.example.com')
  if (isWildcard && !allowWildcard)
    return refuse('may not be a wildcard, for which this platform has no certificates: add each name on its own')
  if (domain.length > maxDomainLength) return refuse(`is too long: use at most ${maxDomainLength} characters`)
  const labels = host.split('.')
  if (labels.some((part) => part.length > 63))
    return refuse('has a part that is too long: use at most 63 characters between two dots')
  if (/[^a-z0-9.-]/.test(host))
    return refuse('may have only letters, digits, hyphens and dots: enter only the name, without https://')
  if (!labels.every((part) => label.test(part)))
    return refuse('may not have an empty part, nor a hyphen at the start or end of a part')
  if (onlyDigits.test(labels.at(-1) ?? '')) return refuse('is an address: enter a domain name, such as www.example.com')
  if (labels.length < 2) return refuse('is incomplete: it needs at least two parts, such as example.com')
  const own = ownHosts.find((ownHost) => isSameOrUnder(host, ownHost) || isSameOrUnder(ownHost, host))
  if (own !== undefined) return refuse(`belongs to the platform (${own}): use a domain of your own`)
  if (isPublicSuffix(host)) return refuse('is a public suffix, under which others register names: use a domain of your own')
  return { ok: true, domain }
}

const isSameOrUnder = (name: string, parent: string) => name === parent || name.endsWith(`.${parent}`)
const withoutWildcard = (domain: string) => domain.replace(/^\*\./, '')

/**
 * Pairs each of a site's domains with the one that it redirects to. Of a name and its `www.` counterpart, the one added first is primary
 * and the other redirects to it; but a name with a certificate never redirects to one without.
 *
 * @param domains the verified domains, in the order in which they were added
 */
export function withPrimaries(
  domains: readonly VerifiedDomain[],
): { readonly domain: string; readonly primary: string | null }[] {
  const primaryOf = createPrimaries()
  return domains.map((verified) => ({ domain: verified.domain, primary: primaryOf(verified) }))
}

export interface VerifiedDomain {
  readonly domain: string
  readonly secured: boolean
}

/** Finds the primary domain of each verified domain, as {@link withPrimaries} does, when they are handed over one by one in their order. */
export function createPrimaries(): (verified: VerifiedDomain) => string | null {
  const earlier = new Map<string, VerifiedDomain>()
  return (verified) => {
    const { domain, secured } = verified
    const primary = earlier.get(domain.startsWith('www.') ? domain.slice('www.'.length) : `www.${domain}`)
    if (!earlier.has(domain)) earlier.set(domain, verified)
    return primary && (primary.secured || !secured) ? primary.domain : null
  }
}

/** The name of the TXT record that proves ownership. */
export const verificationName = (domain: string) => `_svc-verify.${withoutWildcard(domain)}`

export const challengePrefix = '_acme-challenge'

/** Where a certificate authority looks for the TXT record of a DNS-01 challenge (RFC 8555, 8.4). */
export const challengeName = (domain: string) => `${challengePrefix}.${withoutWildcard(domain)}`

/** The target of an owner's CNAME at `challengeName`, so that the name server of the zone answers the challenge. */
export const challengeAlias = (domain: string, zone: string) => `${challengeName(domain)}.${zone}`

/** Whether any TXT record is the token. Records have their chunks joined; quotes that a DNS panel put around a value are dropped. */
export function txtMatches(records: readonly string[], token: string): boolean {
  return token !== '' && records.some((record) => trimQuotes(record) === token)
}

export const trimQuotes = (text: string) =>
  text
    .trim()
    .replace(/^"(.*)"$/s, '$1')
    .trim()

export interface ARecordVerdict {
  readonly ok: boolean
  readonly found: string[]
  readonly expected: string[]
  readonly message: string
}

/** Whether a domain's A records point to the platform and nowhere else (addendum E14). This never decides about ownership. */
export function judgeA(found: readonly string[], expected: readonly string[]): ARecordVerdict {
  const wrong = found.filter((address) => !expected.includes(address))
  const wanted = expected.join(', ')
  const verdict = (ok: boolean, message: string) => ({ ok, found: [...found], expected: [...expected], message })
  if (found.length === 0) return verdict(false, `no A record that visitors can reach was found: add one with the value ${wanted}`)
  if (wrong.length === found.length) return verdict(false, `the A record points to ${wrong.join(', ')}: change it to ${wanted}`)
  if (wrong.length > 0)
    return verdict(false, `some visitors are sent elsewhere: remove the A record ${wrong.join(', ')} and keep ${wanted}`)
  return verdict(true, 'the A record points to this platform')
}

/** One check of a domain, shown to its owner; it never decides about ownership. */
export interface Diagnosis {
  readonly check: DiagnosisCheck
  readonly ok: boolean
  readonly found: readonly string[]
  readonly message: string
}

/** `port_80`: whether the platform's token is served there, where the certificate authority will request it. */
export const diagnosisChecks = ['txt', 'aaaa', 'cname', 'caa', 'name_servers', 'port_80'] as const
export type DiagnosisCheck = (typeof diagnosisChecks)[number]
export type Diagnostics = readonly Diagnosis[]

export interface CaaRecord {
  /** 128 marks a critical property: an authority that does not understand it must refuse. */
  readonly flags: number
  readonly tag: string
  readonly value: string
}

export type CaaVerdict = { readonly ok: true } | { readonly ok: false; readonly message: string }

const knownTags = ['issue', 'issuewild', 'issuemail', 'issuevmc', 'iodef', 'contactemail', 'contactphone']

/**
 * Whether CAA records permit one of the authority's names to issue (RFC 8659). Parameters such as `accounturi` are not evaluated.
 *
 * @param records the records of the name itself or, when it has none, of its nearest parent with some
 * @param issuers the names of the certificate authority; while they are unknown, nothing is refused
 */
export function caaAllows(
  records: readonly CaaRecord[],
  issuers: readonly string[],
  { isWildcard = false }: { readonly isWildcard?: boolean } = {},
): CaaVerdict {
  const tagged = (tag: string) => records.filter((record) => record.tag.toLowerCase() === tag)
  const unknown = records.find(({ flags, tag }) => (flags & 128) !== 0 && !knownTags.includes(tag.toLowerCase()))
  if (unknown)
    return {
      ok: false,
      message: `a CAA record has the critical property ${unknown.tag}, which no certificate authority may ignore: remove it`,
    }
  const wild = isWildcard ? tagged('issuewild') : []
  const deciding = wild.length > 0 ? wild : tagged('issue')
  const named = deciding.map(({ value }) => value.split(';')[0]?.trim().toLowerCase())
  if (deciding.length === 0 || issuers.length === 0 || issuers.some((issuer) => named.includes(issuer.toLowerCase())))
    return { ok: true }
  const tag = wild.length > 0 ? 'issuewild' : 'issue'
  return { ok: false, message: `CAA records forbid the certificate: add one with the tag ${tag} and the value ${issuers[0]}` }
}
