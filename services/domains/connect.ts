import { givenUpEmail, liveEmail, uncertifiedEmail } from '../../core/domain-emails.ts'
import { type DomainState, isVerified } from '../../core/domain-state.ts'
import { connectPeriodMs } from '../../core/limits.ts'
import type { Config } from '../../infra/config.ts'
import { type DomainCheck, domainStart, type Settled } from '../../workflows/contract/domains.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { notifyOwner } from '../notifications/notifications.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { recordEvent } from '../webhooks/events.ts'
import { startWorkflow } from '../workflow-messages.ts'
import { type DomainRun, findDomainOfRun, retryDomain, setConnected, setNextCheck } from './connecting.ts'
import { type DomainRecord, proveDomain, saveFindings, stateOf, withDomain } from './domains.ts'
import type { DomainLook } from './look-up.ts'

/** As {@link withDomain}; also undefined when the attempt has lost the domain. */
export const withDomainOfRun = <Result>(
  services: Services,
  run: DomainRun,
  work: (tx: Tx, domain: DomainRecord) => Promise<Result>,
): Promise<Result | undefined> =>
  withDomain(services, run.domain_id, async (tx, domain) => (domain.attempt === run.attempt ? await work(tx, domain) : undefined))

/** Postpones the next look-up of the attempt to `next`. */
export async function postponeCheck({ db }: Services, run: DomainRun, message: string, next: Date): Promise<DomainCheck> {
  if (await setNextCheck(db, run, next)) return { state: 'waiting', message, next_check_at: next.toISOString() }
  // the owner has verified or removed it in the meantime
  const current = await findDomainOfRun(db, run)
  return current && isVerified(current) ? { state: 'verified' } : { state: 'stale' }
}

/**
 * Stores the result of a look-up by the workflow: the domain is verified, looked up again at `next`, or given up after its time, with an email
 * to the owner.
 */
export async function saveLookOfRun(services: Services, run: DomainRun, look: DomainLook, next: Date): Promise<DomainCheck> {
  const { clock, log } = services
  const check = await withDomainOfRun(services, run, async (tx, domain): Promise<DomainCheck> => {
    const now = clock()
    const { site_id, site_name } = domain
    if (isVerified(domain)) return { state: 'verified' }
    if (look.ownership === 'proven' && !domain.trashed) {
      await proveDomain(tx, domain.id, look, now)
      await bumpRoutes(tx, { site_id })
      tx.afterCommit(() => log.info({ ...run, domain: domain.domain }, 'domain verified'))
      return { state: 'verified' }
    }
    await saveFindings(tx, domain.id, look, next)
    if (now.getTime() < domain.connecting_since.getTime() + connectPeriodMs) {
      return { state: 'waiting', message: look.message, next_check_at: next.toISOString() }
    }
    await setNextCheck(tx, run, null)
    await notifyOwner(tx, services, domain, givenUpEmail(domain.domain, site_name, look.message))
    tx.afterCommit(() => log.info({ ...run, domain: domain.domain }, 'domain given up'))
    return { state: 'given_up' }
  })
  return check ?? { state: 'stale' }
}

/** Ends the attempt by the state of the certificate, and emails the owner once. */
export async function settleDomain(services: Services, run: DomainRun): Promise<Settled> {
  const { config, clock, log } = services
  const settled = await withDomainOfRun(services, run, async (tx, domain): Promise<Settled> => {
    const settled = settledStates[stateOf(config, domain)]
    if (settled === 'stale' || settled === 'pending' || !(await setConnected(tx, run, clock()))) return settled
    const { project_id, site_id, site_name, secured } = domain
    const text = settled === 'live' ? liveEmail(domain.domain, site_name, addressOf(config, domain)) : uncertified(domain)
    await notifyOwner(tx, services, domain, text)
    if (settled === 'live') {
      const data = { domain_id: domain.id, domain: domain.domain }
      await recordEvent(tx, { type: 'domain.live', project_id, site_id, data }, clock())
    }
    tx.afterCommit(() => log.info({ ...run, domain: domain.domain, secured }, 'domain connected'))
    return settled
  })
  return settled ?? 'stale'
}

/** The result of the workflow for each state of the domain. */
const settledStates = {
  unverified: 'stale',
  given_up: 'stale',
  connecting: 'without_certificate',
  certifying: 'pending',
  without_certificate: 'without_certificate',
  live: 'live',
} as const satisfies Record<DomainState, Settled>

/** Starts the next attempt to connect a stalled domain. False when there is another already, or nothing is left to do. */
export function restartDomain(services: Services, domain: StartedDomain, now: Date): Promise<boolean> {
  return transact(services, async (tx) => {
    if (!(await retryDomain(tx, domain, now))) return false
    await startWorkflow(tx, domainStart({ ...domain, attempt: domain.attempt + 1 }))
    return true
  })
}

type StartedDomain = Parameters<typeof domainStart>[0]

const uncertified = ({ domain, site_name, certificate_error }: DomainRecord) =>
  uncertifiedEmail(domain, site_name, certificate_error ?? 'nothing')

/** The URL of the site at the domain; undefined for a wildcard. */
function addressOf({ urls, http }: Config, { domain, secured }: DomainRecord): string | undefined {
  if (domain.startsWith('*.')) return undefined
  const url = new URL(urls.base)
  if (secured && url.protocol === 'http:') {
    url.protocol = 'https:'
    url.port = String(http.httpsPort)
  }
  url.hostname = domain
  return url.origin
}
