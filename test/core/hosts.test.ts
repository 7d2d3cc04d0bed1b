import { describe, expect, test } from 'vitest'
import { parseHost } from '../../core/hosts.ts'

describe('parseHost', () => {
  test.each([
    ['site.plinth.test', 'site.plinth.test'],
    ['site.plinth.test:8080', 'site.plinth.test'],
    ['site.plinth.test:', 'site.plinth.test'],
    ['site.plinth.test.', 'site.plinth.test'],
    ['site.plinth.test.:443', 'site.plinth.test'],
    ['SITE.Plinth.Test', 'site.plinth.test'],
    ['localhost', 'localhost'],
    ['a_b.test', 'a_b.test'],
    ['1a.2b', '1a.2b'],
    ['m\u00c3\u00bcnchen.test', 'xn--mnchen-3ya.test'],
    ['M\u00c3\u009cNCHEN.test', 'xn--mnchen-3ya.test'],
    ['xn--mnchen-3ya.test', 'xn--mnchen-3ya.test'],
  ])('%s asks for %s', (raw, host) => {
    expect(parseHost([raw])).toBe(host)
  })

  test.each([
    '',
    '.',
    ':80',
    'a..test',
    'a.test..',
    '-a.test',
    'a@b.test',
    'u:p@a.test',
    'a.test/x',
    'a.test\\x',
    'a.test?x',
    'a.test#x',
    'a b.test',
    'a.test\u0000',
    'a.test%2eb',
    'a.test:80:80',
    'a.test:x',
    'a.test:123456',
    '127.0.0.1',
    '127.0.0.1:80',
    '127.1',
    '2130706433',
    '0x7f.1',
    '1.2.3.4.',
    '[::1]',
    '[::1]:80',
    '::1',
    'a\u00ff.test',
    `${'a'.repeat(64)}.test`,
    `${'a.'.repeat(130)}test`,
  ])('%j is refused', (raw) => {
    expect(parseHost([raw])).toBeUndefined()
  })

  test('no Host header and several are refused', () => {
    expect(parseHost([])).toBeUndefined()
    expect(parseHost(['a.test', 'a.test'])).toBeUndefined()
  })
})
