import { awayPeriodMs, subscriberPeriodMs } from '../../core/messengers.ts'
import { isRenewable, visitPeriodMs } from '../../core/visits.ts'
import type { Visit, Visits } from '../../infra/crypto/visits.ts'
import type { LoginLock } from '../access/find-site-at.ts'
import { type GrantedVisit, grantVisit, isOver } from '../access/login.ts'
import { generationOf } from '../access/visits.ts'
import { takeRates } from '../rates.ts'
import { transact } from '../transact.ts'
import { askMembership } from './memberships.ts'
import { membershipRates } from './rates.ts'
import type { MessengerServices } from './services.ts'
import { changeSubscriber, findSubscriber, type SubscriberRow } from './subscribers.ts'

/** A visit that ends so soon is renewed as if it were over, because the clock of the edge may be ahead. */
const soonMs = 60_000
/** While another request asks the messenger, this one passes for so long. */
const waitPeriodMs = 60_000

/** `none`: there is no visit that could be renewed. `stranger`: no subscriber any more. `away`: nobody can tell. */
export type Renewal = GrantedVisit | { readonly kind: 'none' | 'stranger' | 'away' | 'ended' }

/**
 * Renews the visit of a subscriber, when the messenger says that they still are one. While the messenger does not answer, those who were
 * subscribers within the last 30 days stay.
 * @param cookies the values that may be a visit
 */
export async function renewVisit(
  services: MessengerServices & { readonly visits: Visits },
  lock: LoginLock,
  host: string,
  cookies: readonly string[],
): Promise<Renewal> {
  const now = services.clock()
  if (isOver(lock, now)) return { kind: 'ended' }
  const { site_id, epoch } = lock
  const visits = cookies.map((text) => services.visits.read({ site_id, host, epoch }, text))
  const visit = visits.find((one) => one !== undefined && isRenewable(one.until, now))
  const subscriber = visit && (await findSubscriber(services.db, site_id, visit.subject))
  if (!visit || !subscriber || visit.generation < (await generationOf(services.db, site_id, subscriber.id)))
    return { kind: 'none' }
  const until = await renewedUntil(services, subscriber, now)
  if (!(until instanceof Date)) return { kind: until }
  return granted(services.visits, lock, host, visit, { until, now })
}

function granted(
  visits: Visits,
  lock: LoginLock,
  host: string,
  visit: Visit,
  { until, now }: { until: Date; now: Date },
): GrantedVisit {
  const { subject, generation, consent } = visit
  // under the epoch and the generation of the old visit: what has ended that one ends this one as well
  return grantVisit(visits, { ...lock, host }, { subject, generation, consent }, now, { until, isRenewable: true })
}

/** Until when the visits of the subscriber hold, at most one question a minute to the messenger. */
async function renewedUntil(
  services: MessengerServices,
  { id, site_id, provider, user_id, member_at, member_until }: SubscriberRow,
  now: Date,
): Promise<Date | 'stranger' | 'away'> {
  const later = (ms: number) => new Date(now.getTime() + ms)
  if (member_until !== null && member_until > later(soonMs)) return member_until
  const rates = membershipRates(site_id, { provider, user_id })
  if (await transact(services, (tx) => takeRates(tx, rates, now))) return member_until === null ? 'stranger' : later(waitPeriodMs)
  const membership = await askMembership(services, site_id, { provider, user_id })
  if (membership === 'member') {
    const until = later(subscriberPeriodMs)
    await changeSubscriber(services.db, id, { member_at: now, member_until: until })
    return until
  }
  if (membership === 'stranger') {
    await changeSubscriber(services.db, id, { member_until: null })
    return 'stranger'
  }
  if (member_until === null || now.getTime() - member_at.getTime() > visitPeriodMs) return 'away'
  const until = later(awayPeriodMs)
  await changeSubscriber(services.db, id, { member_until: until })
  return until
}
