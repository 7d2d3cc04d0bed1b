import { heartbeat } from '@temporalio/activity'
import { lostLetter, missingLetter } from '../../core/domain-letters.ts'
import { domainProofPeriodMs, domainRecheckMs } from '../../core/limits.ts'
import type { Tx } from '../../infra/db/database.ts'
import { listDueDomains, loseDomain, markMissing } from '../../services/domains/connecting.ts'
import { type DomainRow, lockSiteOfDomain, nextRecheck, proveDomain, saveFindings } from '../../services/domains/domains.ts'
import type { DomainLook } from '../../services/domains/look-up.ts'
import { bumpRoutes } from '../../services/feeds/routes.ts'
import { insertWorkflowStart } from '../../services/workflow-messages.ts'
import { type DomainActivities, domainStart } from '../contract/domains.ts'
import { queueMailToOwner } from '../mails.ts'
import type { DomainActivityDeps } from './domains.ts'

const batchSize = 10
/** An hour later the name servers may answer. */
const unknownPauseMs = 3_600_000

type Fate = 'proven' | 'missing' | 'lost' | 'unknown'

/** The daily look at the ownership of verified domains (addendum E14). Each domain is taken with the lock of its site. */
export function createRecheckActivities(deps: DomainActivityDeps): Pick<DomainActivities, 'recheckDomains'> {
  const { db, config, lookUpDomain, relay, log, clock } = deps
  const mailOptions = () => ({ sender: config.mail.from, now: clock() })

  async function recheck(due: DomainRow): Promise<Fate> {
    const look = await lookUpDomain(due)
    return await db.transaction().execute((tx) => decide(tx, due, look))
  }

  async function decide(tx: Tx, due: DomainRow, look: DomainLook): Promise<Fate> {
    const now = clock()
    const domain = await lockSiteOfDomain(tx, due.id)
    // whoever changed it meanwhile has looked later
    if (!domain || domain.attempt !== due.attempt || domain.verified_at === null) return 'unknown'
    if (domain.proven_at?.getTime() !== due.proven_at?.getTime()) return 'proven'
    const run = { domain_id: domain.id, attempt: domain.attempt }
    if (look.ownership === 'proven') {
      await proveDomain(tx, domain.id, look, now)
      return 'proven'
    }
    if (look.ownership === 'unknown') {
      await saveFindings(tx, domain.id, look, new Date(now.getTime() + unknownPauseMs))
      return 'unknown'
    }
    await saveFindings(tx, domain.id, look, nextRecheck(now))
    if (await markMissing(tx, run, now)) {
      const text = missingLetter(domain.domain, domain.site_name, lastMoment(domain.proven_at ?? now, now))
      await queueMailToOwner(tx, domain.project_id, text, mailOptions())
      log.info({ ...run, domain: domain.domain }, 'proof of the domain missing')
      return 'missing'
    }
    const check_interval_ms = config.dns.checkIntervalMs
    if (!(await loseDomain(tx, run, now, new Date(now.getTime() + check_interval_ms)))) return 'missing'
    await queueMailToOwner(tx, domain.project_id, lostLetter(domain.domain, domain.site_name), mailOptions())
    await insertWorkflowStart(tx, domainStart({ ...domain, ...run, attempt: run.attempt + 1, check_interval_ms }))
    await bumpRoutes(tx, { site_id: domain.site_id })
    log.warn({ ...run, domain: domain.domain }, 'domain not verified any more')
    return 'lost'
  }

  return {
    async recheckDomains() {
      const counts: Record<Fate, number> = { proven: 0, missing: 0, lost: 0, unknown: 0 }
      const startedAt = clock()
      for (;;) {
        const due = await listDueDomains(db, startedAt, batchSize)
        for (const fate of await Promise.all(due.map(recheck))) counts[fate]++
        heartbeat(counts)
        relay.wake()
        if (due.length < batchSize) break
      }
      const { proven, missing, lost, unknown } = counts
      return `${proven} proven, ${missing} without a TXT record, ${lost} not verified any more, ${unknown} without an answer`
    },
  }
}

/** The owner has a day in any case, however late it was noticed. */
const lastMoment = (provenAt: Date, now: Date) =>
  new Date(Math.max(provenAt.getTime() + domainProofPeriodMs, now.getTime() + domainRecheckMs))
