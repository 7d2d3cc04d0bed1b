import { readable, subdomainChangeEmail } from '../../core/emails.ts'
import { conflict, notFound, secondsUntil, tooManyRequests } from '../../core/errors.ts'
import { formerSubdomainPeriodMs, maxCancelledChanges } from '../../core/limits.ts'
import { siteUrl } from '../../infra/config.ts'
import { databaseTime } from '../../infra/db/database.ts'
import { cancelledSignal, subdomainChangeStart } from '../../workflows/contract/sites.ts'
import { queueEmailToOwner } from '../emails/emails.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { suspended, withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { signalWorkflows, startWorkflow } from '../workflow-messages.ts'
import { checkHeldSubdomains, requirePlanFor } from './quotas.ts'
import { lockLiveSite, type SiteRow } from './sites.ts'
import type { SubdomainChangeRow } from './subdomain-change-rows.ts'
import * as changes from './subdomain-change-rows.ts'
import { holdSubdomain, switchSubdomains, taken } from './subdomains.ts'

type Site = Pick<SiteRow, 'id' | 'project_id'>

/**
 * Reserves another subdomain, to which the site moves at `switch_at`, and emails the owner.
 * @throws AppError `conflict` when it is taken, or when another change is pending or recent; `too_many_requests`; from the limits of the plan
 */
export function requestSubdomainChange(
  services: Services,
  { id: site_id, project_id }: Site,
  wanted: string,
): Promise<SubdomainChangeRow> {
  const { config, clock, log } = services
  return withProject(services, project_id, async (tx, project) => {
    const now = clock()
    const site = await lockLiveSite(tx, project_id, site_id)
    if (site.subdomain === wanted) throw conflict(`the site has the subdomain ${wanted} already; choose another`)
    if (project.suspended) throw suspended(project)
    requirePause(services, await changes.findLastChange(tx, site_id), now)
    await requireFewCancelled(tx, services, site_id, now)
    if (!(await holdSubdomain(tx, wanted, { site_id, project_id }, 'pending', now))) throw taken(wanted)
    requirePlanFor(wanted, project.plan)
    await checkHeldSubdomains(tx, services, project, wanted)
    const requested_at = await databaseTime(tx)
    const switch_at = new Date(requested_at.getTime() + config.names.switchDelayMs)
    const names = { old_subdomain: site.subdomain, new_subdomain: wanted }
    const change = await changes.insertSubdomainChange(tx, { site_id, ...names, requested_at, switch_at })
    await announce(tx, services, { ...change, site_name: site.name, project_id })
    tx.afterCommit(() => log.info({ site_id, change_id: change.id, ...names, switch_at }, 'subdomain change requested'))
    return change
  })
}

/**
 * Cancels the pending change and returns the subdomain, which stays.
 * @throws AppError `not_found` when no change is pending; `conflict` when the site is in the trash
 */
export function cancelSubdomainChange(services: Services, { id: site_id, project_id }: Site): Promise<string> {
  const { config, clock, log } = services
  return transact(services, async (tx) => {
    const { subdomain } = await lockLiveSite(tx, project_id, site_id)
    const change = await changes.cancelSubdomainChange(tx, site_id, clock())
    if (!change) throw notFound(`no change of the subdomain is pending; the site is at ${siteUrl(config, subdomain)}`)
    const change_id = change.id
    await signalWorkflows(tx, [cancelledSignal({ site_id, change_id })])
    tx.afterCommit(() => log.info({ site_id, change_id }, 'subdomain change cancelled'))
    return subdomain
  })
}

/**
 * Moves the site to its new subdomain when the change is due, and notifies the edge with the commit. The row decides; may be repeated.
 * `early`: the instant has not come yet.
 */
export async function switchSubdomain(services: Services, changeId: string): Promise<'switched' | 'cancelled' | 'early'> {
  const { db, clock, log } = services
  const now = clock()
  const change = await changes.findSubdomainChange(db, changeId)
  if (!change || change.cancelled_at) return 'cancelled'
  if (change.switched_at) return 'switched'
  if (now < change.switch_at) return 'early'
  const { site_id, old_subdomain, new_subdomain } = change
  const switched = await transact(services, async (tx) => {
    await tx.selectFrom('sites').select('id').where('id', '=', site_id).forNoKeyUpdate().execute()
    const subdomain = await changes.markSwitched(tx, changeId, now)
    if (subdomain === undefined) return false
    await switchSubdomains(tx, site_id, new Date(now.getTime() + formerSubdomainPeriodMs))
    await tx.updateTable('sites').set({ subdomain, updated_at: now }).where('id', '=', site_id).execute()
    await bumpRoutes(tx, { site_id })
    tx.afterCommit(() => log.info({ site_id, change_id: changeId, old_subdomain, new_subdomain }, 'subdomain switched'))
    return true
  })
  // cancelled, or already done by another try
  return switched || (await changes.findSubdomainChange(db, changeId))?.switched_at ? 'switched' : 'cancelled'
}

/** @throws AppError `conflict` while a change is pending, and for a while after one that was not cancelled */
function requirePause({ config }: Services, last: SubdomainChangeRow | undefined, now: Date): void {
  if (!last) return
  if (!last.switched_at) {
    throw conflict(
      `a change to ${last.new_subdomain} at ${readable(last.switch_at)} is pending; cancel_site_subdomain_change ends it`,
    )
  }
  const next = new Date(last.requested_at.getTime() + config.names.changeIntervalMs)
  if (now < next) throw conflict(`the subdomain was changed recently; the next change is possible from ${readable(next)} on`)
}

/** @throws AppError `too_many_requests` when the latest changes were cancelled one after another */
async function requireFewCancelled(tx: Tx, { config }: Services, siteId: string, now: Date): Promise<void> {
  const { changeIntervalMs } = config.names
  const since = new Date(now.getTime() - changeIntervalMs)
  const cancelled = await changes.listCancelledChanges(tx, siteId, since, maxCancelledChanges)
  const oldest = cancelled[maxCancelledChanges - 1]?.cancelled_at
  if (!oldest) return
  const next = new Date(oldest.getTime() + changeIntervalMs)
  throw tooManyRequests(
    `${maxCancelledChanges} changes of the subdomain were cancelled not long ago; another change is possible from ${readable(next)} on`,
    secondsUntil(next, now),
    'rate_subdomain_changes',
  )
}

type AcceptedChange = SubdomainChangeRow & { readonly site_name: string; readonly project_id: string }

/** Emails the owner, and starts the wait for the switch. */
async function announce(tx: Tx, { config }: Services, { id, ...change }: AcceptedChange): Promise<void> {
  const email = subdomainChangeEmail({
    site_id: change.site_id,
    site_name: change.site_name,
    old_url: siteUrl(config, change.old_subdomain),
    new_url: siteUrl(config, change.new_subdomain),
    switch_at: change.switch_at,
  })
  await queueEmailToOwner(tx, change.project_id, email, { sender: config.mail.from, now: change.requested_at })
  await startWorkflow(tx, subdomainChangeStart({ ...change, change_id: id }))
}
