import { expect, test } from 'vitest'
import { reasonOfPath, skippedLines } from '../../core/skipped-paths.ts'

test.each([
  ['node_modules/a/index.js', 'installed packages are not taken from the source'],
  ['web/node_modules/', 'installed packages are not taken from the source'],
  ['.git/config', 'repositories are not published'],
  ['__MACOSX/a', 'added by macOS'],
  ['a/._b', 'added by macOS'],
  ['../etc/passwd', 'the path contains ".."'],
  ['a\\b', 'the path contains a backslash'],
  ['__svc/a', 'files of this name are never published'],
  ['.env.local', 'files of this name are never published'],
  ['latest', undefined],
])('%s is left out because: %s', (path, reason) => expect(reasonOfPath(path)).toBe(reason))

test('the log groups the paths by reason, and shows ten of each', () => {
  const names = Array.from({ length: 12 }, (_, index) => `l${index}`)
  const links = names.map((path) => ({ path, reason: 'a link' }))
  const repository = { path: '.git/config', reason: 'repositories are not published' }
  expect(skippedLines([repository, ...links, { path: '… and 7 more', reason: '' }])).toEqual([
    'left out 1 path (repositories are not published): .git/config',
    `left out 12 paths (a link): ${names.slice(0, 10).join(', ')} and 2 more`,
    'left out 7 more',
  ])
  expect(skippedLines([])).toEqual([])
})
