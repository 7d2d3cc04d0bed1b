import { describe, expect, test } from 'vitest'
import { isDocumentUrl } from '../../core/documents.ts'
import { memberEmail } from '../../core/member-emails.ts'
import {
  admissionOf,
  memberActions,
  memberStatuses,
  memberTransitions,
  readMemberName,
  statusOfNewMember,
  takesSeat,
  waitsForOwner,
} from '../../core/members.ts'

const now = new Date('2026-09-07T10:00:00Z')
const hours = (count: number) => new Date(now.getTime() + count * 3_600_000)
const unpaid = { paid_at: null, paid_until: null }
const paid = { paid_at: now, paid_until: null }
const over = { paid_at: hours(-48), paid_until: hours(-1) }

test('M05: each action leads from its states to another one, and from no other', () => {
  const table = memberActions.flatMap((action) =>
    memberStatuses.map((status) => {
      const { from, to } = memberTransitions[action]
      return `${status} ${action} ${from.includes(status) ? to : '-'}`
    }),
  )
  expect(table.filter((row) => !row.endsWith('-'))).toEqual([
    'pending approve active',
    'rejected approve active',
    'pending reject rejected',
    'active block blocked',
    'blocked unblock active',
  ])
})

describe('M09 M10: who is let in', () => {
  test.each([
    ['active', unpaid, 'members', null, 'in'],
    ['active', over, 'members', null, 'in'],
    ['pending', unpaid, 'members', null, 'pending'],
    ['rejected', paid, 'members', null, 'rejected'],
    ['blocked', paid, 'members', null, 'blocked'],
    ['active', paid, 'paid', 'stripe', 'in'],
    ['active', { paid_at: now, paid_until: hours(1) }, 'paid', 'stripe', 'in'],
    ['active', { paid_at: now, paid_until: now }, 'paid', 'stripe', 'pay'],
    ['active', unpaid, 'paid', 'stripe', 'pay'],
    ['active', over, 'paid', 'manual', 'pay_owner'],
    ['active', over, 'paid', null, 'pay_owner'],
    ['pending', unpaid, 'paid', 'manual', 'pay_owner'],
    ['pending', unpaid, 'paid', 'stripe', 'pay'],
    ['pending', paid, 'paid', 'stripe', 'pending'],
    ['rejected', unpaid, 'paid', 'manual', 'rejected'],
    ['blocked', paid, 'paid', 'stripe', 'blocked'],
  ] as const)('%s, %j, at a site of mode %s with %s: %s', (status, payment, mode, provider, expected) => {
    expect(admissionOf({ status, ...payment }, mode, provider, now)).toBe(expected)
    expect(takesSeat({ status, ...payment }, mode, now)).toBe(expected === 'in')
  })
})

test.each([
  [true, 'members', null, 'pending', true],
  [false, 'members', null, 'active', false],
  [false, 'paid', 'stripe', 'pending', false],
  [true, 'paid', 'stripe', 'pending', false],
  [false, 'paid', 'manual', 'pending', true],
  [false, 'paid', null, 'pending', true],
] as const)(
  'M03: with moderation %s at a site of mode %s with %s, a registration is %4$s',
  (moderation, mode, provider, expected, waits) => {
    expect(statusOfNewMember({ moderation }, mode)).toBe(expected)
    expect(waitsForOwner({ moderation }, mode, provider)).toBe(waits)
  },
)

test.each([
  ['  Ada\r\nBcc: eve@example.com ', 'Ada Bcc: eve@example.com'],
  ['\u0000\u202d', '\u202d'],
  ['a'.repeat(80), 'a'.repeat(80)],
  ['a'.repeat(81), undefined],
  ['🙂'.repeat(80), '🙂'.repeat(80)],
  ['🙂'.repeat(81), undefined],
  ['a'.repeat(100_000), undefined],
  ['\ud800', undefined],
  [' \t\n', ''],
])('M06: the name %j is kept as %j', (given, kept) => expect(readMemberName(given)).toBe(kept))

test.each([
  ['https://example.com', true],
  ['https://example.com/terms?v=2#a@b', true],
  ['https://example.com:8443/@ada', true],
  ['https://пример.рф/условия', true],
  ['http://example.com', false],
  ['HTTPS://example.com', false],
  ['javascript:alert(1)', false],
  ['https:example.com', false],
  ['https://', false],
  ['https://ada@example.com', false],
  ['https://:@example.com', false],
  ['https://ada:secret@example.com/', false],
  ['https://exa\nmple.com', false],
  ['https://example.com\\@evil.example', false],
  [' https://example.com', false],
  ['https://example.com/\u0000', false],
  ['//example.com', false],
  [`https://example.com/${'a'.repeat(2048)}`, false],
])('M08: the address %j: %s', (url, expected) => expect(isDocumentUrl(url)).toBe(expected))

test('E21: emails name the host alone, in the language of the member', () => {
  for (const news of ['pending', 'registered', 'approved', 'deleted'] as const) {
    const of = { site_id: 's', host: 'www.example.com' }
    const [english, russian] = [memberEmail(news, { ...of, lang: 'en' }), memberEmail(news, { ...of, lang: 'ru' })]
    expect(english.subject).toMatch(/^Your registration at www\.example\.com/)
    expect([russian.subject.startsWith('Ваша регистрация на'), russian.html.includes('lang="ru"')]).toEqual([true, true])
    expect(english.text).not.toContain('http')
  }
})
