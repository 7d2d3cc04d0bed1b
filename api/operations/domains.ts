import { z } from 'zod'
import { isVerified } from '../../core/domain-state.ts'
import { maxDomainTextLength, parseDomain } from '../../core/domains.ts'
import { invalid, secondsUntil, tooManyRequests } from '../../core/errors.ts'
import type { Config } from '../../infra/config.ts'
import { isPublicSuffix, toAsciiDomain } from '../../infra/dns/names.ts'
import { attachDomain } from '../../services/domains/attach.ts'
import { detachDomain } from '../../services/domains/detach.ts'
import { findDomain, noSuchDomain, readDomains } from '../../services/domains/domains.ts'
import { saveLook, takeLookUps } from '../../services/domains/verify.ts'
import type { Context } from '../context.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { writtenBy } from '../views/authors.ts'
import { Domain, domain_id, domainOfCaller, domainView, domainViews, findings, findingsOf } from '../views/domain.ts'
import { Ok, site_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Domains'

export const list_domains = operation({
  id: 'list_domains',
  title: 'List domains',
  summary: 'Lists the custom domains of a site, with the records that each needs and the findings of the latest look-up.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/domains',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: z.array(Domain),
  lists: [{ key: 'id' }],
  handler: async (ctx, { site_id }) => Listing.of(readDomains(ctx.db, ctx.caller.project_id, site_id), domainViews(ctx.config)),
})

export const set_custom_domain = operation({
  id: 'set_custom_domain',
  title: 'Add a domain',
  summary:
    'Adds a domain to a site and returns the DNS records to create: TXT proves the ownership, A leads visitors here. The platform looks for them by itself; verify_domain looks at once.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/domains',
  tool: {},
  scope: 'editor',
  input: z.object({
    site_id,
    domain: z
      .string()
      .meta({ minLength: 3, maxLength: maxDomainTextLength, pattern: '^[^\\s\\u0000-\\u001f/:@]+\\.[^\\s\\u0000-\\u001f/:@]+$' })
      .describe('The bare name, such as www.example.com.'),
  }),
  example: { domain: 'www.example.com' },
  load: siteOfCaller,
  output: Domain,
  errors: [400, 402, 409, 429],
  handler: async (ctx, input, site) => {
    const domain = parsed(ctx.config, input.domain)
    return domainView(ctx.config, await attachDomain(ctx, site, domain))
  },
})

/** @throws AppError `invalid` */
function parsed({ urls, acme }: Config, text: string): string {
  const ownHosts = [urls.base, urls.mcp, urls.preview].map((url) => new URL(url).hostname)
  // a text longer than any domain need not be converted
  const ascii = text.length > maxDomainTextLength ? text : toAsciiDomain(text)
  const verdict = parseDomain(ascii, {
    ownHosts: [urls.platformDomain, ...ownHosts, ...(acme.dns ? [acme.dns.zone] : [])],
    isPublicSuffix,
    allowWildcard: acme.dns !== undefined,
  })
  if (!verdict.ok) throw invalid(`the domain ${verdict.reason}`)
  return verdict.domain
}

export const verify_domain = operation({
  id: 'verify_domain',
  title: 'Verify a domain',
  summary:
    'Looks up the records of a domain at once. The TXT record alone verifies the domain; all other findings are only reported. Allowed once in 10 seconds.',
  tag,
  rest: 'POST /api/v1/domains/{domain_id}/verify',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ domain_id }),
  load: domainOfCaller,
  whenTrashed: 'refuse',
  output: z
    .object({
      verified: z.boolean(),
      message: writtenBy('servers', z.string().describe('The finding about the TXT record, and what to do.')),
      ...findings,
      a_record: findings.a_record.describe('Null when a verified domain was looked up less than 10 seconds ago.'),
    })
    .meta({ id: 'Verification' }),
  errors: [409, 429],
  handler: async (ctx, { domain_id }, domain) => {
    if (!(await takeLookUps(ctx, domain))) return await throttled(ctx, domain_id)
    const look = await ctx.lookUpDomain(domain)
    const row = await saveLook(ctx, domain_id, look)
    return { verified: isVerified(row), message: look.message, ...findingsOf(ctx.config, row) }
  },
})

/** @throws AppError `too_many_requests` for an unverified domain */
async function throttled(ctx: Context, domainId: string) {
  const row = await findDomain(ctx.db, ctx.caller.project_id, domainId)
  if (!row) throw noSuchDomain()
  const { checkIntervalMs } = ctx.config.dns
  const next = (row.looked_up_at?.getTime() ?? 0) + checkIntervalMs
  const now = ctx.clock()
  // the clock of another process may be ahead
  const seconds = secondsUntil(new Date(Math.min(next, now.getTime() + checkIntervalMs)), now)
  const message = `the domain was looked up less than ${checkIntervalMs / 1000} s ago: try again in ${seconds} s`
  if (!isVerified(row)) throw tooManyRequests(message, seconds, 'rate_look_ups')
  return { verified: true, message, ...findingsOf(ctx.config, row), a_record: null }
}

export const delete_domain = operation({
  id: 'delete_domain',
  title: 'Delete a domain',
  summary: 'Removes a domain from its site, which stops answering there at once. Its certificate is deleted.',
  tag,
  rest: 'DELETE /api/v1/domains/{domain_id}',
  tool: { confirm: true },
  scope: 'full',
  input: z.object({ domain_id }),
  load: domainOfCaller,
  output: Ok,
  handler: async (ctx, _input, domain) => {
    await detachDomain(ctx, domain)
    return { ok: true as const }
  },
})
