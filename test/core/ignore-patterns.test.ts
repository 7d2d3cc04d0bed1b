import { expect, test } from 'vitest'
import { createIgnore, refusalOfPattern } from '../../core/ignore-patterns.ts'
import { cpuMsOf } from '../cpu-time.ts'

/** As the walk of a folder asks: what lies in an ignored folder is not asked for. */
function isIgnored(patterns: readonly string[], path: string): boolean {
  const ignore = createIgnore(patterns)
  const names = path.split('/')
  return names.some((_, at) => ignore(names.slice(0, at + 1).join('/'), at < names.length - 1))
}

test.each<[string[], string, boolean]>([
  [['*.map'], 'a.map', true],
  [['*.map'], 'assets/deep/a.map', true],
  [['*.map'], 'a.mapper', false],
  [['drafts'], 'blog/drafts/a.html', true],
  [['drafts/'], 'drafts', false],
  [['drafts/'], 'blog/drafts/a.html', true],
  [['/drafts'], 'blog/drafts/a.html', false],
  [['/drafts'], 'drafts/a.html', true],
  [['blog/drafts'], 'blog/drafts/a.html', true],
  [['blog/drafts'], 'x/blog/drafts/a.html', false],
  [['blog/*'], 'blog/a/b.html', true],
  [['blog/*.md'], 'blog/a/b.md', false],
  [['**/b.md'], 'a/b.md', true],
  [['**/b.md'], 'b.md', true],
  [['a/**/b'], 'a/b', true],
  [['a/**/b'], 'a/x/y/b', true],
  [['a/**'], 'a/x/y', true],
  [['a/**', '!a/keep'], 'a/keep', false],
  [['a', '!a/keep'], 'a/keep', true],
  [['*.md', '!README.md'], 'README.md', false],
  [['!README.md', '*.md'], 'README.md', true],
  [['?.md'], 'ab.md', false],
  [['# *.md', '', '/', ' '], 'a.md', false],
  [['*.md  '], 'a.md', true],
])('E30: %j and %s: ignored %j', (patterns, path, ignored) => expect(isIgnored(patterns, path)).toBe(ignored))

test('E30: patterns that take too long are refused, soon', () => {
  const ignore = createIgnore(Array.from({ length: 100 }, () => `*${'a'.repeat(100)}x*b`))
  const match = () => {
    for (let at = 0; at < 20_000; at++) ignore(`${'a'.repeat(250)}b`, false)
  }
  const ms = cpuMsOf(() => expect(match).toThrow('the patterns of ignore in plinth.json take too long to match'))
  expect(ms).toBeLessThan(10_000)
})

test.each(['a[bc]', 'a\\b', 'a\nb', 'a'.repeat(201)])('E30: %j is no pattern', (pattern) =>
  expect(refusalOfPattern(pattern)).toBeDefined(),
)
