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

const rates = { site: maxPostsPerSite, address: maxPostsPerAddress } as const
export type RateKind = keyof typeof rates

/** A site or an address that has used up its rate, until the instant. */
export interface RateBlock {
  readonly key: string
  readonly until: Date
}

export const rateKeys = ({ site_id, network }: Posting) => ({ site: `site:${site_id}`, address: `address:${network}` })

/** Instants beyond a minute come from a wrong clock, and are ignored. */
const recent = (now: Date) => sql`(
  select at from unnest(form_rates.taken_at) at
  where at > ${new Date(now.getTime() - formRatePeriodMs)} and at <= ${new Date(now.getTime() + formRatePeriodMs)} order by at)`

/**
 * The part of a statement that takes one post from a rate, for the row of `from`. It returns nothing when the rate is used up. It decides for all
 * processes: the row stays locked until the transaction ends. That of the address comes first, so that no two transactions wait for each other.
 */
export const takeRate = (posting: Posting, kind: RateKind, now: Date, from: string) => sql`
  insert into form_rates (key, taken_at)
  select ${rateKeys(posting)[kind]}, array[${now}::timestamptz] from ${sql.ref(from)}
  on conflict (key) do update set taken_at = array${recent(now)} || excluded.taken_at
  where (select count(*) from ${recent(now)} recent) < ${rates[kind]}::int
  returning key`

/** Finds until when a rate is used up. */
export async function findBlock(db: Db, posting: Posting, kind: RateKind, now: Date): Promise<RateBlock> {
  const key = rateKeys(posting)[kind]
  const { rows } = await sql<{ at: Date }>`
    select recent.at from form_rates, lateral ${recent(now)} recent
    where key = ${key} order by recent.at desc offset ${rates[kind] - 1} limit 1`.execute(db)
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
