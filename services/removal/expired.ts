import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { deliveryPeriodMs, emailPeriodMs, formRatePeriodMs, releasedDomainPeriodMs } from '../../core/limits.ts'
import { deadMessagePeriodMs } from '../../core/message-retries.ts'
import { notificationPeriodMs } from '../../core/notifications.ts'
import { statsPeriodMs } from '../../core/traffic-days.ts'
import { visitPeriodMs } from '../../core/visits.ts'
import { webhookEventPeriodMs } from '../../core/webhooks.ts'
import type { Db } from '../../infra/db/database.ts'
import { deleteInSteps } from '../../infra/db/delete-in-steps.ts'
import type { DB } from '../../infra/db/schema.ts'
import { deleteOldSpam } from '../forms/remove.ts'

const dayMs = 24 * 3_600_000
/** The use of a month is shown for that month only. */
const usagePeriodMs = 400 * dayMs

/** Payments that were not made are kept this long. */
const checkoutKeptMs = 90 * dayMs

/** The networks from which a closed site was entered are known for this long. */
const networkPeriodMs = 90 * dayMs

/** The expired rows of each table. Nothing depends on when they are deleted. */
const expired = (now: Date): (readonly [keyof DB, RawBuilder<SqlBool>])[] => [
  // an edge that is behind may still redirect from a former name
  ['subdomains', sql`kind in ('former', 'quarantined') and held_until < ${before(now, dayMs)}`],
  ['released_domains', sql`released_at < ${before(now, releasedDomainPeriodMs)}`],
  // no allowance counts older entries
  ['allowances', sql`taken_at[cardinality(taken_at)] < ${before(now, dayMs)}`],
  ['mails', sql`created_at < ${before(now, emailPeriodMs)}`],
  // a site takes 30 posts a minute, so it has at most so many new rows in each
  ['form_rates', sql`taken_at[cardinality(taken_at)] < ${before(now, formRatePeriodMs)}`],
  ['access_rates', sql`taken_at[cardinality(taken_at)] < ${before(now, dayMs)}`],
  // their codes are over within minutes
  ['mails', sql`kind = 'access_code' and created_at < ${before(now, dayMs)}`],
  // a code is valid for minutes, and a visit that an earlier generation let in for 30 days
  ['access_codes', sql`created_at < ${before(now, dayMs)}`],
  ['access_tickets', sql`created_at < ${before(now, dayMs)}`],
  ['access_networks', sql`entered_at < ${before(now, networkPeriodMs)}`],
  ['access_generations', sql`raised_at < ${before(now, visitPeriodMs)}`],
  ['messenger_connections', sql`created_at < ${before(now, dayMs)}`],
  ['messenger_logins', sql`created_at < ${before(now, dayMs)}`],
  // nobody has a visit that could be renewed
  ['subscribers', sql`greatest(member_at, member_until) < ${before(now, visitPeriodMs)}`],
  ['form_usage', sql`month < ${before(now, usagePeriodMs)}::date`],
  ['autoreply_usage', sql`month < ${before(now, usagePeriodMs)}::date`],
  ['notifications', sql`created_at < ${before(now, notificationPeriodMs)}`],
  // their deliveries go with them
  ['webhook_events', sql`created_at < ${before(now, webhookEventPeriodMs)}`],
  // who pays so late is looked up by hand; the site keeps what was paid
  ['checkouts', sql`status = 'expired' and created_at < ${before(now, checkoutKeptMs)}`],
  ['test_payments', sql`created_at < ${before(now, usagePeriodMs)}`],
  ['activity_days', sql`day < ${before(now, statsPeriodMs)}::date`],
  ['git_deliveries', sql`received_at < ${before(now, deliveryPeriodMs)}`],
  // the rows that need their workflow have it started again
  ['workflow_starts', sql`dead_at < ${before(now, deadMessagePeriodMs)}`],
  // the pauses between attempts are shorter
  ['stuck_activities', sql`last_failed_at < ${before(now, dayMs)}`],
]

const before = (now: Date, ms: number) => new Date(now.getTime() - ms)

/** Deletes expired rows, in small steps; rows that are being changed are skipped. May be repeated. Returns the number of rows. */
export async function deleteExpired(db: Db, now: Date): Promise<number> {
  let deleted = await deleteOldSpam(db, now)
  for (const [table, condition] of expired(now)) deleted += await deleteInSteps(db, table, condition, 'skip')
  return deleted
}
