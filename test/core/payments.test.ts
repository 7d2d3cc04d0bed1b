import { describe, expect, test } from 'vitest'
import {
  accessOfPayments,
  type CheckoutStatus,
  currencies,
  currenciesOf,
  lookPauseMs,
  type PaymentStatus,
  paidUntilAfter,
  settlementOf,
} from '../../core/payments.ts'

const dayMs = 24 * 3_600_000
const now = new Date('2026-03-01T00:00:00Z')
const inDays = (days: number) => new Date(now.getTime() + days * dayMs)

const checkout = { id: 'c', site_id: 's', amount_minor: 100, currency: 'RUB' }
const seen = (status: PaymentStatus['status'], change: Partial<PaymentStatus> = {}): PaymentStatus => ({
  status,
  amount_minor: 100,
  currency: 'RUB',
  checkout_id: 'c',
  site_id: 's',
  ...change,
})

describe('E22: what follows from what the provider says', () => {
  const states = ['open', 'paid', 'expired', 'refunded'] as const
  // of each state of ours, what follows from `open`, `paid`, `expired` and `refunded`
  test.each([
    ['created', ['open', 'paid', 'expired', 'refunded']],
    ['open', ['none', 'paid', 'expired', 'refunded']],
    ['expired', ['open', 'paid', 'none', 'refunded']],
    ['refused', ['none', 'paid', 'none', 'refunded']],
    ['paid', ['none', 'none', 'none', 'refunded']],
    ['refunded', ['none', 'none', 'none', 'none']],
  ] as const)('for a payment that is %s', (status: CheckoutStatus, expected) => {
    expect(states.map((state) => settlementOf({ ...checkout, status }, seen(state)))).toEqual(expected)
  })

  test.each([
    ['amount', { amount_minor: 99 }],
    ['larger amount', { amount_minor: 101 }],
    ['currency', { currency: 'KZT' }],
    ['payment', { checkout_id: 'd' }],
    ['site', { site_id: 't' }],
    ['purpose that the provider does not name', { checkout_id: undefined, site_id: undefined }],
  ])('a payment of another %s is refused', (_what, change) => {
    expect(settlementOf({ ...checkout, status: 'open' }, seen('paid', change))).toBe('refused')
    expect(settlementOf({ ...checkout, status: 'refused' }, seen('paid', change))).toBe('none')
    expect(settlementOf({ ...checkout, status: 'paid' }, seen('paid', change))).toBe('none')
  })
})

describe('E22: the end of what was paid for', () => {
  test.each([
    ['nothing before', { paid_at: null, paid_until: null }, 30, inDays(30)],
    ['a period that runs', { paid_at: now, paid_until: inDays(10) }, 30, inDays(40)],
    ['a period that is over', { paid_at: inDays(-40), paid_until: inDays(-10) }, 30, inDays(30)],
    ['a period that runs, and now for ever', { paid_at: now, paid_until: inDays(10) }, null, null],
    ['for ever before', { paid_at: now, paid_until: null }, 30, null],
  ])('after %s', (_what, before, days, expected) => {
    expect(paidUntilAfter(before, days, now)).toEqual(expected)
  })

  test('of several payments is that of one after the other', () => {
    const payments = [inDays(-100), inDays(-80), inDays(0)].map((paid_at) => ({ paid_at, period_days: 30 }))
    expect(accessOfPayments(payments)).toEqual({ paid_at: inDays(0), paid_until: inDays(30) })
    expect(accessOfPayments(payments.slice(0, 2)).paid_until).toEqual(inDays(-40))
    expect(accessOfPayments([])).toEqual({ paid_at: null, paid_until: null })
  })
})

describe('how long to wait before the provider is asked again', () => {
  test('grows from seconds to a quarter of an hour while the visitor may pay', () => {
    const secondMs = 1000
    expect([0, 60, 600, 36_000, 100_000].map((age) => (lookPauseMs('open', age * secondMs) ?? 0) / secondMs)).toEqual([
      3, 15, 150, 900, 21_600,
    ])
  })

  test('is a day, then a week, while a refund is usual', () => {
    expect([0, 29, 31, 181].map((days) => lookPauseMs('paid', days * dayMs))).toEqual([dayMs, dayMs, 7 * dayMs, null])
    expect((['expired', 'refunded', 'refused'] as const).map((status) => lookPauseMs(status, 0))).toEqual([null, null, null])
  })
})

test('E22: every currency is one of ISO 4217, and YooKassa takes roubles', () => {
  expect(currencies.filter((one) => !Intl.supportedValuesOf('currency').includes(one))).toEqual([])
  expect(new Set(currencies).size).toBe(currencies.length)
  expect(currenciesOf('yookassa')).toEqual(['RUB'])
})
