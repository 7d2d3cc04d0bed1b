import { expect, test } from 'vitest'
import { createTextFinder } from '../../core/find-texts.ts'
import { createMasker, maskPlainSecrets } from '../../core/masking.ts'
import { formsOf } from '../../core/secret-forms.ts'

test.each<[string[], string, string]>([
  [['he', 'she', 'hers'], 'ushers he', 'u[][] []'.replace('[][]', '[]')],
  [['ab', 'bc'], 'abcab', '[][]'],
  [['abcd', 'bc'], 'abce abcd', 'a[]e []'],
  [['aaa'], 'aaaaa', '[]'],
  [[], 'abc', 'abc'],
])('%j in %s are %s', (texts, text, shown) => {
  let from = 0
  let marked = ''
  for (const { start, end } of createTextFinder(texts).find(text)) {
    marked += `${text.slice(from, start)}[]`
    from = end
  }
  expect(marked + text.slice(from)).toBe(shown)
})

test('found ranges are those that a search for each text gives', () => {
  const texts = ['a', 'ab', 'bab', 'bc', 'bca', 'c', 'caa', 'abab']
  const finder = createTextFinder(texts)
  for (let seed = 1; seed < 300; seed++) {
    const text = Array.from({ length: 12 }, (_, at) => 'abcd'[(seed * (at + 7) * 2654435761) % 4]).join('')
    const covered = Array.from(text, () => false)
    for (const one of texts)
      for (let at = text.indexOf(one); at >= 0; at = text.indexOf(one, at + 1)) covered.fill(true, at, at + one.length)
    const found = Array.from(text, () => false)
    for (const { start, end } of finder.find(text)) found.fill(true, start, end)
    expect([text, found]).toEqual([text, covered])
  }
})

const secret = 'pä$$ w/o "x"+1'
const { mask } = createMasker([secret, 'abc'])

test.each([
  ['raw', secret],
  ['in JSON', JSON.stringify(secret).slice(1, -1)],
  ['URL-encoded', encodeURIComponent(secret)],
  ['in a query', new URLSearchParams({ a: secret }).toString().slice(2)],
  ['URL-encoded with small digits', encodeURIComponent(secret).replace(/%../g, (code) => code.toLowerCase())],
  ['in a path', encodeURI(secret)],
  ['base64', Buffer.from(secret).toString('base64')],
  ['base64url', Buffer.from(secret).toString('base64url')],
])('E30: a secret is masked %s', (_how, text) => {
  expect(mask(`before ${text} after`)).toBe('before [masked] after')
  expect(mask(`${text}${text}`)).toBe('[masked][masked]')
})

test.each(['', 'x', 'xy', 'user:'])('E30: a secret is masked in the base64 of a longer text: %j', (before) => {
  const shown = mask(Buffer.from(`${before}${secret}, and more`).toString('base64'))
  expect(shown).toContain('[masked]')
  // what remains is the text around it, and at most 12 bits of each end
  expect(shown.replace('[masked]', '').length).toBeLessThan(((before.length + 10) * 4) / 3 + 8)
})

test('E30: shorter values than 4 characters stay', () => expect(mask('abc')).toBe('abc'))

test('E30: a secret of several lines is masked line by line, and its base64 in the lines that programs break it into', () => {
  const key = Array.from({ length: 12 }, (_, at) => `line ${at} of a key ${'x'.repeat(40)}`).join('\r\n')
  const ofKey = createMasker([key])
  for (const line of key.split('\r\n')) expect(ofKey.mask(`> ${line}`)).toBe('> [masked]')
  for (const columns of [64, 76]) {
    for (const line of Buffer.from(key)
      .toString('base64')
      .match(new RegExp(`.{1,${columns}}`, 'g')) ?? [])
      if (line.length >= 8) expect([columns, ofKey.mask(line)]).toEqual([columns, '[masked]'])
  }
})

test('E30: the beginning of a secret at the end of a line that goes on is held back', () => {
  const masker = createMasker(['hunter2 hunter3'])
  expect(masker.begunAtEnd('password: hunter2 hun')).toBe('hunter2 hun'.length)
  expect(masker.begunAtEnd('password')).toBe(0)
})

test.each<[string, string[], string]>([
  ['many secrets', Array.from({ length: 100 }, (_, at) => `secret number ${at}${'xyz'.repeat(10)}`), 'a line without a secret\n'],
  ['the most that one site may have', [0, 1].map((at) => `${at}`.repeat(32 * 1024)), '000000000000000000000000000000000\n'],
  ['many short lines', [Array.from({ length: 8000 }, (_, at) => `a${at}`).join('\n')], 'a79 a8 a799 b a7998\n'],
])('E30: 10 MB of a log and %s take seconds at most', (_what, values, line) => {
  const began = process.threadCpuUsage().user
  const masker = createMasker(values)
  const chunk = line.repeat(Math.ceil((64 * 1024) / line.length))
  for (let at = 0; at < 160; at++) masker.mask(chunk)
  expect((process.threadCpuUsage().user - began) / 1000).toBeLessThan(10_000)
})

test('E30: all forms of the most that one site may have are few enough to be searched for', () => {
  for (const mark of ['x', '"', 'é', '%20', ' a+/']) {
    const secrets = Array.from({ length: 16 }, (_, at) => `${at}${mark.repeat(4096 / mark.length - 3)}`)
    const length = [...formsOf(secrets)].reduce((sum, form) => sum + form.length, 0)
    expect(length, mark).toBeLessThan(1_000_000)
  }
})

test('E30: without preparation, secrets themselves are masked line by line', () => {
  expect(maskPlainSecrets('hunter2 and line one, line two, abc', ['hunter2', 'line one\nline two', 'abc'])).toBe(
    '[masked] and [masked], [masked], abc',
  )
})
