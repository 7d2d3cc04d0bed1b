import { expect, test } from 'vitest'
import { datesOf, type PeriodInput, periodOf } from '../../core/stats-period.ts'
import { addDays, daysBetween, moscowDay } from '../../core/traffic-days.ts'

test.each([
  ['2026-09-07T20:59:59.999Z', '2026-09-07'],
  ['2026-09-07T21:00:00.000Z', '2026-09-08'],
  ['2026-12-31T20:59:59.999Z', '2026-12-31'],
  ['2026-12-31T21:00:00.000Z', '2027-01-01'],
  ['2028-02-28T21:00:00.000Z', '2028-02-29'],
  // clocks of other places in Europe change in these nights
  ['2026-03-28T21:00:00.000Z', '2026-03-29'],
  ['2026-03-29T20:59:59.999Z', '2026-03-29'],
  ['2026-10-25T20:59:59.999Z', '2026-10-25'],
  ['2026-10-25T21:00:00.000Z', '2026-10-26'],
])('K07: %s belongs to %s in Moscow', (instant, day) => expect(moscowDay(Date.parse(instant))).toBe(day))

test('K07: the days agree with the time zone Europe/Moscow at every hour of three years', () => {
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone: 'Europe/Moscow', dateStyle: 'short' })
  for (let at = Date.parse('2026-01-01T00:00:00Z'); at < Date.parse('2029-01-01T00:00:00Z'); at += 3_600_000) {
    if (moscowDay(at) !== format.format(at)) expect([at, moscowDay(at)]).toEqual([at, format.format(at)])
  }
})

const now = new Date('2026-09-07T21:30:00.000Z')

test.each<[PeriodInput, string, string, number]>([
  [{}, '2026-08-10', '2026-09-08', 30],
  [{ days: 1 }, '2026-09-08', '2026-09-08', 1],
  [{ days: 365 }, '2025-09-09', '2026-09-08', 365],
  [{ from: '2026-09-01', to: '2026-09-01' }, '2026-09-01', '2026-09-01', 1],
  [{ from: '2028-01-01', to: '2028-12-31' }, '2028-01-01', '2028-12-31', 366],
  [{ from: '2028-02-27', to: '2028-03-01' }, '2028-02-27', '2028-03-01', 4],
  [{ from: '2027-02-27', to: '2027-03-01' }, '2027-02-27', '2027-03-01', 3],
])('K01: %j is from %s to %s', (input, from, to, length) => {
  const period = periodOf(input, now)
  const dates = datesOf(period)
  expect([period, dates.length, dates[0], dates.at(-1)]).toEqual([{ from, to }, length, from, to])
  expect(dates.slice(1).map((date, index) => daysBetween(dates[index] ?? '', date))).toEqual(Array(length - 1).fill(1))
})

test.each<[PeriodInput, string]>([
  [{ from: '2026-09-01' }, 'give both from and to'],
  [{ to: '2026-09-01' }, 'give both from and to'],
  [{ days: 7, from: '2026-09-01', to: '2026-09-02' }, 'give either days, or from and to'],
  [{ days: 7, to: '2026-09-02' }, 'give either days, or from and to'],
  [{ from: '2026-09-02', to: '2026-09-01' }, 'from must not be later than to'],
  [{ from: '2026-01-01', to: '2027-01-02' }, 'at most 365 days apart'],
  [{ from: '0000-01-01', to: '9999-12-31' }, 'from must be 2000-01-01 or later'],
])('K01: %j is refused: %s', (input, message) => expect(() => periodOf(input, now)).toThrow(message))

test('dates are added across months, years and leap days', () => {
  expect([addDays('2028-02-28', 1), addDays('2027-02-28', 1), addDays('2027-01-01', -1)]).toEqual([
    '2028-02-29',
    '2027-03-01',
    '2026-12-31',
  ])
})
