import { randomBytes } from 'node:crypto'
import { replacedEmail } from '../../core/domain-emails.ts'
import { isVerified } from '../../core/domain-state.ts'
import { readable } from '../../core/emails.ts'
import { conflict } from '../../core/errors.ts'
import { unprovenDomainPeriodMs } from '../../core/limits.ts'
import { domainChangedSignal, domainStart } from '../../workflows/contract/domains.ts'
import { notifyOwner } from '../notifications/notifications.ts'
import { suspended, withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { inTrash, lockSite, type SiteRow } from '../sites/sites.ts'
import type { Tx } from '../transact.ts'
import { signalWorkflows, startWorkflow } from '../workflow-messages.ts'
import { resumeClaim } from './claims.ts'
import { removeUnproven } from './detach.ts'
import {
  type AttachedDomain,
  type DomainRecord,
  findAttached,
  findDomain,
  insertDomain,
  noSuchDomain,
  type WantedDomain,
} from './domains.ts'
import { checkDomainClaims, checkDomainQuota } from './quotas.ts'

/**
 * Attaches a domain to a site, and starts the workflow that connects it. An unproven claim of another project is replaced after its time.
 * @param domain a name that `parseDomain` has accepted
 * @throws AppError in the specification's order: `conflict` when it is attached, suspension, the quota, the trash, claims and rate
 */
export function attachDomain(
  services: Services,
  { id: site_id, project_id }: Pick<SiteRow, 'id' | 'project_id'>,
  domain: string,
): Promise<DomainRecord> {
  const { config, clock, log } = services
  return withProject(services, project_id, async (tx, project) => {
    const now = clock()
    const site = await lockSite(tx, project_id, site_id)
    const wanted = { domain, project_id }
    const unprovenBefore = new Date(now.getTime() - unprovenDomainPeriodMs)
    const attached = await findAttached(tx, wanted, unprovenBefore)
    if (attached) throw attachedElsewhere(wanted, attached)
    if (project.suspended) throw suspended(project)
    await checkDomainQuota(tx, services, project)
    if (!site || site.deletion_scheduled_at) throw inTrash()
    await checkDomainClaims(tx, services, project, domain)

    await replaceUnproven(tx, services, wanted, { before: unprovenBefore, now })
    const row = await insertDomain(
      tx,
      { ...wanted, ...(await resumeClaim(tx, wanted, now)), site_id, verification_token: randomBytes(32).toString('hex') },
      { now, next_check_at: new Date(now.getTime() + config.dns.checkIntervalMs) },
    )
    if (!row) throw justTaken(domain)
    const record = await findDomain(tx, project_id, row.id)
    if (!record) throw noSuchDomain()
    await startWorkflow(tx, connectionStart(services, record))
    tx.afterCommit(() => log.info({ domain_id: row.id, site_id, domain }, 'domain added'))
    return record
  })
}

/** Ends the claim of another project that has not proved the domain in time, and emails its owner. */
async function replaceUnproven(
  tx: Tx,
  services: Services,
  wanted: WantedDomain,
  times: { readonly before: Date; readonly now: Date },
): Promise<void> {
  const replaced = await removeUnproven(tx, wanted, times)
  if (!replaced) return
  await signalWorkflows(tx, [domainChangedSignal({ domain_id: replaced.id, attempt: replaced.attempt })])
  await notifyOwner(tx, services, replaced, replacedEmail(wanted.domain))
}

function attachedElsewhere({ domain, project_id }: WantedDomain, found: AttachedDomain) {
  const taken = (reason: string) => conflict(`the domain ${domain} is attached already: ${reason}`, 'domain_taken')
  if (found.project_id === project_id) {
    const place = `your site ${found.site_name} (${found.site_id})`
    return taken(
      found.trashed
        ? `${place} in the trash has it; restore the site to delete the domain there`
        : `${place} has it; delete it there first`,
    )
  }
  if (isVerified(found)) return taken('another project has proved that it owns it; use another domain')
  const end = new Date(found.claimed_at.getTime() + unprovenDomainPeriodMs)
  return taken(
    `another project has added it without a proof; unless it proves it before, its claim ends on ${readable(end)}, and you can add it then`,
  )
}

/** Another project has added it at the same moment. */
const justTaken = (domain: string) =>
  conflict(`the domain ${domain} is attached already: another project has just added it`, 'domain_taken')

/** The workflow of an attempt to connect the domain. */
export const connectionStart = ({ config }: Services, domain: DomainRecord) =>
  domainStart({ ...domain, domain_id: domain.id, check_interval_ms: config.dns.checkIntervalMs })
