import { sql } from 'kysely'
import { secondsUntil } from '../../core/errors.ts'
import { formRatePeriodMs, maxPostsPerAddress, maxPostsPerSite } from '../../core/limits.ts'
import type { Db } from '../../infra/db/database.ts'
import { formRefusal } from './refusals.ts'

/** Who posts to which site. */
export interface Posting {
  readonly site_id: string
  /** The network of the client's address. */
  readonly network: string
}

/** A site or an address that has used up its rate, until the instant. */
export interface RateBlock {
  readonly key: string
  readonly until: Date
}

export const rateKeys = ({ site_id, network }: Posting) => ({ site: `site:${site_id}`, address: `address:${network}` })

/**
 * Takes one post from the rate of the address and from that of the site, or finds which is used up. One statement decides for all processes; both
 * rows stay locked until the transaction ends. Addresses come first, so that no two transactions wait for each other. Instants beyond a
 * minute come from a wrong clock, and are ignored. The transaction must be rolled back when something is used up.
 */
export async function takeRates(db: Db, posting: Posting, now: Date): Promise<RateBlock | undefined> {
  const keys = rateKeys(posting)
  const limit = sql`case when form_rates.key like 'site:%' then ${maxPostsPerSite}::int else ${maxPostsPerAddress}::int end`
  const since = new Date(now.getTime() - formRatePeriodMs)
  const until = new Date(now.getTime() + formRatePeriodMs)
  const recent = sql`(select at from unnest(form_rates.taken_at) at where at > ${since} and at <= ${until} order by at)`
  const { rows: taken } = await sql<{ key: string }>`
    insert into form_rates (key, taken_at)
    values (${keys.address}, array[${now}::timestamptz]), (${keys.site}, array[${now}::timestamptz])
    on conflict (key) do update set taken_at = array${recent} || excluded.taken_at
    where (select count(*) from ${recent} recent) < ${limit}
    returning key`.execute(db)
  if (taken.length === 2) return undefined
  const key = taken[0]?.key === keys.address ? keys.site : keys.address
  const most = key === keys.site ? maxPostsPerSite : maxPostsPerAddress
  const { rows } = await sql<{ at: Date }>`
    select recent.at from form_rates, lateral ${recent} recent
    where key = ${key} order by recent.at desc offset ${most - 1} limit 1`.execute(db)
  return { key, until: new Date((rows[0]?.at ?? now).getTime() + formRatePeriodMs) }
}

export const rateLimited = ({ key, until }: RateBlock, now: Date) =>
  formRefusal(
    'rate_limited',
    key.startsWith('site:')
      ? 'this site gets too many messages at the moment; try again in a minute'
      : 'too many messages were sent from your network; try again in a minute',
    { retryAfterSeconds: secondsUntil(until, now) },
  )

const rowsAtOnce = 2000

/** Deletes rows that limit nothing any more, in one small step; rows that are in use are skipped. */
export async function deleteOldRates(db: Db, now: Date): Promise<void> {
  await sql`
    delete from form_rates where ctid = any (array(
      select ctid from form_rates where taken_at[cardinality(taken_at)] < ${new Date(now.getTime() - formRatePeriodMs)}
      limit ${rowsAtOnce} for update skip locked))`.execute(db)
}
