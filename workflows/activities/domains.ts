import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { givenUpLetter, liveLetter, uncertifiedLetter } from '../../core/domain-letters.ts'
import { connectPeriodMs } from '../../core/limits.ts'
import type { Config } from '../../infra/config.ts'
import type { Db, Tx } from '../../infra/db/database.ts'
import type { Logger } from '../../infra/log.ts'
import { beginOrder } from '../../services/certificates/certificates.ts'
import { lookUpAllowance } from '../../services/domains/claims.ts'
import { type DomainRun, findDomainOfRun, setConnected, setNextCheck } from '../../services/domains/connecting.ts'
import { type DomainRecord, lockSiteOfDomain, proveDomain, saveFindings } from '../../services/domains/domains.ts'
import type { DomainLook, LookUpDomain } from '../../services/domains/look-up.ts'
import { bumpRoutes } from '../../services/feeds/routes.ts'
import { takeAllowance } from '../../services/projects/allowances.ts'
import type { Relay } from '../client.ts'
import type { CertificateStep, DomainActivities, DomainCheck, Settled } from '../contract/domains.ts'
import { queueMailToOwner } from '../mails.ts'

/** Waiting look-ups of a project come back within this time after there is one free. */
const spreadMs = 30_000

export interface DomainActivityDeps {
  readonly db: Db
  readonly config: Config
  readonly lookUpDomain: LookUpDomain
  readonly relay: Pick<Relay, 'wake'>
  readonly log: Logger
  readonly clock: () => Date
}

/** The steps by which a domain is connected. The row decides, so repeating one is harmless. */
export function createDomainActivities(deps: DomainActivityDeps): Omit<DomainActivities, 'recheckDomains'> {
  const { db, config, lookUpDomain, relay, log, clock } = deps
  const mailOptions = () => ({ sender: config.mail.from, now: clock() })
  const stale = { state: 'stale' } as const

  /** Runs with the lock of the site; undefined when the attempt has lost the domain. */
  async function withDomain<T>(run: DomainRun, work: (tx: Tx, domain: DomainRecord) => Promise<T>): Promise<T | undefined> {
    const result = await db.transaction().execute(async (tx) => {
      const domain = await lockSiteOfDomain(tx, run.domain_id)
      return domain?.attempt === run.attempt ? await work(tx, domain) : undefined
    })
    relay.wake()
    return result
  }

  async function waits(run: DomainRun, message: string, next: Date): Promise<DomainCheck> {
    if (await setNextCheck(db, run, next)) return { state: 'waiting', message, next_check_at: next.toISOString() }
    // it was verified by hand meanwhile, or removed
    const current = await findDomainOfRun(db, run)
    return current?.verified_at ? { state: 'verified' } : stale
  }

  /** Looks later when the project has many domains to look up: no tenant fills the queue. */
  async function requireLookUp(project_id: string, now: Date): Promise<void> {
    const next = await takeAllowance(db, lookUpAllowance(project_id, config.dns.checkIntervalMs), now)
    if (!next) return
    throw ApplicationFailure.create({
      message: 'many domains of this project are looked up at present; this one is looked up soon',
      nextRetryDelay: next.getTime() - now.getTime() + Math.random() * spreadMs,
      category: ApplicationFailureCategory.BENIGN,
    })
  }

  async function takeLook(tx: Tx, domain: DomainRecord, look: DomainLook, next: Date): Promise<DomainCheck> {
    const now = clock()
    const run = { domain_id: domain.id, attempt: domain.attempt }
    if (domain.verified_at !== null) return { state: 'verified' }
    if (look.ownership === 'proven' && !domain.trashed) {
      await proveDomain(tx, domain.id, look, now)
      await bumpRoutes(tx, { site_id: domain.site_id })
      log.info({ ...run, domain: domain.domain }, 'domain verified')
      return { state: 'verified' }
    }
    await saveFindings(tx, domain.id, look, next)
    if (now.getTime() < domain.connecting_since.getTime() + connectPeriodMs) {
      return { state: 'waiting', message: look.message, next_check_at: next.toISOString() }
    }
    await setNextCheck(tx, run, null)
    await queueMailToOwner(tx, domain.project_id, givenUpLetter(domain.domain, domain.site_name, look.message), mailOptions())
    log.info({ ...run, domain: domain.domain }, 'domain given up')
    return { state: 'given_up' }
  }

  return {
    async checkDomain({ look, pause_ms, ...run }) {
      const domain = await findDomainOfRun(db, run)
      if (!domain) return stale
      if (domain.verified_at !== null) return { state: 'verified' }
      const now = clock()
      const next = new Date(now.getTime() + pause_ms)
      if (domain.trashed) return await waits(run, 'the site is in the trash', next)
      const since = domain.looked_up_at && now.getTime() - domain.looked_up_at.getTime()
      const wasJustLooked = since !== null && since >= 0 && since < config.dns.checkIntervalMs
      if (!look || wasJustLooked) return await waits(run, 'the DNS is looked up next time', next)
      await requireLookUp(domain.project_id, now)
      const found = await lookUpDomain(domain)
      return (await withDomain(run, (tx, current) => takeLook(tx, current, found, next))) ?? stale
    },

    async beginCertificate(run) {
      const step = await withDomain(run, async (tx, domain): Promise<CertificateStep> => {
        if (domain.verified_at === null) return stale
        if (domain.trashed) return { state: 'waiting' }
        if (config.acme.directory === undefined || domain.secured) return { state: 'none' }
        const order = await beginOrder(tx, { domain_id: domain.id, name: domain.domain }, clock())
        const { project_id, site_id } = domain
        const retry_pause_ms = config.acme.retryPauseMs
        return { state: 'ordered', order: { ...order, name: domain.domain, retry_pause_ms }, owner: { project_id, site_id } }
      })
      return step ?? stale
    },

    async settleDomain(run) {
      const settled = await withDomain(run, async (tx, domain): Promise<Settled> => {
        if (domain.verified_at === null) return 'stale'
        const isLive = config.acme.directory === undefined || domain.secured
        if (!isLive && domain.order_id !== null) return 'pending'
        if (await setConnected(tx, run, clock())) {
          const text = isLive ? liveLetter(domain.domain, domain.site_name, addressOf(config, domain)) : uncertified(domain)
          await queueMailToOwner(tx, domain.project_id, text, mailOptions())
          log.info({ ...run, domain: domain.domain, secured: domain.secured }, 'domain connected')
        }
        return isLive ? 'live' : 'without_certificate'
      })
      return settled ?? 'stale'
    },
  }
}

const uncertified = ({ domain, site_name, certificate_error }: DomainRecord) =>
  uncertifiedLetter(domain, site_name, certificate_error ?? 'nothing')

/** Where visitors open the domain; undefined for a wildcard. */
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
