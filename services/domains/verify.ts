import { domainAllows, isVerified } from '../../core/domain-state.ts'
import { secondsUntil, tooManyRequests } from '../../core/errors.ts'
import { maxLookUpsPerPause } from '../../core/limits.ts'
import type { Config } from '../../infra/config.ts'
import { orderRetrySignal } from '../../workflows/contract/certificates.ts'
import { domainChangedSignal } from '../../workflows/contract/domains.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { takeAllowance } from '../rates.ts'
import type { Services } from '../services.ts'
import { inTrash } from '../sites/sites.ts'
import { type Tx, transact } from '../transact.ts'
import { signalWorkflows, startWorkflow } from '../workflow-messages.ts'
import { connectionStart } from './attach.ts'
import { lookUpAllowance } from './claims.ts'
import { reopenDomain } from './connecting.ts'
import {
  certificateStatusOf,
  type DomainRecord,
  findDomain,
  noSuchDomain,
  proveDomain,
  saveFindings,
  stateOf,
  takeLookUp,
  withDomain,
} from './domains.ts'
import type { DomainLook } from './look-up.ts'

/**
 * Takes one look-up from the allowances of the domain and of its project. False when the domain was looked up a moment ago.
 * @throws AppError `too_many_requests` when too many domains of the project were looked up
 */
export function takeLookUps(services: Services, { id, project_id }: Pick<DomainRecord, 'id' | 'project_id'>): Promise<boolean> {
  const { checkIntervalMs } = services.config.dns
  return transact(services, async (tx) => {
    const now = services.clock()
    if (!(await takeLookUp(tx, project_id, id, now, checkIntervalMs))) return false
    const next = await takeAllowance(tx, lookUpAllowance(project_id, checkIntervalMs), now)
    if (!next) return true
    const seconds = secondsUntil(next, now)
    throw tooManyRequests(
      `${maxLookUpsPerPause} domains of the project were looked up within ${checkIntervalMs / 1000} s: try again in ${seconds} s`,
      seconds,
      'rate_look_ups',
    )
  })
}

/**
 * Stores the result of a look-up by the owner. The first proof changes the route, and the workflow of the domain continues.
 * @throws AppError `not_found`; `conflict` when the site is in the trash
 */
export async function saveLook(services: Services, domainId: string, look: DomainLook): Promise<DomainRecord> {
  const saved = await withDomain(services, domainId, async (tx, before) => {
    if (before.trashed) throw inTrash()
    if (look.ownership === 'proven') await prove(tx, services, before, look)
    else await saveFindings(tx, domainId, look)
    const after = await findDomain(tx, before.project_id, domainId)
    if (after && mayBeCertified(services.config, after))
      await signalWorkflows(tx, [orderRetrySignal({ order_id: after.order_id })])
    return after
  })
  if (!saved) throw noSuchDomain()
  return saved
}

/** Whether an order waits after a failure whose cause seems to be fixed. */
const mayBeCertified = (config: Config, domain: DomainRecord): domain is DomainRecord & { order_id: string } =>
  domain.order_id !== null &&
  certificateStatusOf(config, domain) === 'error' &&
  domain.a_record?.ok === true &&
  (domain.diagnostics ?? []).every(({ ok }) => ok)

async function prove(tx: Tx, services: Services, before: DomainRecord, look: DomainLook): Promise<void> {
  const { config, clock, log } = services
  const { id: domain_id, attempt, domain, site_id } = before
  if (!(await proveDomain(tx, domain_id, look, clock()))) throw noSuchDomain()
  if (domainAllows('reopen', stateOf(config, before))) {
    await reopenDomain(tx, { domain_id, attempt })
    await startWorkflow(tx, connectionStart(services, { ...before, attempt: attempt + 1 }))
  } else if (!isVerified(before)) await signalWorkflows(tx, [domainChangedSignal({ domain_id, attempt })])
  if (isVerified(before)) return
  await bumpRoutes(tx, { site_id })
  tx.afterCommit(() => log.info({ domain_id, domain }, 'domain verified'))
}
