import { secondsUntil } from '../../core/errors.ts'
import { formRatePeriodMs, maxPostsPerAddress, maxPostsPerSite } from '../../core/limits.ts'
import type { Db } from '../../infra/db/database.ts'
import { findFreeAt, type Rate, takeRateOf } from '../rates.ts'

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

const rateOf = (posting: Posting, kind: RateKind): Rate => ({
  table: 'form_rates',
  key: rateKeys(posting)[kind],
  limit: rates[kind],
  periodMs: formRatePeriodMs,
})

/**
 * The part of a statement that takes one post from a rate, for the row of `from`. It returns nothing when the rate is used up. That of the address
 * comes first, so that no two transactions wait for each other.
 */
export const takePost = (posting: Posting, kind: RateKind, now: Date, from: string) =>
  takeRateOf(rateOf(posting, kind), now, from)

/** Finds until when a rate is used up. */
export async function findBlock(db: Db, posting: Posting, kind: RateKind, now: Date): Promise<RateBlock> {
  const rate = rateOf(posting, kind)
  return { key: rate.key, until: await findFreeAt(db, rate, now) }
}

/** Why posts are refused by a block, and for how long. */
export const explainBlock = ({ key, until }: RateBlock, now: Date) => ({
  message: key.startsWith('site:')
    ? 'this site gets too many messages at the moment; try again in a minute'
    : 'too many messages were sent from your network; try again in a minute',
  retryAfterSeconds: secondsUntil(until, now),
})
