import { describe, expect, test } from 'vitest'
import { inlineCode } from '../../core/inline-code.ts'
import { commentText, statusText } from '../../infra/forges/texts.ts'

const now = new Date('2026-11-21T12:00:00Z')
const facts = {
  site_name: 'docs',
  commit: 'a'.repeat(40),
  ref: 'main',
  state: 'success',
  site_url: 'https://preview.example/_p/abc_def/',
  log_url: 'https://plinth.example/deploys/1',
  at: now,
} as const

describe('texts', () => {
  test('the comment', () => {
    expect(commentText(facts).split('\n')).toEqual([
      '| Deploy | |',
      '|---|---|',
      '| Site | `docs` |',
      '| Branch | `main` |',
      '| Commit | `aaaaaaaa` |',
      '| State | ✅ Ready |',
      '| Address | [Open](https://preview.example/_p/abc_def/) |',
      '| Log | [Show](https://plinth.example/deploys/1) |',
      '| Updated | 2026-11-21 12:00 UTC |',
    ])
  })

  test.each([
    ['pending', '⏳ Building'],
    ['failure', '❌ Failed'],
    ['cancelled', '🚫 Cancelled'],
    ['waiting_for_approval', '✋ Waiting'],
    ['removed', '🗑️ Removed'],
  ] as const)('the comment of %s says %s', (state, word) =>
    expect(commentText({ ...facts, state })).toContain(`| State | ${word}`),
  )

  test('the comment of a preview that is gone has no link to it', () => {
    expect(commentText({ ...facts, state: 'removed' })).not.toContain('preview.example')
  })

  test.each([
    ['main', '`main`'],
    ['a`b', '`` a`b ``'],
    ['`', '`` ` ``'],
    ['a``b`c', '``` a``b`c ```'],
    ['x | y', '`x ¦ y`'],
    ['x \\| y', '`x \\¦ y`'],
    ['a\n\n# Title', '`a # Title`'],
    ['a\r\n| b |', '`a ¦ b ¦`'],
    ['@everyone #1 :tada: <img src=x onerror=y> [a](http://b)', '`@everyone #1 :tada: <img src=x onerror=y> [a](http://b)`'],
    ['--> <!-- plinth:x -->', '`--> <!-- plinth:x -->`'],
    ['\u202Egnp.exe', '`gnp.exe`'],
    ['   ', ''],
  ])('%j is shown as %s', (text, expected) => expect(inlineCode(text)).toBe(expected))

  const hostile = [
    '`',
    '``',
    '|',
    '\\',
    '\\|',
    '\\`|`',
    '<!--',
    '-->',
    '[x](y)',
    '![](z)',
    '@a',
    '\n',
    '\r',
    '\u2028',
    '</td>',
    '$',
    '~~',
    'a\ud800',
  ]
  test('no branch, name or error leaves its cell', () => {
    for (const one of hostile) {
      for (const two of hostile) {
        const text = `${one}evil${two}`
        const lines = commentText({ ...facts, state: 'failure', site_name: text, ref: text, error: text }).split(
          /[\n\r\u2028\u2029]/,
        )
        expect([text, lines.length]).toEqual([text, 10])
        for (const line of lines) expect([text, line.split('|').length - 1]).toEqual([text, 3])
        for (const line of lines.filter((line) => line.includes('evil'))) {
          const [, fence = '', inner = ''] = /^\| \w+ \| (`+)(.*)\1 \|$/.exec(line) ?? []
          expect([text, fence === '', inner.includes(fence) && new RegExp(`(^|[^\`])${fence}([^\`]|$)`).test(inner)]).toEqual([
            text,
            false,
            false,
          ])
        }
      }
    }
  })

  test.each(['javascript:alert(1)', 'https://user:word@host/', 'nonsense', ''])('%j is no link', (site_url) => {
    expect(commentText({ ...facts, site_url })).not.toContain('Address')
  })

  test('no character of an address ends its link', () => {
    const site_url = 'https://a.example/x)[y](z|"<b>`?q=)(\\'
    const line = commentText({ ...facts, site_url })
      .split('\n')
      .find((line) => line.includes('Address'))
    expect(line).toMatch(/^\| Address \| \[Open\]\(https:\/\/a\.example\/[^()[\]|<>`\\ ]*\) \|$/)
  })

  test.each([
    [{ state: 'pending' }, 'The site is being built'],
    [{ state: 'success', duration_ms: 1400 }, 'Deployed in 1 s'],
    [{ state: 'success' }, 'Deployed'],
    [{ state: 'failure', error: 'npm ERR!\nmissing script' }, 'The build failed: npm ERR! missing script'],
    [{ state: 'cancelled', error: 'cancelled by key ci' }, 'The deploy was cancelled by key ci'],
  ] as const)('%j is described as %s', (given, expected) => {
    expect(statusText(given)).toBe(expected)
  })

  test('a description has 140 characters at most', () => {
    const text = statusText({ state: 'failure', error: 'x'.repeat(500) })
    expect(text).toBe(`The build failed: ${'x'.repeat(121)}…`)
    expect(text.length).toBe(140)
  })
})
