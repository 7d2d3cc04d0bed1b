import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRequestPath } from '../../../core/request-path.ts'
import { type Decision, decide } from '../../../core/serving.ts'
import { compileRules } from '../../../core/site-rules/compile.ts'
import { prepareRules } from '../../../core/site-rules/prepare.ts'
import { maxRuleFaults } from '../../../core/site-rules/rules.ts'
import { cpuMsOf } from '../../cpu-time.ts'
import { answer, rulesOf } from './answer.ts'

const MB = 1024 * 1024
/** More than ten times what the slowest takes. */
const maxMs = 2000

describe('E32: a hostile file is compiled soon', () => {
  test.each<[string, () => string]>([
    ['100 MB of stars', () => '*'.repeat(100 * MB)],
    ['100 MB of lines with a star', () => '*\n'.repeat(50 * MB)],
    ['100 MB of empty lines', () => '\n'.repeat(100 * MB)],
    ['100 MB of spaces', () => ' '.repeat(100 * MB)],
    ['100 MB of short rules', () => '/ /\n'.repeat(25 * MB)],
    ['100 MB of stars in one path', () => `/${'*/'.repeat(50 * MB)} /x`],
    ['stars, line after line', () => `/${'*/'.repeat(490)} /x\n`.repeat(1000)],
    ['placeholders, line after line', () => `/${':a/'.repeat(300)} /x\n`.repeat(1000)],
    [
      'different placeholders',
      () => `/${Array.from({ length: 120 }, (_, at) => `:a${at}`).join('/')} /${':a1'.repeat(100)}\n`.repeat(1000),
    ],
    ['colons', () => `/a /${':'.repeat(990)}\n`.repeat(1000)],
    ['escapes', () => `/${'%61'.repeat(300)} /x\n`.repeat(1000)],
    ['half escapes', () => `/${'%'.repeat(900)} /x\n`.repeat(1000)],
    ['parameters', () => `/a ${'a=:a '.repeat(180)} /x\n`.repeat(1000)],
    ['combining characters', () => `/a${'\u0300\u0316'.repeat(240)} /x\n`.repeat(1000)],
    ['ligatures that grow', () => `/${'\ufdfa'.repeat(300)} /x\n`.repeat(1000)],
    ['hosts', () => `/a https://${'a.'.repeat(400)}test/\n`.repeat(1000)],
    ['headers', () => `/*\n${`  ${'a'.repeat(900)}: ${'b'.repeat(1000)}\n`.repeat(500)}`],
    ['header names', () => `/a\n${'!'.repeat(1900)}\n`.repeat(500)],
  ])('%s', (_name, make) => {
    const text = make()
    let compiled: ReturnType<typeof compileRules> | undefined
    const ms = cpuMsOf(() => {
      compiled = compileRules({ redirects: text, headers: text })
    })
    expect(ms).toBeLessThan(maxMs)
    expect(compiled?.faults.length).toBeLessThanOrEqual(2 * maxRuleFaults)
    expect(JSON.stringify(compiled).length).toBeLessThan(3 * MB)
  })
})

describe('E32: a hostile rule decides soon', () => {
  const longPath = `/${'a/'.repeat(500)}a`
  test.each<[string, string, string]>([
    ['stars', Array.from({ length: 100 }, (_, at) => `/a/*/a/a/a/${at} /x`).join('\n'), longPath],
    ['placeholders', Array.from({ length: 100 }, (_, at) => `/:a/:b/:c/*/:d/:e/${at} /x`).join('\n'), longPath],
    ['itself', Array.from({ length: 100 }, () => '/* /:splat').join('\n'), longPath],
    ['chains', `${Array.from({ length: 99 }, () => '/* /:splat').join('\n')}\n/* /x/:splat`, longPath],
    ['forced chains', `${Array.from({ length: 99 }, () => '/* /:splat 301!').join('\n')}\n/* /x/:splat 301!`, longPath],
    ['many copies', `/* /${':splat/'.repeat(150)}`, longPath],
    ['parameters', Array.from({ length: 100 }, (_, at) => `/* q=${at} /x`).join('\n'), `${longPath}?${'a=b&'.repeat(3000)}`],
  ])('%s', (_name, text, target) => {
    const rules = rulesOf(text)
    expect(cpuMsOf(() => answer(rules, target, [])) / 5).toBeLessThan(100)
    expect(cpuMsOf(() => rules.headersFor?.(longPath))).toBeLessThan(100)
  })
})

describe('E32: a location stays where the rule leads', () => {
  test.each([
    ['/x/* /:splat', '/x//evil.test', '301 /evil.test'],
    ['/x/* /:splat', '/x/%2Fevil.test', '301 /evil.test'],
    ['/x/* /:splat', '/x/%2F%2Fevil.test', '301 /evil.test'],
    ['/x/* /:splat', '/x/\\evil.test', '400'],
    ['/x/* /:splat', '/x/%5Cevil.test', '400'],
    ['/x/* /:splat', '/x/%5C%5Cevil.test', '400'],
    ['/x/* /:splat', '/x/%09//evil.test', '400'],
    ['/x/* /:splat', '/x/https://evil.test', '301 /https:/evil.test'],
    ['/x/* /:splat/evil.test', '/x/', '301 /evil.test'],
    ['/x/* /:splat/evil.test', '/x', '301 /evil.test'],
    ['/x/:a /:a', '/x/javascript:alert(1)', '301 /javascript:alert(1)'],
    ['/x/:a /:a', '/x/%3F', '301 /%3F'],
    ['/x/:a /:a', '/x/%23', '301 /%23'],
    ['/x/* https://good.test/:splat', '/x/@evil.test', '301 https://good.test/@evil.test'],
    ['/x/* https://good.test:splat', '/x/@evil.test', '404'],
    ['/x/* https://good.test/:splat', '/x//evil.test', '301 https://good.test/evil.test'],
    ['/x/* https://good.test', '/x/.evil.test', '301 https://good.test/'],
    ['/x/* /:splat', '/x/../y', '400'],
    ['/x/* /:splat', '/x/%2e%2e/y', '400'],
    ['/x/* /y.:splat', '/x/.%2e/z', '400'],
    ['/x/* /.:splat', '/x/', '404'],
    ['/x id=:id /safe/:id', '/x?id=..', '404'],
    ['/x id=:id /safe/:id', '/x?id=%2e%2e', '404'],
    ['/x id=:id /safe/:id', '/x?id=..%2fy', '404'],
    ['/x id=:id /safe/.:id', '/x?id=.', '404'],
    ['/x id=:id https://good.test/safe/:id', '/x?id=..', '404'],
    ['/x id=:id https://good.test/safe/:id', '/x?id=a%2f..%2fy', '404'],
    ['/x id=:id /:id', '/x?id=/evil.test', '301 /evil.test?id=/evil.test'],
    ['/x id=:id /:id', '/x?id=\\evil.test', '404'],
    ['/x id=:id /:id', '/x?id=%0d%0aSet-Cookie:a', '404'],
    ['/x id=:id https://good.test/:id', '/x?id=%0d%0aA:b', '301 https://good.test/%0D%0AA:b?id=%0d%0aA:b'],
    ['/x id=:id /y?z=:id', '/x?id=%0d%0aA:b', '301 /y?z=%0D%0AA%3Ab'],
    ['/x id=:id /y#:id', '/x?id=%0d%0aA:b', '301 /y?id=%0d%0aA:b#%0D%0AA%3Ab'],
    ['/x/* /ü/:splat', '/x/%E2%80%AE', '301 /%C3%BC/%E2%80%AE'],
    ['/x/* /:splat', '/x/%EF%BC%8F%EF%BC%8Fevil.test', '301 /%EF%BC%8F%EF%BC%8Fevil.test'],
    ['/x/* /:splat', '/x/%E3%80%82evil.test', '301 /%E3%80%82evil.test'],
    ['/x https://evil.test%2f.good.test/', '/x', '404'],
  ])('with %j, %s answers %s', (rules, target, expected) => expect(answer(rulesOf(rules), target, [])).toBe(expected))
})

const segment = fc.oneof(
  fc.constantFrom(
    'a',
    'b',
    '',
    '..',
    '.',
    '%2e%2e',
    '%2F',
    '%5C',
    'evil.test',
    'https:',
    '@',
    ':',
    '?',
    '#',
    '%0d%0a',
    'ü',
    '\u202e',
    '//',
  ),
  fc.string({ unit: 'binary', maxLength: 8 }),
)
const source = fc.oneof(segment, fc.constantFrom(':x', ':y', '*', 'a*', '*a'))
const target = fc.oneof(segment, fc.constantFrom(':x', ':y', ':splat', ':q', ':x:y', '.:x', ':splat:splat'))
const path = (part: fc.Arbitrary<string>) => fc.array(part, { maxLength: 4 }).map((parts) => `/${parts.join('/')}`)
const rule = fc
  .tuple(
    path(source),
    fc.constantFrom('', ' q=:q', ' q=1'),
    fc.constantFrom('', '', '', 'https://good.test', 'https://good.test:8443'),
    path(target),
    fc.constantFrom('', '?z=:x', '?:splat', '#:q'),
    fc.constantFrom('', ' 301!', ' 302', ' 200', ' 404', ' 200!'),
  )
  .map(([from, query, host, to, rest, status]) => `${from}${query} ${host}${to}${rest}${status}`)
const request = fc.tuple(
  path(segment),
  fc.oneof(
    fc.constant(''),
    fc.constant('?q=1'),
    fc.string({ unit: 'binary' }).map((text) => `?q=${text}`),
  ),
)

function decideAll(
  texts: readonly string[],
  [raw, query]: readonly [string, string],
  see: (decision: Decision, query: string) => void,
): void {
  const { rules } = compileRules({ redirects: texts.join('\n') })
  const files = new Set(['index.html', 'a.html', 'b/index.html', 'a/b', '404.html'])
  const asked = parseRequestPath(raw)
  if (!asked || !rules) return
  const prepared = prepareRules(rules)
  let next: { path: string; query: string } | undefined = { path: asked.path, query }
  for (let count = 0; next; count++) {
    expect(count).toBeLessThanOrEqual(21)
    const decision: Decision = decide(next.path, (file) => files.has(file), {
      query: next.query,
      rules: prepared,
      canonical: texts.length % 2 === 0,
    })
    see(decision, next.query)
    next =
      decision.kind === 'redirect' && decision.location.startsWith('/')
        ? parseRequestPath(decision.location.split('#', 1)[0] ?? '')
        : undefined
  }
}

test('E32: whatever the rules and the request, a location is safe and redirects end', () => {
  fc.assert(
    fc.property(fc.array(rule, { minLength: 1, maxLength: 6 }), request, (texts, asked) => {
      decideAll(texts, asked, (decision) => {
        if (decision.kind === 'file') expect(['index.html', 'a.html', 'b/index.html', 'a/b', '404.html']).toContain(decision.path)
        if (decision.kind !== 'redirect') return
        expect(decision.location).toMatch(/^[\x21-\x7e]+$/)
        const url = new URL(decision.location, 'https://site.test/some/where')
        const isInside = decision.location.startsWith('/')
        expect(isInside ? ['site.test'] : ['good.test', 'good.test:8443']).toContain(url.host)
        expect(url.protocol).toBe('https:')
        if (isInside) expect(decision.location).toMatch(/^\/(?![/\\])/)
        // a browser asks for the path as it stands
        expect(decision.location.startsWith((isInside ? '' : url.origin) + url.pathname)).toBe(true)
      })
    }),
    { numRuns: 3000 },
  )
})

test('E32: whatever the texts, compiling them neither throws nor keeps a line with a control character', () => {
  const text = fc
    .array(fc.oneof(rule, fc.string({ unit: 'binary' }), fc.constantFrom('/a', '  A: b', '  ! A', '/* /:splat 200', '\r', '\0')))
    .map((lines) => lines.join('\n'))
  fc.assert(
    fc.property(text, text, (redirects, headers) => {
      const { rules } = compileRules({ redirects, headers })
      for (const { set } of rules?.headers ?? []) for (const pair of set.flat()) expect(pair).toMatch(/^[\t\x20-\x7e]+$/)
      for (const { from, to } of rules?.redirects ?? []) expect(from + to).not.toMatch(/[\p{Cc}\s]/u)
      if (rules) prepareRules(rules)
    }),
    { numRuns: 1000 },
  )
})
