import { describe, expect, test } from 'vitest'
import {
  type CaaRecord,
  caaAllows,
  challengeAlias,
  challengeName,
  judgeA,
  parseDomain,
  txtMatches,
  verificationName,
} from '../../core/domains.ts'

const rules = {
  ownHosts: ['sites.plinth.example', 'console.plinth.example', 'preview.console.plinth.example'],
  isPublicSuffix: (name: string) => ['com', 'co.uk', 'github.io'].includes(name),
}
const parsed = (text: string, allowWildcard = false) => {
  const verdict = parseDomain(text, { ...rules, allowWildcard })
  return verdict.ok ? verdict.domain : `refused: ${verdict.reason}`
}
const label63 = 'a'.repeat(63)
const name253 = `${label63}.${label63}.${label63}.${'b'.repeat(57)}.com`

describe('N01: a custom domain', () => {
  test.each([
    ['example.com', 'example.com'],
    ['WWW.Example.COM', 'www.example.com'],
    ['example.com.', 'example.com'],
    ['xn--bcher-kva.de', 'xn--bcher-kva.de'],
    ['a.co.uk', 'a.co.uk'],
    ['user.github.io', 'user.github.io'],
    ['1.example.com', '1.example.com'],
    ['0x7f.example', '0x7f.example'],
    ['a--b.com', 'a--b.com'],
    [`${label63}.com`, `${label63}.com`],
    [name253, name253],
    ['notsites.plinth.example.com', 'notsites.plinth.example.com'],
    ['myplinth.example', 'myplinth.example'],
    ['other.plinth.example', 'other.plinth.example'],
  ])('%s is kept as %s', (text, expected) => expect(parsed(text)).toBe(expected))

  test.each([
    ['', 'is not a domain name'],
    ['.', 'is not a domain name'],
    ['example', 'is incomplete'],
    ['localhost', 'is incomplete'],
    ['127.0.0.1', 'is an address'],
    ['1.2.0.3', 'is an address'],
    ['example.123', 'is an address'],
    ['example.0x1f', 'is an address'],
    ['[::1]', 'may have only letters'],
    ['a_b.com', 'may have only letters'],
    ['https://example.com', 'may have only letters'],
    ['example.com:80', 'may have only letters'],
    ['bücher.de', 'may have only letters'],
    ['exam ple.com', 'may have only letters'],
    ['exam\0ple.com', 'may have only letters'],
    ['example.com\n', 'may have only letters'],
    ['a.*.com', 'may have only letters'],
    ['a..com', 'may not have an empty part'],
    ['.example.com', 'may not have an empty part'],
    ['example.com..', 'may not have an empty part'],
    ['-a.com', 'may not have an empty part'],
    ['a-.com', 'may not have an empty part'],
    [`a${label63}.com`, 'has a part that is too long'],
    [`a${name253}`, 'is too long: use at most 253'],
    ['sites.plinth.example', 'belongs to the platform (sites.plinth.example)'],
    ['a.b.sites.plinth.example', 'belongs to the platform (sites.plinth.example)'],
    ['plinth.example', 'belongs to the platform (sites.plinth.example)'],
    ['CONSOLE.plinth.example.', 'belongs to the platform (console.plinth.example)'],
    ['x.preview.console.plinth.example', 'belongs to the platform (console.plinth.example)'],
    ['co.uk', 'is a public suffix'],
    ['github.io', 'is a public suffix'],
    ['*.example.com', 'may not be a wildcard'],
  ])('%s is refused: %s', (text, reason) => expect(parsed(text)).toContain(`refused: ${reason}`))

  test.each([
    ['*.example.com', '*.example.com'],
    ['*.Example.com.', '*.example.com'],
    ['*.*.example.com', 'refused: may have only letters'],
    ['*.com', 'refused: is incomplete'],
    ['*.co.uk', 'refused: is a public suffix'],
    ['*.plinth.example', 'refused: belongs to the platform'],
    ['*', 'refused: may have only letters'],
    ['*.', 'refused: may have only letters'],
    ['*a.example.com', 'refused: may have only letters'],
  ])('%s with wildcards allowed is %s', (text, expected) => expect(parsed(text, true)).toContain(expected))

  test.each(['example.com', '*.example.com'])('the records of %s have one name', (domain) => {
    expect(verificationName(domain)).toBe('_svc-verify.example.com')
    expect(challengeName(domain)).toBe('_acme-challenge.example.com')
    expect(challengeAlias(domain, 'acme.plinth.example')).toBe('_acme-challenge.example.com.acme.plinth.example')
  })
})

test.each([
  [['abc'], true],
  [['v=spf1 -all', 'abc'], true],
  [['"abc"'], true],
  [[' "abc" '], true],
  [['"abc'], false],
  [['abcd'], false],
  [['ABC'], false],
  [[''], false],
  [[], false],
])('N03: the records %j prove the token abc: %s', (records, expected) => {
  expect(txtMatches(records, 'abc')).toBe(expected)
  expect(txtMatches([...records, ''], '')).toBe(false)
})

test.each([
  [['192.0.2.1'], true, 'points to this platform'],
  [['192.0.2.2', '192.0.2.1'], true, 'points to this platform'],
  [[], false, 'add one with the value 192.0.2.1, 192.0.2.2'],
  [['198.51.100.7'], false, 'points to 198.51.100.7: change it to 192.0.2.1, 192.0.2.2'],
  [['192.0.2.1', '198.51.100.7'], false, 'remove the A record 198.51.100.7'],
])('N04: the A records %j are right: %s', (found, ok, message) => {
  const expected = ['192.0.2.1', '192.0.2.2']
  expect(judgeA(found, expected)).toEqual({ ok, found, expected, message: expect.stringContaining(message) })
})

const issue = (value: string, tag = 'issue', flags = 0): CaaRecord => ({ flags, tag, value })

test.each<[string, CaaRecord[], boolean, boolean]>([
  ['no records', [], true, true],
  ['its name', [issue('ca.example')], true, true],
  ['its second name, with parameters', [issue(' CA2.example ; validationmethods=dns-01')], true, true],
  ['another name', [issue('other.example')], false, false],
  ['another name and its own', [issue('other.example'), issue('ca.example', 'ISSUE')], true, true],
  ['nobody', [issue(';')], false, false],
  ['only where to report', [issue('mailto:a@example.com', 'iodef', 128)], true, true],
  ['its name, wildcards by nobody', [issue('ca.example'), issue(';', 'issuewild')], true, false],
  ['another name, wildcards by itself', [issue('other.example'), issue('ca.example', 'issuewild')], false, true],
  ['wildcards by another', [issue('other.example', 'issuewild')], true, false],
  ['an unknown critical property', [issue('ca.example'), issue('x', 'future', 128)], false, false],
  ['an unknown property', [issue('ca.example'), issue('x', 'future')], true, true],
])('N06: CAA records that name %s', (_what, records, plain, wildcard) => {
  const issuers = ['ca.example', 'ca2.example']
  expect([caaAllows(records, issuers).ok, caaAllows(records, issuers, { isWildcard: true }).ok]).toEqual([plain, wildcard])
})

test('N06: CAA records refuse nothing while the names of the authority are unknown, and say what to add otherwise', () => {
  expect(caaAllows([issue('other.example')], [])).toEqual({ ok: true })
  expect(caaAllows([issue('other.example')], ['ca.example'])).toEqual({
    ok: false,
    message: expect.stringContaining('the tag issue and the value ca.example'),
  })
})
