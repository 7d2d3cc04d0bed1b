import { expect, test } from 'vitest'
import { copiesOfLinks, linkTarget } from '../../core/link-targets.ts'

test.each([
  ['a/link', 'symbolic', 'b', 'a/b'],
  ['a/link', 'symbolic', './../b/c', 'b/c'],
  ['a/link', 'symbolic', '..', ''],
  ['a/link', 'symbolic', '../..', undefined],
  ['link', 'symbolic', '..', undefined],
  ['link', 'symbolic', 'a/../../b', undefined],
  ['link', 'symbolic', '/etc/passwd', undefined],
  ['link', 'symbolic', 'a\\b', undefined],
  ['link', 'symbolic', 'a\0b', undefined],
  ['link', 'symbolic', '', undefined],
  ['link', 'symbolic', 'x/'.repeat(3000), undefined],
  ['a/link', 'hard', './b', 'b'],
  ['a/link', 'hard', '../b', undefined],
] as const)('D01: from %s a %s link with the text %s names %s', (path, kind, text, named) => {
  expect(linkTarget(path, kind, text)).toBe(named)
})

const files = ['a/b/c', 'a/b/d', 'a/e', 'f']
const chain = (length: number) => Object.fromEntries(Array.from({ length }, (_, i) => [`l${i}`, i === 0 ? 'f' : `l${i - 1}`]))

test.each<[Record<string, string>, string, string[]]>([
  [{ l: 'f' }, 'l', ['l = f']],
  [{ l: 'a/b' }, 'l', ['l/c = a/b/c', 'l/d = a/b/d']],
  [{ l: '' }, 'l', ['l/a/b/c = a/b/c', 'l/a/b/d = a/b/d', 'l/a/e = a/e', 'l/f = f']],
  [{ l: 'm', m: 'f' }, 'l', ['l = f']],
  [{ l: 'm/c', m: 'a/b' }, 'l', ['l = a/b/c']],
  [{ l: 'm/b/c', m: 'n', n: 'a' }, 'l', ['l = a/b/c']],
  [{ l: 'nothing' }, 'l', ['l: a link to something that is not in the tree']],
  [{ l: 'f/x' }, 'l', ['l: a link to something that is not in the tree']],
  [{ l: 'l' }, 'l', ['l: a link that leads to too many other links']],
  [{ l: 'm', m: 'l' }, 'l', ['l: a link that leads to too many other links']],
  [{ l: 'l/x' }, 'l', ['l: a link that leads to too many other links']],
  [chain(8), 'l7', ['l7 = f']],
  [chain(9), 'l8', ['l8: a link that leads to too many other links']],
])('D01: with the links %o, %s stands for %o', (links, link, expected) => {
  const copies = [...copiesOfLinks(files, new Map(Object.entries(links)))]
  const shown = copies.map((copy) => ('from' in copy ? `${copy.path} = ${copy.from}` : `${copy.path}: ${copy.reason}`))
  expect(shown.filter((line) => new RegExp(`^${link}[ /:]`).test(line))).toEqual(expected)
})

test('D01: links are resolved in linear time', () => {
  const deep = Array.from({ length: 20_000 }, (_, i) => `${'d/'.repeat(100)}${i}`)
  const links = new Map(Array.from({ length: 20_000 }, (_, i) => [`l${i}`, deep[i] ?? '']))
  const began = performance.now()
  expect([...copiesOfLinks(deep, links)]).toHaveLength(20_000)
  expect(performance.now() - began).toBeLessThan(5000)
})
