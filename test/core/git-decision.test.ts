import { describe, expect, test } from 'vitest'
import { decidePush, hasSkipMarker, isSameCommit, type PushRules, previewRef, touchesWatched } from '../../core/git-decision.ts'
import type { GitEvent, PullRequest, Push } from '../../core/git-events.ts'
import { isBranchName } from '../../core/git-remotes.ts'
import { cpuMsOf } from '../cpu-time.ts'

const head = '1f0c8ff3a4b2f1a6c4c9e5b7d0a1b2c3d4e5f601'

const rules: PushRules = { branch: 'main', branch_previews: true, pull_request_previews: true, watch_paths: [] }
const push: Push = {
  kind: 'push',
  ref: 'main',
  commit: head,
  deleted: false,
  message: 'Change it',
  author: 'Ada',
  repo_url: undefined,
  changed_files: ['index.html', 'docs/a.md'],
}
const request: PullRequest = {
  kind: 'pull_request',
  number: 7,
  action: 'opened',
  ref: 'feature',
  commit: head,
  from_fork: false,
  base: 'main',
  title: 'Change it',
  message: undefined,
  author: 'Ada',
  repo_url: undefined,
}

describe('G04: what follows from a delivery', () => {
  test.each([
    ['a push to the branch', push, rules, {}, 'build main'],
    ['one that names no branch', { ...push, ref: undefined, commit: undefined }, rules, { commit: head }, 'build main'],
    ['a push to another branch', { ...push, ref: 'feature' }, rules, {}, 'preview feature from refs/heads/feature'],
    ['the same without previews', { ...push, ref: 'feature' }, { ...rules, branch_previews: false }, {}, 'skipped branch'],
    ['a branch in other case', { ...push, ref: 'Main' }, { ...rules, branch_previews: false }, {}, 'skipped branch'],
    ['the end of a branch', { ...push, ref: 'feature', deleted: true }, rules, {}, 'skipped deleted, ends feature'],
    ['the end of the live branch', { ...push, deleted: true }, rules, {}, 'skipped deleted'],
    ['a ping', { kind: 'ping' }, rules, {}, 'skipped ping'],
    ['a tag', { kind: 'ignored', reason: '' }, rules, {}, 'skipped event'],
    ['the commit of the newest deploy', push, rules, { commit: head }, 'skipped duplicate'],
    ['a commit after it', push, rules, { commit: '2'.repeat(40) }, 'build main'],
    ['[skip deploy]', { ...push, message: 'Change\n\n[skip deploy]' }, rules, {}, 'skipped skip_marker'],
    ['[Skip CI]', { ...push, message: '[Skip CI] Change' }, rules, {}, 'skipped skip_marker'],
    ['[ci skip]', { ...push, message: '[ci skip]' }, rules, {}, 'skipped skip_marker'],
    ['nothing watched', push, { ...rules, watch_paths: ['src/**'] }, {}, 'skipped watch_paths'],
    ['something watched', push, { ...rules, watch_paths: ['docs/**'] }, {}, 'build main'],
    [
      'what has changed is not known',
      { ...push, changed_files: undefined },
      { ...rules, watch_paths: ['src/**'] },
      {},
      'build main',
    ],
    ['a pull request', request, rules, {}, 'preview feature from refs/heads/feature of #7'],
    ['the same without previews', request, { ...rules, pull_request_previews: false }, {}, 'skipped branch'],
    ['one that is closed', { ...request, action: 'closed' }, rules, {}, 'skipped deleted, ends feature'],
    ['one of the live branch', { ...request, ref: 'main' }, rules, {}, 'skipped branch'],
    [
      'one with new commits that are known',
      { ...request, action: 'updated' },
      rules,
      { commit: head.slice(0, 12) },
      'skipped duplicate',
    ],
    ['one of a fork', { ...request, from_fork: true }, rules, {}, 'skipped fork'],
    ['one of a fork’s main', { ...request, ref: 'main', from_fork: true }, rules, {}, 'skipped fork'],
    [
      'one that is approved',
      { ...request, ref: 'main', from_fork: true },
      rules,
      { fork_approved: true },
      'preview pull:7 from refs/pull/7/head of #7',
    ],
    [
      'one of a fork that is closed',
      { ...request, from_fork: true, action: 'closed' },
      rules,
      {},
      'skipped deleted, ends pull:7',
    ],
  ] as [string, GitEvent, PushRules, object, string][])('%s', (_title, event, given, known, expected) => {
    expect(showDecision(decidePush('github', event, given, known))).toBe(expected)
  })

  test.each([
    ['github', 'preview pull:7 from refs/pull/7/head of #7'],
    ['gitea', 'preview pull:7 from refs/pull/7/head of #7'],
    ['gitlab', 'preview pull:7 from refs/merge-requests/7/head of #7'],
    ['bitbucket_dc', 'preview pull:7 from refs/pull-requests/7/from of #7'],
    ['bitbucket', 'skipped fork'],
  ] as const)('an approved fork at %s', (forge, expected) => {
    const fork = { ...request, from_fork: true }
    expect(showDecision(decidePush(forge, fork, rules, { fork_approved: true }))).toBe(expected)
  })

  test('a branch and its pull request have one preview, a fork one of its own', () => {
    expect([push, { ...push, ref: undefined }, request].map((event) => previewRef(event, 'live'))).toEqual([
      'main',
      'live',
      'feature',
    ])
    const fork = previewRef({ ...request, from_fork: true }, 'live')
    expect([fork, isBranchName(fork)]).toEqual(['pull:7', false])
  })
})

function showDecision(decision: ReturnType<typeof decidePush>): string {
  if (decision.kind === 'build') return `build ${decision.ref}`
  if (decision.kind === 'skipped')
    return `skipped ${decision.reason}${decision.ends === undefined ? '' : `, ends ${decision.ends}`}`
  return `preview ${decision.ref} from ${decision.fetch_ref}${decision.pull_request === undefined ? '' : ` of #${decision.pull_request}`}`
}

describe('G04: watched paths', () => {
  test.each([
    [[], 'a', true],
    [['docs/**'], 'docs/a.md', true],
    [['docs/**'], 'docs/deep/a.md', true],
    [['docs/**'], 'docsy/a.md', false],
    [['docs/**'], 'src/docs/a.md', false],
    [['docs'], 'docs/deep/a.md', true],
    [['docs/'], 'docs/a.md', true],
    [['/docs/**'], 'docs/a.md', true],
    [['docs/**', '!docs/drafts/**'], 'docs/a.md', true],
    [['docs/**', '!docs/drafts/**'], 'docs/drafts/a.md', false],
    [['docs/**', '!docs/drafts/**', 'docs/drafts/b.md'], 'docs/drafts/b.md', true],
    [['!docs/**'], 'src/a', true],
    [['!docs/**'], 'docs/a', false],
    [['*.md'], 'a.md', true],
    [['*.md'], 'docs/a.md', false],
    [['**/*.md'], 'a.md', true],
    [['**/*.md'], 'docs/deep/a.md', true],
    [['docs/*/a.md'], 'docs/x/a.md', true],
    [['docs/*/a.md'], 'docs/x/y/a.md', false],
    [['docs/**/a.md'], 'docs/x/y/a.md', true],
    [['docs/**/a.md'], 'docs/a.md', true],
    [['a?c'], 'abc', true],
    [['a?c'], 'ac', false],
    [['a*c*e'], 'abcde', true],
    [['a*c*e'], 'abcdf', false],
    [['a.c'], 'abc', false],
    [['(a|b)+'], 'a', false],
    [['/'], 'a', false],
  ])('%j with %s: %s', (patterns, file, expected) => expect(touchesWatched([file], patterns)).toBe(expected))

  test('one watched file is enough', () => {
    expect(touchesWatched(['a', 'docs/b'], ['docs/**'])).toBe(true)
    expect(touchesWatched([], ['docs/**'])).toBe(false)
  })

  test('no pattern is slow', () => {
    const ms = cpuMsOf(() => {
      expect(touchesWatched([`${'a'.repeat(2000)}b`], [`${'*a'.repeat(100)}c`])).toBe(false)
      expect(touchesWatched([`${'a/'.repeat(500)}b`], [`${'**/a/'.repeat(50)}c`])).toBe(false)
    })
    expect(ms).toBeLessThan(1000)
  })
})

test.each([
  ['[skip ci]', true],
  ['skip ci', false],
  ['[skip  ci]', false],
  ['[skip deploys]', false],
])('%j skips: %s', (message, expected) => expect(hasSkipMarker(message)).toBe(expected))

test.each([
  [head, head, true],
  [head, head.slice(0, 12), true],
  [head.slice(0, 12), head, true],
  [head, `2${head.slice(1)}`, false],
  [undefined, undefined, false],
  [head, undefined, false],
])('%s and %s are one commit: %s', (one, other, expected) => expect(isSameCommit(one, other)).toBe(expected))

describe('11: a push of many files with many patterns is decided quickly', () => {
  const manyFiles = Array.from({ length: 10_000 }, (_, i) => `packages/p${i % 50}/src/lib/module-${i}.ts`)
  const plain = Array.from({ length: 100 }, (_, i) => `docs/part-${i}/**`)

  test('100 plain patterns leave 10,000 files unwatched, as they would one', () => {
    expect(touchesWatched(manyFiles, plain)).toBe(false)
    expect(touchesWatched([...manyFiles, 'docs/part-99/a.md'], plain)).toBe(true)
  })

  test.each([
    ['stars within names', `${'*a'.repeat(140)}b*a`, 'a'.repeat(255)],
    ['folders', `${'**/a/'.repeat(60)}b`, 'a/'.repeat(500)],
    ['plain names', 'docs/**', 'a'.repeat(1000)],
  ])('patterns of %s cost at most a second for 4,000 files', (_what, pattern, file) => {
    const files = Array.from({ length: 4000 }, (_, i) => `${file}${i}`)
    const before = process.cpuUsage()
    touchesWatched(files, Array<string>(100).fill(pattern))
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(1000)
  })

  test('what costs too much to compare is built, not skipped', () => {
    expect(touchesWatched(Array<string>(4000).fill('a'.repeat(255)), Array<string>(100).fill(`${'*a'.repeat(140)}b*a`))).toBe(
      true,
    )
  })
})
