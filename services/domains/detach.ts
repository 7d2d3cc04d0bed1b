import { isVerified } from '../../core/domain-state.ts'
import { orderRetrySignal } from '../../workflows/contract/certificates.ts'
import { domainChangedSignal } from '../../workflows/contract/domains.ts'
import { isUnverifiedDomain } from '../domain-predicates.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { signalWorkflows } from '../workflow-messages.ts'
import { keepClaims } from './claims.ts'
import { type DomainRecord, type DomainRow, noSuchDomain, type WantedDomain, withDomain } from './domains.ts'

/** Removes a row that {@link findAttached} does not count; undefined when there is none. */
export async function removeUnproven(
  tx: Tx,
  { domain, project_id }: WantedDomain,
  { before, now }: { readonly before: Date; readonly now: Date },
): Promise<DomainRow | undefined> {
  const removed = await tx
    .deleteFrom('domains')
    .where('domain', '=', domain)
    .where('project_id', '!=', project_id)
    .where(isUnverifiedDomain)
    .where('claimed_at', '<', before)
    .returningAll()
    .execute()
  await keepClaims(tx, removed, now)
  return removed[0]
}

/** Deletes a domain with its certificate. Undefined when the project has no such domain. The caller holds the lock of the site. */
async function deleteDomain(tx: Tx, projectId: string, id: string, now: Date): Promise<DomainRow | undefined> {
  const deleted = await tx.deleteFrom('domains').where('project_id', '=', projectId).where('id', '=', id).returningAll().execute()
  await keepClaims(tx, deleted, now)
  return deleted[0]
}

/** Detaches every domain of the site with its certificate, under the site's lock. */
export async function deleteDomainsOfSite(tx: Tx, siteId: string, now: Date): Promise<DomainRow[]> {
  const deleted = await tx.deleteFrom('domains').where('site_id', '=', siteId).returningAll().execute()
  await keepClaims(tx, deleted, now)
  return deleted
}

/** Detaches a domain and deletes its certificate. The edge is notified with the commit. @throws AppError `not_found` */
export async function detachDomain(
  services: Services,
  { id: domain_id, project_id }: Pick<DomainRecord, 'id' | 'project_id'>,
): Promise<void> {
  const { clock, log } = services
  const isDetached = await withDomain(services, domain_id, async (tx, { order_id }) => {
    const row = await deleteDomain(tx, project_id, domain_id, clock())
    if (!row) return false
    const { site_id, domain } = row
    const order = order_id ? [orderRetrySignal({ order_id })] : []
    await signalWorkflows(tx, [domainChangedSignal({ domain_id, attempt: row.attempt }), ...order])
    if (isVerified(row)) await bumpRoutes(tx, { site_id })
    tx.afterCommit(() => log.info({ domain_id, site_id, domain }, 'domain deleted'))
    return true
  })
  if (!isDetached) throw noSuchDomain()
}
