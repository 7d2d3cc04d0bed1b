import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../infra/db/database.ts'

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

const rowsAtOnce = 2000

/** Deletes rows whose entries are all older than the period, in one small step; rows that are in use are skipped. */
export async function deleteOldRates(db: Db, table: RateTable, periodMs: number, now: Date): Promise<void> {
  await sql`
    delete from ${sql.table(table)} where ctid = any (array(
      select ctid from ${sql.table(table)} where taken_at[cardinality(taken_at)] < ${new Date(now.getTime() - periodMs)}
      limit ${rowsAtOnce} for update skip locked))`.execute(db)
}
