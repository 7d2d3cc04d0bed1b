import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { replacedLetter } from '../../core/domain-letters.ts'
import { maxDomainTextLength, parseDomain } from '../../core/domains.ts'
import { conflict, invalid, tooManyRequests } from '../../core/errors.ts'
import { maxLookUpsPerPause, unprovenDomainPeriodMs } from '../../core/limits.ts'
import type { Config } from '../../infra/config.ts'
import type { Tx } from '../../infra/db/database.ts'
import { isPublicSuffix, toAsciiDomain } from '../../infra/dns/names.ts'
import { lookUpAllowance, resumeClaim } from '../../services/domains/claims.ts'
import { reopenDomain } from '../../services/domains/connecting.ts'
import {
  type DomainRecord,
  deleteDomain,
  findDomain,
  insertDomain,
  isDomainAttached,
  listDomains,
  lockSiteOfDomain,
  proveDomain,
  removeUnproven,
  saveFindings,
  takeLookUp,
} from '../../services/domains/domains.ts'
import type { DomainLook } from '../../services/domains/look-up.ts'
import { bumpRoutes } from '../../services/feeds/routes.ts'
import { takeAllowance } from '../../services/projects/allowances.ts'
import { lockProject } from '../../services/projects/projects.ts'
import { lockSite } from '../../services/sites/sites.ts'
import { insertWorkflowSignals, insertWorkflowStart } from '../../services/workflow-messages.ts'
import { orderRetrySignal } from '../../workflows/contract/certificates.ts'
import { domainChangedSignal, domainStart } from '../../workflows/contract/domains.ts'
import { queueMailToOwner } from '../../workflows/mails.ts'
import { inTrash } from '../accept-deploy.ts'
import type { Context } from '../context.ts'
import { checkDomainClaims, checkDomainQuota, secondsUntil } from '../gates.ts'
import { suspended } from '../invoke.ts'
import { operation } from '../operation.ts'
import {
  Domain,
  domain_id,
  domainOfCaller,
  domainView,
  domainViews,
  findings,
  findingsOf,
  noSuchDomain,
} from '../views/domain.ts'
import { Ok, site_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Domains'

export const list_domains = operation({
  id: 'list_domains',
  title: 'List domains',
  summary: 'The custom domains of a site, with the records that each needs and what was found of them.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/domains',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: z.array(Domain),
  handler: async (ctx, { site_id }) => domainViews(ctx.config, await listDomains(ctx.db, ctx.caller.project_id, site_id)),
})

export const set_custom_domain = operation({
  id: 'set_custom_domain',
  title: 'Add a domain',
  summary:
    'Attaches a domain to a site and answers the records to add: TXT proves the ownership, A leads visitors here. The platform looks for them by itself; verify_domain looks at once.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/domains',
  tool: {},
  scope: 'editor',
  input: z.object({
    site_id,
    domain: z
      .string()
      .meta({ minLength: 3, maxLength: maxDomainTextLength, pattern: '^[^\\s\\u0000-\\u001f/:@]+\\.[^\\s\\u0000-\\u001f/:@]+$' })
      .describe('Only the name, such as www.example.com.'),
  }),
  example: { domain: 'www.example.com' },
  load: siteOfCaller,
  output: Domain,
  errors: [400, 402, 409, 429],
  handler: async (ctx, input, site) => {
    const domain = parsed(ctx.config, input.domain)
    const row = await ctx.db.transaction().execute((tx) => attach(tx, ctx, { site_id: site.id, domain }))
    ctx.relay.wake()
    ctx.log.info({ domain_id: row.id, site_id: site.id, domain }, 'domain added')
    return domainView(ctx.config, row)
  },
})

/** @throws AppError `invalid` */
function parsed({ urls, acme }: Config, text: string): string {
  const ownHosts = [urls.base, urls.mcp, urls.preview].map((url) => new URL(url).hostname)
  // what is longer than any name is not worth a conversion
  const ascii = text.length > maxDomainTextLength ? text : toAsciiDomain(text)
  const verdict = parseDomain(ascii, {
    ownHosts: [urls.platformDomain, ...ownHosts, ...(acme.dns ? [acme.dns.zone] : [])],
    isPublicSuffix,
    allowWildcard: acme.dns !== undefined,
  })
  if (!verdict.ok) throw invalid(`the domain ${verdict.reason}`)
  return verdict.domain
}

/** The gates in the specification's order, then the row and the start of its workflow. */
async function attach(tx: Tx, ctx: Context, { site_id, domain }: { site_id: string; domain: string }): Promise<DomainRecord> {
  const now = ctx.clock()
  const project = await lockProject(tx, ctx.caller.project_id)
  const site = await lockSite(tx, project.id, site_id)
  const wanted = { domain, project_id: project.id }
  const unprovenBefore = new Date(now.getTime() - unprovenDomainPeriodMs)
  if (await isDomainAttached(tx, wanted, unprovenBefore)) throw attached(domain)
  await checkDomainQuota(tx, ctx, project)
  if (project.suspended) throw suspended()
  if (!site || site.deletion_scheduled_at) throw inTrash()
  await checkDomainClaims(tx, ctx, project, domain)

  const replaced = await removeUnproven(tx, wanted, { before: unprovenBefore, now })
  if (replaced) {
    await insertWorkflowSignals(tx, [domainChangedSignal({ domain_id: replaced.id, attempt: replaced.attempt })])
    await queueMailToOwner(tx, replaced.project_id, replacedLetter(domain), { sender: ctx.config.mail.from, now })
  }
  const { checkIntervalMs } = ctx.config.dns
  const row = await insertDomain(
    tx,
    { ...wanted, ...(await resumeClaim(tx, wanted, now)), site_id, verification_token: randomBytes(32).toString('hex') },
    { now, next_check_at: new Date(now.getTime() + checkIntervalMs) },
  )
  if (!row) throw attached(domain)
  const record = await findDomain(tx, project.id, row.id)
  if (!record) throw noSuchDomain()
  await insertWorkflowStart(tx, startOf(ctx, record))
  return record
}

const attached = (domain: string) =>
  conflict(`the domain ${domain} is attached to a site already: delete it there first, or use another`)

const startOf = ({ config }: Context, domain: DomainRecord) =>
  domainStart({ ...domain, domain_id: domain.id, check_interval_ms: config.dns.checkIntervalMs })

export const verify_domain = operation({
  id: 'verify_domain',
  title: 'Verify a domain',
  summary:
    'Looks the records of a domain up at once. It is verified when the TXT record is there; everything else is only told. Once in 10 seconds.',
  tag,
  rest: 'POST /api/v1/domains/{domain_id}/verify',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ domain_id }),
  load: domainOfCaller,
  output: z
    .object({
      verified: z.boolean(),
      message: z.string().describe('What was found of the TXT record, and what to do.'),
      ...findings,
      a_record: findings.a_record.describe('Null when a verified domain was looked up less than 10 seconds ago.'),
    })
    .meta({ id: 'Verification' }),
  errors: [409, 429],
  handler: async (ctx, { domain_id }, domain) => {
    if (domain.trashed) throw inTrash()
    const isTaken = await ctx.db.transaction().execute((tx) => takeLookUps(tx, ctx, domain_id))
    if (!isTaken) return await throttled(ctx, domain_id)
    const look = await ctx.lookUpDomain(domain)
    const row = await ctx.db.transaction().execute((tx) => takeLook(tx, ctx, domain_id, look))
    ctx.relay.wake()
    if (!domain.verified_at && row.verified_at) ctx.log.info({ domain_id, domain: domain.domain }, 'domain verified')
    return { verified: row.verified_at !== null, message: look.message, ...findingsOf(ctx.config, row) }
  },
})

/**
 * Takes one look-up of the domain and one of its project. False when the domain was looked up a moment ago.
 * @throws AppError `too_many_requests` when many domains of the project were
 */
async function takeLookUps(tx: Tx, ctx: Context, domainId: string): Promise<boolean> {
  const { project_id } = ctx.caller
  const { checkIntervalMs } = ctx.config.dns
  const now = ctx.clock()
  if (!(await takeLookUp(tx, project_id, domainId, now, checkIntervalMs))) return false
  const next = await takeAllowance(tx, lookUpAllowance(project_id, checkIntervalMs), now)
  if (!next) return true
  const seconds = secondsUntil(next, now)
  throw tooManyRequests(
    `${maxLookUpsPerPause} domains of the project were looked up within ${checkIntervalMs / 1000} s: try again in ${seconds} s`,
    seconds,
  )
}

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
  if (row.verified_at === null) throw tooManyRequests(message, seconds)
  return { verified: true, message, ...findingsOf(ctx.config, row), a_record: null }
}

/** Writes what was found; the first proof changes the route, and the workflow of the domain goes on. */
async function takeLook(tx: Tx, ctx: Context, domainId: string, look: DomainLook): Promise<DomainRecord> {
  const before = await lockSiteOfDomain(tx, domainId)
  if (!before) throw noSuchDomain()
  if (before.trashed) throw inTrash()
  if (look.ownership === 'proven') await prove(tx, ctx, before, look)
  else await saveFindings(tx, domainId, look)
  const after = await findDomain(tx, before.project_id, domainId)
  if (!after) throw noSuchDomain()
  if (mayBeCertified(after)) await insertWorkflowSignals(tx, [orderRetrySignal({ order_id: after.order_id })])
  return after
}

/** Whether an order waits after a failure whose cause seems to be mended. */
const mayBeCertified = (domain: DomainRecord): domain is DomainRecord & { order_id: string } =>
  domain.order_id !== null &&
  !domain.secured &&
  domain.certificate_error !== null &&
  domain.a_record?.ok === true &&
  (domain.diagnostics ?? []).every(({ ok }) => ok)

async function prove(tx: Tx, ctx: Context, before: DomainRecord, look: DomainLook): Promise<void> {
  const run = { domain_id: before.id, attempt: before.attempt }
  if (!(await proveDomain(tx, before.id, look, ctx.clock()))) throw noSuchDomain()
  if (hasEnded(ctx.config, before)) {
    await reopenDomain(tx, run)
    await insertWorkflowStart(tx, startOf(ctx, { ...before, attempt: before.attempt + 1 }))
  } else if (before.verified_at === null) await insertWorkflowSignals(tx, [domainChangedSignal(run)])
  if (before.verified_at === null) await bumpRoutes(tx, { site_id: before.site_id })
}

/** Whether the workflow of the domain has given up: looking for the proof, or having a certificate issued. */
const hasEnded = ({ acme }: Config, domain: DomainRecord) =>
  domain.verified_at === null
    ? domain.next_check_at === null
    : domain.connected_at !== null && acme.directory !== undefined && !domain.secured && domain.order_id === null

export const delete_domain = operation({
  id: 'delete_domain',
  title: 'Delete a domain',
  summary: 'Detaches a domain from its site, which stops answering there at once; its certificate is deleted.',
  tag,
  rest: 'DELETE /api/v1/domains/{domain_id}',
  tool: { confirm: true },
  scope: 'full',
  input: z.object({ domain_id }),
  load: domainOfCaller,
  output: Ok,
  handler: async (ctx, { domain_id }) => {
    const deleted = await ctx.db.transaction().execute(async (tx) => {
      const order_id = (await lockSiteOfDomain(tx, domain_id))?.order_id
      const row = await deleteDomain(tx, ctx.caller.project_id, domain_id, ctx.clock())
      if (!row) throw noSuchDomain()
      const order = order_id ? [orderRetrySignal({ order_id })] : []
      await insertWorkflowSignals(tx, [domainChangedSignal({ domain_id, attempt: row.attempt }), ...order])
      if (row.verified_at) await bumpRoutes(tx, { site_id: row.site_id })
      return row
    })
    ctx.relay.wake()
    ctx.log.info({ domain_id, site_id: deleted.site_id, domain: deleted.domain }, 'domain deleted')
    return { ok: true as const }
  },
})
