import { invalid } from './errors.ts'
import { addDays, daysBetween, moscowDay } from './traffic-days.ts'

/** Dates in Moscow, YYYY-MM-DD; both belong to the period. */
export interface Period {
  readonly from: string
  readonly to: string
}

export const maxPeriodDays = 365
const usualPeriodDays = 30
/** Nothing was counted before, and PostgreSQL has no year 0. */
const earliestDay = '2000-01-01'

export interface PeriodInput {
  readonly days?: number | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
}

/** The period that a request asks for: the last days up to today, or from one date to another. @throws AppError `invalid` */
export function periodOf({ days, from, to }: PeriodInput, now: Date): Period {
  if (from === undefined && to === undefined) {
    const today = moscowDay(now.getTime())
    return { from: addDays(today, 1 - (days ?? usualPeriodDays)), to: today }
  }
  if (days !== undefined) throw invalid('give either days, or from and to')
  if (from === undefined || to === undefined) throw invalid('give both from and to, or days instead')
  if (from > to) throw invalid('from must not be later than to')
  if (from < earliestDay) throw invalid(`from must be ${earliestDay} or later`)
  if (daysBetween(from, to) > maxPeriodDays) throw invalid(`from and to may be at most ${maxPeriodDays} days apart`)
  return { from, to }
}

/** Every date of the period, in order. */
export const datesOf = ({ from, to }: Period): string[] =>
  Array.from({ length: daysBetween(from, to) + 1 }, (_, index) => addDays(from, index))
