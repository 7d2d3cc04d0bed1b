import { describe, expect, test } from 'vitest'
import { compileRules } from '../../../core/site-rules/compile.ts'
import { maxDynamicRules, maxRuleFaults, maxRuleLines, maxStaticRules } from '../../../core/site-rules/rules.ts'

const faultsOf = (redirects: string) => compileRules({ redirects }).faults.map(({ line, reason }) => `${line} ${reason}`)
const linesOf = (redirects: string) => compileRules({ redirects }).rules?.redirects.map(({ line }) => line)

const noTarget = 'has no target that begins with a slash or with https://'
const host = 'names a host before its path; a rule applies to all hosts of the site'
const condition = (text: string) => `has the condition ${text}: rules by country, language or role are not supported`
const onOtherHost = (status: number) =>
  `has a target on another host: with the status ${status} it can only be a page of the site`
const status = (text: string) => `has the status ${text}, which is none of 200, 301, 302, 303, 307, 308, 404`
const hidden = 'has a control character, or one that cannot be seen'
const invalidPath = 'has a path that no request can have'
const invalidTarget = 'has a target whose path is not valid'
const invalidHost = 'has a target with a host that is not valid'
const noHost = 'has a target that begins neither with one slash nor with https://'
const ofPlatform = 'has a path that the platform answers itself'

describe('a bad line of _redirects is left out', () => {
  test.each([
    ['docs.netlify.com: by country', '/ /china 302 Country=cn,hk,tw', condition('Country=cn,hk,tw')],
    ['docs.netlify.com: by language', '/china/* /china/zh-cn/:splat 302 Language=zh', condition('Language=zh')],
    ['docs.netlify.com: by role', '/admin/* /admin/:splat 200 Role=admin', condition('Role=admin')],
    ['docs.netlify.com: by role, without target', '/admin/* 200! Role=admin', noTarget],
    ['docs.netlify.com: by cookie', '/beta /new 200 Cookie=is_beta', condition('Cookie=is_beta')],
    ['docs.netlify.com: a host', 'http://blog.yoursite.com/* https://www.yoursite.com/blog/:splat 301!', host],
    ['docs.netlify.com: a proxy', '/api/* https://api.example.com/:splat 200', onOtherHost(200)],
    [
      'docs.netlify.com: a function',
      '/api/* /.netlify/functions/:splat 200',
      'has a target below /.netlify, which exists at Netlify only',
    ],
    ['docs.gitlab.com: a host', 'http://blog.example.com/* https://www.example.com/blog/:splat 301', host],
    ['netlify/build: mistaken headers', 'X-Frame-Options: DENY', 'has a path that does not begin with a slash'],
    ['netlify/build: no target', '/test', noTarget],
    ['netlify/build: no target, query', '/test id=:id', noTarget],
    ['netlify/build: no slash', '/test news', noTarget],
    ['netlify/build: status', '/test /other 304', status('304')],
    ['netlify/build: signed proxy', '/api/* https://api.example.com/:splat 200! Sign=SECRET', condition('Sign=SECRET')],
    ['cloudflare/workers-sdk: one token', '/c', noTarget],
    ['cloudflare/workers-sdk: four tokens', '/d /e 302 !important', 'has "!important" after its status'],
    ['cloudflare/workers-sdk: status', '/c /d 418', status('418')],
    ['cloudflare/workers-sdk: host', 'https://yeah.com https://nah.com', host],
    ['cloudflare/workers-sdk: host without scheme', 'yeah.com https://nah.com', 'has a path that does not begin with a slash'],
    ['cloudflare/workers-sdk: proxy', '/a https://example.com/b 200', onOtherHost(200)],
    [
      'cloudflare/workers-sdk: spaces',
      '/some page /somewhere else',
      'has "page" between its path and its target, which is no parameter such as id=:id',
    ],
    [
      'cloudflare/workers-sdk: query in the path',
      '/c?this=x /d 301',
      'has a ? or # in its path; write conditions on the query after it, as in /store id=:id',
    ],
    ['gitlab-pages: multiple_splats', '/foo/*/bar/*/baz /qux/:splat', 'has more than one star in its path'],
    ['gitlab-pages: duplicate_placeholders', '/foo/:a/bar/:a/baz /qux/:a', 'uses a placeholder twice in its path'],
    ['gitlab-pages: splat and placeholder', '/foo/*/bar/:splat /qux/:splat', 'uses a placeholder twice in its path'],
    [
      'gitlab-pages: missing_splat_placeholder',
      '/foo/ /qux/:splat',
      'uses :splat in its target, which nothing before the target captures',
    ],
    [
      'gitlab-pages: missing_placeholder',
      '/:foo /:foobar',
      'uses :foobar in its target, which nothing before the target captures',
    ],
    ['E32: a page of another host for 404', '/a https://other.test/ 404', onOtherHost(404)],
    ['E32: reserved', '/__svc/login /x 301!', ofPlatform],
    ['E32: reserved', '/__SVC/* /x 301!', ofPlatform],
    ['E32: challenges', '/.well-known/acme-challenge/* /x', ofPlatform],
    ['E32: reserved target', '/x /__svc/login 200', 'has a target that the platform answers itself'],
    ['E32: control character', '/a /b\u0001 301', hidden],
    ['E32: NUL', '/a\0 /b', hidden],
    ['E32: carriage return in the middle', '/a /b\rSet-Cookie:x', hidden],
    ['E32: next line', '/a /b\u0085', hidden],
    ['E32: line separator', '/a /b\u2028x', hidden],
    ['E32: no-break space', '/a\u00a0b /c', hidden],
    ['E32: zero-width space', '/a\u200b /c', hidden],
    ['E32: right-to-left override', '/a \u202e/moc.live 301', hidden],
    ['E32: not Unicode', '/a\ud800 /c', 'is not valid UTF-8'],
    ['E32: not UTF-8', '/a\ufffd /c', 'is not valid UTF-8'],
    ['E32: dot segments', '/a/../b /c', invalidPath],
    ['E32: escaped dot segments', '/a/%2e%2e/b /c', invalidPath],
    ['E32: escaped slash', '/a%2fb /c', invalidPath],
    ['E32: escaped backslash', '/a%5Cb /c', invalidPath],
    ['E32: escaped control character', '/a%0d%0a /c', invalidPath],
    ['E32: no escape', '/100% /c', invalidPath],
    ['E32: not UTF-8 in escapes', '/%ff /c', invalidPath],
    ['E32: dot segments in the target', '/a /b/../c', invalidTarget],
    ['E32: control characters in the target', '/a /b%0d%0aSet-Cookie:x', invalidTarget],
    ['E32: backslash in the target', '/a /\\evil.test', invalidTarget],
    ['E32: two slashes', '/a //evil.test', noHost],
    ['E32: another scheme', '/a javascript:alert(1)', noTarget],
    ['E32: a scheme with one slash', '/a https:/evil.test', noHost],
    ['E32: a scheme without slash', '/a https:evil.test', noHost],
    ['E32: a name and password', '/a https://good.test@evil.test/', invalidHost],
    ['E32: a backslash after the host', '/a https://evil.test\\@good.test/', invalidHost],
    ['E32: a placeholder in the host', '/a/* https://:splat/', invalidHost],
    ['E32: a placeholder in the host', '/a/:b https://:b.good.test/', invalidHost],
    ['E32: a port that is none', '/a https://good.test:99999/', invalidHost],
    ['E32: a parameter twice', '/a id=1 id=2 /c', 'names the parameter id twice'],
    ['E32: a placeholder twice', '/a/:id id=:id /c', 'uses the placeholder :id twice'],
    ['E32: too long', `/a /${'b'.repeat(1000)}`, 'is longer than 1000 characters'],
  ])('%s: %j', (_source, text, reason) => {
    const [fault, ...more] = faultsOf(`${text}\n/fine /x`)
    expect(more).toEqual([])
    expect(fault?.startsWith('1 ')).toBe(true)
    expect(fault).toContain(reason)
    expect(linesOf(`${text}\n/fine /x`)).toEqual([2])
  })
})

test.each([
  ['/a /b\n/b /a\n/a /c', '3 never applies, because line 1 has the same path'],
  ['/a /b\n/a/ /c 302!', '2 never applies, because line 1 has the same path'],
  ['/%61 /b\n/a /c', '2 never applies, because line 1 has the same path'],
])('cloudflare/workers-sdk: of equal paths the first stays: %j', (text, fault) => expect(faultsOf(text)).toEqual([fault]))

test.each([
  [maxStaticRules, (at: number) => `/a/${at} /b/${at}`, 'rules without placeholders'],
  [maxDynamicRules, (at: number) => `/a/${at}/* /b/${at}/:splat`, 'rules with a placeholder, a star or a parameter'],
  [maxDynamicRules, (at: number) => `/a id=${at} /b/${at}`, 'rules with a placeholder, a star or a parameter'],
])('E32: the rule after the first %i is left out', (most, rule, what) => {
  const text = Array.from({ length: most + 1 }, (_, at) => rule(at)).join('\n')
  expect(faultsOf(text)).toEqual([`${most + 1} is one too many: a site has at most ${most} ${what}`])
  expect(linesOf(text)).toHaveLength(most)
})

test('E32: long comments and empty lines are no faults', () => {
  expect(faultsOf(`${'#'.repeat(5000)}\n\n  \t\n   # ${'x'.repeat(2000)}\n/a /b`)).toEqual([])
})

test('E32: many faults are counted, not listed', () => {
  const faults = compileRules({ redirects: 'x\n'.repeat(100) }).faults
  expect(faults).toHaveLength(maxRuleFaults)
  expect(faults.at(-1)).toEqual({
    file: '_redirects',
    line: maxRuleFaults,
    reason: `has a path that does not begin with a slash; ${100 - maxRuleFaults} more lines are left out`,
  })
})

test('E32: what is behind 1 MiB is not read', () => {
  const text = `/a /b\n${`#${'ü'.repeat(511)}\n`.repeat(1024)}/c /d`
  expect(linesOf(text)).toEqual([1])
  expect(faultsOf(text)).toEqual(['1025 and all lines below are not read: the file is larger than 1 MiB'])
})

test('E32: more lines than any site needs are not read', () => {
  const text = '/a /b\n'.repeat(maxRuleLines + 10)
  expect(compileRules({ redirects: text }).faults.at(-1)?.reason).toContain('more lines are left out')
  expect(linesOf(text)).toEqual([1])
})

test('E32: no rule at all is undefined', () => {
  expect(compileRules({ redirects: '# nothing', headers: 'x' }).rules).toBeUndefined()
})
