import { expect, test } from 'vitest'
import { readableLevels, trustOf } from '../../core/build-trust.ts'

test.each([
  ['an archive that goes live', 'archive', true, null, 'production'],
  ['the connected branch', 'git', true, null, 'production'],
  ['an archive that does not go live', 'archive', false, null, 'preview'],
  ['a branch of the connected repository', 'git', false, false, 'preview'],
  ['the pull request of a fork', 'git', false, true, 'fork'],
  ['a commit whose preview is gone', 'git', false, null, 'fork'],
] as const)('%s is trusted as that', (_what, source_kind, activate, from_fork, level) =>
  expect(trustOf({ source_kind, activate, from_fork })).toBe(level),
)

test.each([
  ['production', ['production']],
  ['preview', ['preview', 'production']],
  ['fork', []],
  ['', []],
])('%s builds read what these have set aside: %s', (level, levels) => expect(readableLevels(level)).toEqual(levels))
