import fc from 'fast-check'
import createMarkdown from 'markdown-it'
import { describe, expect, test } from 'vitest'
import { piecesWithoutLinks, withoutInvisible, withoutLinks } from '../../core/plain-text.ts'

// what begins with a scheme, and then also what only looks like a name
const schemes = createMarkdown().linkify
schemes.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false })
const linkify = createMarkdown().linkify.tlds(['example', 'xyz', 'zip'], true)
linkify.set({ fuzzyLink: true, fuzzyEmail: true, fuzzyIP: true })

/** As mail programs find addresses in a text; `spaced` as Thunderbird does between quotes. */
const finders: Record<string, RegExp> = {
  scheme: /\b[a-z][a-z0-9+.-]*:(?:\/\/|[^\s/\])}>"'])/iu,
  www: /www[.\u3002\uff0e\uff61][\p{L}\p{N}-]/iu,
  name: /[\p{L}\p{N}]\p{M}*[.\u3002\uff0e\uff61\u2024](?:[\p{L}\p{M}\u200c\u200d]{2,}|xn--)/u,
  ip: /\d+(?:[.\u3002\uff0e\uff61]\d+){3}/u,
  email: /[^\s@[\]]@[\p{L}\p{N}]/u,
  share: /[/\\]{2}[^\s\]/\\]/u,
  spaced: /(?:"|<|^)\s*(?:https?|ftp|file|mailto)\s*:/iu,
}
const linksIn = (text: string) => [
  ...(linkify.match(text) ?? []).map(({ raw }) => raw),
  ...(linkify.match(text.replace(/[\u200c\u200d]/g, '')) ?? []).map(({ raw }) => raw),
  ...(schemes.match(text.replace(/\s/g, '')) ?? []).map(({ raw }) => raw),
  ...(linkify.match(text.normalize('NFKC')) ?? []).map(({ raw }) => raw),
  ...Object.entries(finders).flatMap(([name, finder]) => (finder.test(text) ? [name] : [])),
]

describe('R05: a stranger’s text has no link', () => {
  test.each([
    ['https://evil.example/path?q=1#x', 'https[://]evil[.]example/path?q=1#x'],
    ['HTTP://EVIL.EXAMPLE', 'HTTP[://]EVIL[.]EXAMPLE'],
    ['http:/evil.example', 'http[:/]evil[.]example'],
    ['http:\\\\evil.example', 'http[:\\\\]evil[.]example'],
    ['https:evil.example', 'https[:]evil[.]example'],
    ['www.evil.example', 'www[.]evil[.]example'],
    ['www.evil', 'www[.]evil'],
    ['WWW.x/y', 'WWW[.]x/y'],
    ['evil.example/path', 'evil[.]example/path'],
    ['evil.xn--p1ai', 'evil[.]xn--p1ai'],
    ['пример.рф', 'пример[.]рф'],
    ['❤.ws', '❤[.]ws'],
    ['evil\u3002example', 'evil[\u3002]example'],
    ['evil\uff0eexample', 'evil[\uff0e]example'],
    ['evil\uff61example', 'evil[\uff61]example'],
    ['evil\u2024example', 'evil[\u2024]example'],
    ['evil.\u200dexample', 'evil[.]\u200dexample'],
    ['evil.c\u200com', 'evil[.]c\u200com'],
    ['evil.𝐜𝐨𝐦', 'evil[.]𝐜𝐨𝐦'],
    ['foo@bar.com', 'foo[@]bar[.]com'],
    ['foo@bar', 'foo[@]bar'],
    ['foo\uff20bar\uff0ecom', 'foo[\uff20]bar[\uff0e]com'],
    ['mailto:foo@bar.com', 'mailto[:]foo[@]bar[.]com'],
    ['tel:+1900', 'tel[:]+1900'],
    ['ms-app:open', 'ms-app[:]open'],
    ['javascript:alert(1)', 'javascript[:]alert(1)'],
    ['192.0.2.1/x', '192[.]0[.]2[.]1/x'],
    ['http://127.1', 'http[://]127.1'],
    ['http://localhost:80', 'http[://]localhost[:]80'],
    ['//evil.example', '[//]evil[.]example'],
    ['//localhost/x', '[//]localhost/x'],
    ['\\\\evil\\share', '[\\\\]evil\\share'],
    ['<https://evil.example>', '<https[://]evil[.]example>'],
    ['"https: //evil. example"', '"https[:] [//]evil. example"'],
    ['"https: evil. example"', '"https[:] evil. example"'],
    ['(see:https://evil.example)', '(see[:]https[://]evil[.]example)'],
    ['a,evil.example;b', 'a,evil[.]example;b'],
    ['evil..example', 'evil.[.]example'],
    ['Thanks.Bye', 'Thanks[.]Bye'],
  ])('%j is shown as %j', (text, shown) => {
    expect(withoutLinks(text)).toBe(shown)
    expect(linksIn(shown)).toEqual([])
  })

  test.each([
    'Ada Lovelace',
    '3.5 kg at 10:30, i.e. on 26.11.2026.',
    'Dear all: thanks... and bye!',
    'He said: "yes." (Or no.) :-)',
    'a/b, c\\d and 1/2',
    'U.S.A. or 1.234.567 @ home',
    '@ada #7',
    '50 % + 1 = *x* _y_ `z` <b> & {{c}} [d](e)',
    'Привет. Как дела?',
    '.5',
    '{"x":[true]} (a):b',
    'One.\nTwo.\n\tThree:\nFour',
    '👩‍👩‍👧 نمی‌خواهم',
    '',
  ])('%j stays as it is', (text) => expect(withoutLinks(withoutInvisible(text))).toBe(text))

  test('whatever it is', () => {
    const words = ['http', 'evil', 'com', 'example', 'www', 'mailto', 'рф']
    const marks = [...':/\\.@ "<12-()[]?#'.split(''), '//', '\u3002', '\uff0e', '\u200d', '\u200b', '\u0301', '👋']
    const unit = fc.constantFrom(...words, ...marks)
    const run = fc.property(fc.array(unit, { maxLength: 16 }), (units) => {
      const shown = withoutLinks(withoutInvisible(units.join('')))
      // without a scheme, spaces are part of no address
      expect([shown, (linkify.match(shown) ?? []).map(({ raw }) => raw)]).toEqual([shown, []])
      for (const name of ['www', 'name', 'ip', 'email', 'share'])
        expect([shown, finders[name]?.test(shown)]).toEqual([shown, false])
    })
    fc.assert(run, { numRuns: 3000 })
  })
})

test.each([
  ['\u202egnp.exe', 'gnp.exe'],
  ['a\u200bb\u2060c\ufeffd\u00ade', 'abcde'],
  ['a\u2066b\u2069', 'ab'],
  ['\u{e0041}x', 'x'],
  ['👩‍👩‍👧', '👩‍👩‍👧'],
])('%j is seen as %j', (text, seen) => expect(withoutInvisible(text)).toBe(seen))

describe('R05: a stranger’s text forms no link with the text around it', () => {
  const shown = (...texts: (string | [foreign: string])[]) =>
    piecesWithoutLinks(
      texts.map((text) => (typeof text === 'string' ? { text, isForeign: false } : { text: text[0], isForeign: true })),
    )
  test.each<[(string | [string])[], string[]]>([
    [
      ['See www.', ['evil.example'], '!'],
      ['See www[.]', 'evil[.]example', '!'],
    ],
    [
      [['evil'], '.com'],
      ['evil', '[.]com'],
    ],
    [
      [['evil.'], ['com']],
      ['evil[.]', 'com'],
    ],
    [
      [['https:'], '//', ['evil']],
      ['https[://]', '', 'evil'],
    ],
    [
      ['https:', ['//evil.example'], ' x'],
      ['https[://]', 'evil[.]example', ' x'],
    ],
    [
      ['https://shop.com', ['munity']],
      ['https[://]shop[.]com', 'munity'],
    ],
    [
      ['ada@', ['evil'], '.example'],
      ['ada[@]', 'evil', '[.]example'],
    ],
    [
      ['Hi ', ['Ada'], ', see https://shop.example/ or ask@shop.example'],
      ['Hi ', 'Ada', ', see https://shop.example/ or ask@shop.example'],
    ],
    [
      ['www.shop.example', [''], ' is ours'],
      ['www.shop.example', '', ' is ours'],
    ],
    [
      ['a.example ', ['b'], ' c.example'],
      ['a.example ', 'b', ' c.example'],
    ],
    [
      [['b'], '\n', 'c.example'],
      ['b', '\n', 'c.example'],
    ],
  ])('%j', (pieces, expected) => expect(shown(...pieces)).toEqual(expected))
})

test('a long text takes little time', () => {
  for (const unit of ['.', 'a.', 'a.aa', ':', 'a:', '/', '\\', '@', 'a@', ' ', '1.', 'https://', '\u200d', '👋', ': ', '//a ']) {
    const begin = process.threadCpuUsage()
    withoutLinks(withoutInvisible(unit.repeat(50_000)))
    const { user, system } = process.threadCpuUsage(begin)
    // milliseconds: seconds if it cost the square of the length
    expect([unit, (user + system) / 1000 < 1000]).toEqual([unit, true])
  }
})
