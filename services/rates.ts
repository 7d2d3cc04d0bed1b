import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../infra/db/database.ts'

/** How often something may be done: at most `limit` times, at least 1, within any `periodMs`, at most a day. */
export interface Rate {
  readonly table: RateTable
  /** What is limited, and whose it is. */
  readonly key: string
  readonly limit: number
  readonly periodMs: number
}

export type RateTable = 'form_rates' | 'access_rates'

/** The entries that still count, oldest first. Instants beyond the period come from a wrong clock, and are ignored. */
const recent = ({ table, periodMs }: Rate, now: Date): RawBuilder<unknown> => sql`(
  select at from unnest(${sql.ref(`${table}.taken_at`)}) at
  where at > ${new Date(now.getTime() - periodMs)} and at <= ${new Date(now.getTime() + periodMs)} order by at)`

/**
 * The part of a statement that takes one from a rate, for the row of `from`. It returns nothing when the rate is used up. It decides for all
 * processes: the row stays locked until the transaction ends.
 */
export const takeRateOf = (rate: Rate, now: Date, from: string) => takeSelected(rate, now, sql`from ${sql.ref(from)}`)

const takeSelected = (rate: Rate, now: Date, from: RawBuilder<unknown>) => sql`
  insert into ${sql.table(rate.table)} (key, taken_at)
  select ${rate.key}, array[${now}::timestamptz] ${from}
  on conflict (key) do update set taken_at = array${recent(rate, now)} || excluded.taken_at
  where (select count(*) from ${recent(rate, now)} recent) < ${rate.limit}::int
  returning key`

/** Takes one from a rate. False when it is used up. */
export async function takeRate(db: Db, rate: Rate, now: Date): Promise<boolean> {
  const { rows } = await takeSelected(rate, now, sql``).execute(db)
  return rows.length > 0
}

/** Gives back what was taken at the instant. */
export async function returnRate(db: Db, { table, key }: Rate, takenAt: Date): Promise<void> {
  const place = sql`array_position(taken_at, ${takenAt}::timestamptz(3))`
  await sql`
    update ${sql.table(table)} set taken_at = taken_at[:${place} - 1] || taken_at[${place} + 1:]
    where key = ${key} and ${place} is not null`.execute(db)
}

/** The instant from which a rate that is used up has one left. */
export async function findFreeAt(db: Db, rate: Rate, now: Date): Promise<Date> {
  const { rows } = await sql<{ at: Date }>`
    select recent.at from ${sql.table(rate.table)}, lateral ${recent(rate, now)} recent
    where key = ${rate.key} order by recent.at desc offset ${rate.limit - 1} limit 1`.execute(db)
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
