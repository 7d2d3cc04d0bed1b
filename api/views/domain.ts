import { z } from 'zod'
import { certificateStatuses, isVerified } from '../../core/domain-state.ts'
import {
  challengeAlias,
  challengeName,
  createPrimaries,
  type Diagnostics,
  diagnosisChecks,
  verificationName,
} from '../../core/domains.ts'
import { maxShownRecords } from '../../core/limits.ts'
import type { Config } from '../../infra/config.ts'
import { certificateStatusOf, type DomainRecord, findDomain, noSuchDomain } from '../../services/domains/domains.ts'
import { servingAddresses } from '../../services/domains/look-up.ts'
import type { Context } from '../context.ts'
import { writtenBy } from './authors.ts'
import { isoTime, isoTimeOrNull, time } from './fields.ts'

export const domain_id = z.uuid().describe('Id of the domain.')

const foreign = writtenBy('servers', z.string())
const addresses = z.array(z.string()).max(maxShownRecords)

const ARecord = z
  .object({ ok: z.boolean(), found: z.array(foreign).max(maxShownRecords), expected: addresses, message: foreign })
  .meta({ id: 'ARecord' })

const Diagnosis = z
  .object({
    check: z.enum(diagnosisChecks),
    ok: z.boolean(),
    found: z.array(foreign).max(maxShownRecords),
    message: writtenBy('servers', z.string().describe('The finding and, if something is wrong, what to do.')),
  })
  .meta({ id: 'Diagnosis' })

const Certificate = z
  .object({
    status: z.enum(certificateStatuses),
    expires_at: time.nullable(),
    error: writtenBy('servers', z.string().nullable().describe('Why the latest attempt failed.')),
    next_try_at: time.nullable(),
  })
  .meta({ id: 'Certificate' })

/** The findings of the latest look-up of a domain; null and empty before the first. */
export const findings = {
  a_record: ARecord.nullable().describe('Whether the A record leads visitors here; it never decides about `verified`.'),
  certificate: Certificate,
  diagnostics: z.array(Diagnosis).max(maxShownRecords).describe('Further checks; new ones may be added.'),
  next_check_at: time
    .nullable()
    .describe('When the platform looks again by itself; null when it has given up: call verify_domain then.'),
}

export const Domain = z
  .object({
    id: z.uuid(),
    site_id: z.uuid(),
    domain: z.string().describe('The name in lower case and punycode.'),
    verified: z.boolean().describe('Only a verified domain shows the site.'),
    verification_token: z.string(),
    txt: z
      .object({ type: z.literal('TXT'), name: z.string(), value: z.string() })
      .describe('The record that proves the ownership. Keep it: it is checked every day.'),
    a: z.object({ type: z.literal('A'), name: z.string(), values: addresses }).describe('The records that lead visitors here.'),
    cname: z
      .object({ type: z.literal('CNAME'), name: z.string(), value: z.string() })
      .nullable()
      .describe('The record that the certificate of a wildcard domain needs; null for other domains.'),
    warning: z.string().nullable().describe('What keeps every custom domain of this platform from being reached.'),
    redirects_to: z
      .string()
      .nullable()
      .describe('The domain of the site to which this one redirects, such as from www to the name without it.'),
    ...findings,
    created_at: time,
    verified_at: time.nullable(),
  })
  .meta({ id: 'Domain' })

/** @param row a domain for which the site's other domains do not matter, such as an unverified one */
export const domainView = (config: Config, row: DomainRecord) => viewOf(config, row, null)

/** All domains of one site, in the order in which they were added. */
export function domainViews(config: Config): (rows: readonly DomainRecord[]) => z.input<typeof Domain>[] {
  const primaryOf = createPrimaries()
  return (rows) => rows.map((row) => viewOf(config, row, isVerified(row) ? primaryOf(row) : null))
}

function viewOf(config: Config, row: DomainRecord, redirects_to: string | null): z.input<typeof Domain> {
  const { domain, verification_token } = row
  const zone = domain.startsWith('*.') ? config.acme.dns?.zone : undefined
  return {
    id: row.id,
    site_id: row.site_id,
    domain,
    verified: isVerified(row),
    verification_token,
    txt: { type: 'TXT', name: verificationName(domain), value: verification_token },
    a: { type: 'A', name: domain, values: servingAddresses(config) },
    cname: zone === undefined ? null : { type: 'CNAME', name: challengeName(domain), value: challengeAlias(domain, zone) },
    warning: loopbackWarning(config, domain),
    redirects_to,
    ...findingsOf(config, row),
    created_at: isoTime(row.created_at),
    verified_at: isoTimeOrNull(row.verified_at),
  }
}

/** Says what to do while the platform only knows loopback addresses, which lead visitors to their own machines. */
function loopbackWarning({ dns }: Config, domain: string): string | null {
  if (!dns.servingIps.every((address) => address.startsWith('127.') || address === '::1')) return null
  return `no visitor reaches the platform at ${dns.servingIps.join(', ')}: ask the operator to set PLINTH_SERVING_IPS, or instead of the A record create a CNAME record at ${domain} that points to a public name of the platform's machine`
}

export const findingsOf = (config: Config, row: DomainRecord) => ({
  a_record: row.a_record && { ...row.a_record, found: row.a_record.found.slice(0, maxShownRecords) },
  certificate: certificateOf(config, row),
  diagnostics: mutable(row.diagnostics ?? []),
  next_check_at: isoTimeOrNull(row.next_check_at),
})

function certificateOf(config: Config, row: DomainRecord): z.input<typeof Certificate> {
  const status = certificateStatusOf(config, row)
  if (status === 'none') return { status, expires_at: null, error: null, next_try_at: null }
  return {
    status,
    expires_at: status === 'issued' ? isoTimeOrNull(row.certificate_expires_at) : null,
    error: row.certificate_error,
    next_try_at: isoTimeOrNull(row.certificate_next_try_at),
  }
}

const mutable = (diagnostics: Diagnostics) =>
  diagnostics.map((diagnosis) => ({ ...diagnosis, found: diagnosis.found.slice(0, maxShownRecords) }))

/** @throws AppError `not_found` */
export async function domainOfCaller(ctx: Context, input: { domain_id: string }): Promise<DomainRecord> {
  const domain = await findDomain(ctx.db, ctx.caller.project_id, input.domain_id)
  if (!domain) throw noSuchDomain()
  return domain
}
