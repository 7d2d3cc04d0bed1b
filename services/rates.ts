import { type RawBuilder, sql } from 'kysely'
import { widerNetworks } from '../core/client-network.ts'
import type { Db } from '../infra/db/database.ts'
import type { Tx } from './transact.ts'

// The durable limits: they hold over all processes, and over a restart. Those of one process are in `infra/limits.ts`.

/** How often something may be done: at most `limit` times, at least 1, within any `periodMs`, at most a day. */
interface Limit {
  readonly limit: number
  readonly periodMs: number
}

export interface Rate extends Limit {
  readonly table: RateTable
  /** What is limited, and whose it is. */
  readonly key: string
}

export type RateTable = 'form_rates' | 'access_rates'

/** A rate of logins, of payments, or of what belongs to them. */
export const accessRate = (key: string, limit: number, periodMs: number): Rate => ({
  table: 'access_rates',
  key,
  limit,
  periodMs,
})

/** How many times the rate of a client's network the larger networks around it may take together. */
export interface Shares {
  /** A /56. */
  readonly customer: number
  /** A /24 of IPv4, a /48 of IPv6. */
  readonly organisation: number
}

/**
 * The rates of a client's network, of the customer and of the organisation that have it: one client cannot take more by changing its address.
 * @param network from `networkOf`
 */
export const networkRates = (what: string, network: string, { limit, periodMs }: Limit, shares: Shares): Rate[] => [
  accessRate(`${what}:${network}`, limit, periodMs),
  ...widerNetworks(network).map((wider) =>
    accessRate(`${what}:${wider}`, limit * (wider.endsWith('/56') ? shares.customer : shares.organisation), periodMs),
  ),
]

/** The rate of a project. */
export interface Allowance extends Limit {
  readonly project_id: string
  /** The action, and its object where each object has an allowance of its own: `domain_adds`, `mail:domain_live:example.com`. */
  readonly kind: string
}

/** Where the entries of a rate are: the row of the table with these columns. */
interface Place {
  readonly table: string
  readonly columns: Readonly<Record<string, string>>
}

function placeOf(rate: Rate | Allowance): Place {
  if ('key' in rate) return { table: rate.table, columns: { key: rate.key } }
  const { project_id, kind } = rate
  return { table: 'allowances', columns: { project_id, kind } }
}

const isThe = ({ columns }: Place) =>
  sql.join(
    Object.entries(columns).map(([column, value]) => sql`${sql.ref(column)} = ${value}`),
    sql` and `,
  )

/** The entries that still count, oldest first. Instants beyond the period come from a wrong clock, and are ignored. */
const recent = ({ table }: Place, { periodMs }: Limit, now: Date): RawBuilder<unknown> => sql`(
  select at from unnest(${sql.ref(`${table}.taken_at`)}) at
  where at > ${new Date(now.getTime() - periodMs)} and at <= ${new Date(now.getTime() + periodMs)} order by at)`

/**
 * The part of a statement that takes one from a rate, for the row of `from`. It returns nothing when the rate is used up. It decides for all
 * processes: the row stays locked until the transaction ends, so take it last.
 */
export const takeRateOf = (rate: Rate, now: Date, from: string) => takeSelected(rate, now, sql`from ${sql.ref(from)}`)

function takeSelected(rate: Rate | Allowance, now: Date, from: RawBuilder<unknown>): RawBuilder<unknown> {
  const place = placeOf(rate)
  const names = sql.join(Object.keys(place.columns).map((column) => sql.ref(column)))
  const entries = recent(place, rate, now)
  return sql`
    insert into ${sql.table(place.table)} (${names}, taken_at)
    select ${sql.join(Object.values(place.columns))}, array[${now}::timestamptz] ${from}
    on conflict (${names}) do update set taken_at = array${entries} || excluded.taken_at
    where (select count(*) from ${entries} recent) < ${rate.limit}::int
    returning ${names}`
}

/** Takes one from a rate. False when it is used up. */
export async function takeRate(db: Db, rate: Rate | Allowance, now: Date): Promise<boolean> {
  const { rows } = await takeSelected(rate, now, sql``).execute(db)
  return rows.length > 0
}

/**
 * Takes one from each of the rates, in their order, or from none. Transactions that take several rates in one order never wait for each other.
 * @returns undefined when all were taken, otherwise the instant from which that may succeed
 */
export async function takeRates(tx: Tx, rates: readonly Rate[], now: Date): Promise<Date | undefined> {
  for (const [index, rate] of rates.entries()) {
    if (await takeRate(tx, rate, now)) continue
    for (const taken of rates.slice(0, index)) await returnRate(tx, taken, now)
    return await findFreeAt(tx, rate, now)
  }
  return undefined
}

/** Takes one from the allowance. Undefined when it was taken, otherwise the instant from which the next one is available. */
export const takeAllowance = async (db: Db, allowance: Allowance, now: Date): Promise<Date | undefined> =>
  (await takeRate(db, allowance, now)) ? undefined : await findFreeAt(db, allowance, now)

/** Gives back what was taken at the instant. */
export async function returnRate(db: Db, rate: Rate, takenAt: Date): Promise<void> {
  const index = sql`array_position(taken_at, ${takenAt}::timestamptz(3))`
  const place = placeOf(rate)
  await sql`
    update ${sql.table(place.table)} set taken_at = taken_at[:${index} - 1] || taken_at[${index} + 1:]
    where ${isThe(place)} and ${index} is not null`.execute(db)
}

/** The instant from which a rate that is used up has one left. */
export async function findFreeAt(db: Db, rate: Rate | Allowance, now: Date): Promise<Date> {
  const place = placeOf(rate)
  const { rows } = await sql<{ at: Date }>`
    select recent.at from ${sql.table(place.table)}, lateral ${recent(place, rate, now)} recent
    where ${isThe(place)} order by recent.at desc offset ${rate.limit - 1} limit 1`.execute(db)
  return new Date((rows[0]?.at ?? now).getTime() + rate.periodMs)
}
