import { lostEmail, missingEmail } from '../../core/domain-emails.ts'
import { isVerified } from '../../core/domain-state.ts'
import { domainProofPeriodMs, domainRecheckMs } from '../../core/limits.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { notifyOwner } from '../notifications/notifications.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { startWorkflow } from '../workflow-messages.ts'
import { connectionStart } from './attach.ts'
import { loseDomain, markMissing } from './connecting.ts'
import { type DomainRecord, type DomainRow, nextRecheck, proveDomain, saveFindings, withDomain } from './domains.ts'
import type { DomainLook } from './look-up.ts'

/** The pause when the name servers did not answer. */
const unknownPauseMs = 3_600_000

/** The result of a daily check of a verified domain. */
export type Recheck = 'proven' | 'missing' | 'lost' | 'unknown'

/**
 * Stores the result of the daily ownership check of a verified domain (addendum E14). The verification ends when the TXT record stays missing for
 * the grace period; the owner gets an email first.
 * @param due the domain before the look-up
 */
export async function recheckDomain(services: Services, due: DomainRow, look: DomainLook): Promise<Recheck> {
  const now = services.clock()
  const found = await withDomain(services, due.id, async (tx, domain): Promise<Recheck> => {
    // a change in the meantime is based on a later look-up
    if (domain.attempt !== due.attempt || !isVerified(domain)) return 'unknown'
    if (domain.proven_at?.getTime() !== due.proven_at?.getTime()) return 'proven'
    if (look.ownership === 'proven') {
      await proveDomain(tx, domain.id, look, now)
      return 'proven'
    }
    if (look.ownership === 'unknown') {
      await saveFindings(tx, domain.id, look, new Date(now.getTime() + unknownPauseMs))
      return 'unknown'
    }
    await saveFindings(tx, domain.id, look, nextRecheck(now))
    return (await lose(tx, services, domain, now)) ? 'lost' : 'missing'
  })
  return found ?? 'unknown'
}

/** Ends the verification of a domain whose record is missing, when its grace is over. */
async function lose(tx: Tx, services: Services, domain: DomainRecord, now: Date): Promise<boolean> {
  const { config, log } = services
  const { site_id, site_name } = domain
  const run = { domain_id: domain.id, attempt: domain.attempt }
  if (await markMissing(tx, run, now)) {
    const text = missingEmail(domain.domain, site_name, lastMoment(domain.proven_at ?? now, now))
    await notifyOwner(tx, services, domain, text)
    tx.afterCommit(() => log.info({ ...run, domain: domain.domain }, 'proof of the domain missing'))
    return false
  }
  if (!(await loseDomain(tx, run, now, new Date(now.getTime() + config.dns.checkIntervalMs)))) return false
  await notifyOwner(tx, services, domain, lostEmail(domain.domain, site_name))
  await startWorkflow(tx, connectionStart(services, { ...domain, attempt: run.attempt + 1 }))
  await bumpRoutes(tx, { site_id })
  tx.afterCommit(() => log.warn({ ...run, domain: domain.domain }, 'domain not verified any more'))
  return true
}

/** The owner always has a day, however late it was noticed. */
const lastMoment = (provenAt: Date, now: Date) =>
  new Date(Math.max(provenAt.getTime() + domainProofPeriodMs, now.getTime() + domainRecheckMs))
