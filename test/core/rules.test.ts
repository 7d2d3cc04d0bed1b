import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type DeployAction, deployActions, deployAllows, deployStatuses } from '../../core/deploy.ts'
import * as limits from '../../core/limits.ts'
import { judgePath, judgeSourcePath } from '../../core/manifest.ts'
import { defaultPlans, planAllows, planFor, planNames, upgradeLifts } from '../../core/plans.ts'
import { covers, scopes, scopesOf } from '../../core/scopes.ts'
import { isReservedSubdomain, isShortSubdomain, parseSubdomain } from '../../core/subdomain-names.ts'

describe('paths of an upload', () => {
  test.each([
    ['index.html', 'keep index.html'],
    ['/a/b.css', 'keep a/b.css'],
    ['///a', 'keep a'],
    ['e\u0301.txt', 'keep \u00e9.txt'],
    ['.well-known/security.txt', 'keep .well-known/security.txt'],
    ['a b/ü.png', 'keep a b/ü.png'],
    ['gitignore', 'keep gitignore'],
    ['a/env', 'keep a/env'],
    ['x__svc/a', 'keep x__svc/a'],
    ['a/__svc/b', 'keep a/__svc/b'],
    ['__svc/login', 'skip'],
    ['__SVC/x', 'skip'],
    ['.git/config', 'skip'],
    ['a/.GIT/b', 'skip'],
    ['.gitignore', 'skip'],
    ['.env', 'skip'],
    ['a/.env.production', 'skip'],
    ['.npmrc', 'skip'],
    ['a/.DS_Store', 'skip'],
    ['Thumbs.db', 'skip'],
    ['node_modules/a/index.js', 'skip'],
    ['', 'bad'],
    ['/', 'bad'],
    ['..', 'bad'],
    ['a/../b', 'bad'],
    ['./a', 'bad'],
    ['a//b', 'bad'],
    ['a/', 'bad'],
    ['a\\b', 'bad'],
    ['a\u0000b', 'bad'],
    ['a\nb', 'bad'],
    ['a\u007f', 'bad'],
    ['\ud800', 'bad'],
    ['caf\ufffd.txt', 'bad'],
    ['node_modules/a', 'skip'],
    ['assets/node_modules/a', 'keep assets/node_modules/a'],
    ['x'.repeat(256), 'bad'],
    [`${'a/'.repeat(511)}bc`, `keep ${'a/'.repeat(511)}bc`],
    [`${'a/'.repeat(512)}b`, 'bad'],
  ])('V13 V14 E7: %j: %s', (path, expected) => {
    const verdict = judgePath(path)
    expect(verdict.kind === 'keep' ? `keep ${verdict.path}` : verdict.kind).toBe(expected)
  })

  test.each([
    ['.env', 'keep'],
    ['src/__svc/x', 'keep'],
    ['.npmrc', 'keep'],
    ['.git/HEAD', 'skip'],
    ['a/node_modules/b', 'skip'],
    ['../x', 'bad'],
  ])('E7: in the source of a build %j: %s', (path, expected) => expect(judgeSourcePath(path).kind).toBe(expected))

  test('what is kept is judged the same again and never leaves the root', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.webPath(), fc.string()), (path) => {
        const verdict = judgePath(path)
        if (verdict.kind !== 'keep') return
        expect(judgePath(verdict.path)).toEqual(verdict)
        expect(verdict.path.split('/').some((segment) => segment === '' || segment === '.' || segment === '..')).toBe(false)
      }),
    )
  })
})

describe('subdomains', () => {
  test.each([
    ['abcd', false],
    ['abcde', true],
    ['a'.repeat(63), true],
    ['a'.repeat(64), false],
    ['My-Site-1', true],
    ['-abcdef', false],
    ['abcdef-', false],
    ['abc.def', false],
    ['ab--cdef', false],
    ['abc--def', true],
    ['xn--caf-dma', false],
    ['сайтик', false],
    ['', false],
  ])('S03 U06: %j is valid: %s', (name, valid) => {
    const verdict = parseSubdomain(name)
    expect(verdict.ok).toBe(valid)
    if (verdict.ok) expect(verdict.subdomain).toBe(name.toLowerCase())
  })

  test('S04: reserved names are well-formed labels in lower case', () => {
    for (const name of ['www', 'api', 'mcp', 'preview', 'panel', 'admin', 'mail', 'login', 'status']) {
      expect([name, isReservedSubdomain(name)]).toEqual([name, true])
    }
    expect(isReservedSubdomain('my-own-site')).toBe(false)
  })

  test('S05: eight characters are short, nine are not', () => {
    expect([isShortSubdomain('a'.repeat(8)), isShortSubdomain('a'.repeat(9))]).toEqual([true, false])
  })
})

describe('states of a deploy', () => {
  const expected: Record<DeployAction, string[]> = {
    cancel: ['queued', 'building'],
    retry: ['ready', 'active', 'failed', 'superseded'],
    activate: ['ready', 'active', 'superseded'],
    purge: ['ready', 'failed', 'superseded'],
    preview: ['ready', 'superseded'],
  }
  test.each(Object.keys(deployActions) as DeployAction[])(
    'X02 X03 X04 X05 X08 P03: %s is allowed exactly where the specification says',
    (action) => {
      expect(deployStatuses.filter((status) => deployAllows(action, status))).toEqual(expected[action])
    },
  )
})

describe('plans', () => {
  test('Z01: there are six, from Free to Enterprise', () => {
    expect(planNames).toEqual(['free', 'start', 'pro', 'business', 'scale', 'enterprise'])
  })

  test('Z02 S05 D03: previews and short subdomains begin with Start', () => {
    for (const feature of ['previews', 'short_subdomain'] as const) {
      expect(planNames.filter((plan) => planAllows(plan, feature))).toEqual(planNames.slice(1))
      expect(planFor(feature)).toBe('Start')
    }
  })

  test('S06 Z04: an upgrade helps on every plan but the last, and Free has ten form submissions', () => {
    expect(planNames.filter((plan) => upgradeLifts(defaultPlans, plan, 'sites'))).toEqual(planNames.slice(0, -1))
    expect(defaultPlans.free.forms_per_month).toBe(10)
  })
})

test('A02: each scope includes those before it', () => {
  expect(scopes.map((held) => scopes.map((needed) => covers(held, needed)))).toEqual([
    [true, false, false],
    [true, true, false],
    [true, true, true],
  ])
  expect(scopesOf('editor')).toEqual(['readonly', 'editor'])
})

test('O05: the limits are those of the specification', () => {
  const MB = 1_048_576
  expect(limits).toMatchObject({
    maxArchiveBytes: 50 * MB,
    maxDeployFilesBodyBytes: 50 * MB,
    maxBlobBytes: 50 * MB,
    maxManifestEntries: 2000,
    minSubdomainLength: 5,
    maxSubdomainLength: 63,
    freeSubdomainLength: 9,
  })
})
