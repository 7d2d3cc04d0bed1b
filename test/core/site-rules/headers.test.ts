import { describe, expect, test } from 'vitest'
import { compileRules } from '../../../core/site-rules/compile.ts'
import { maxAddedHeaderBytes } from '../../../core/site-rules/merge-headers.ts'
import { maxHeaderBlocks } from '../../../core/site-rules/rules.ts'
import { rulesOf } from './answer.ts'

const headersOf = (text: string, path: string) =>
  (rulesOf('', text).headersFor?.(path) ?? []).map(({ name, value }) => `${name}: ${value}`)
const faultsOf = (headers: string) => compileRules({ headers }).faults.map(({ line, reason }) => `${line} ${reason}`)

const netlify = `# a path:
/templates/index.html
  # headers for that path:
  X-Frame-Options: DENY
# another path:
/templates/index2.html
  # headers for that path:
  X-Frame-Options: SAMEORIGIN`
const cloudflare = `# This is a comment
/secure/page
  X-Frame-Options: DENY
  X-Content-Type-Options: nosniff
  Referrer-Policy: no-referrer

/static/*
  Access-Control-Allow-Origin: *
  X-Robots-Tag: nosnippet

/static/secret
  X-Robots-Tag: noindex`
const detach = `/*
  Content-Security-Policy: default-src 'self';
/*.jpg
  ! Content-Security-Policy`

test.each<[source: string, text: string, path: string, headers: string[]]>([
  ['docs.netlify.com', netlify, '/templates/index.html', ['X-Frame-Options: DENY']],
  ['docs.netlify.com', netlify, '/templates/index2.html', ['X-Frame-Options: SAMEORIGIN']],
  ['docs.netlify.com', netlify, '/templates', []],
  ['docs.netlify.com, values of one name', '/*\n  x-list: a\n  x-list: b\n  X-List: c', '/x', ['x-list: a, b, c']],
  ['netlify/build, for-regexp: /', '/\n  A: 1', '/', ['A: 1']],
  ['netlify/build, for-regexp: /', '/\n  A: 1', '/x', []],
  ['netlify/build, for-regexp: /a', '/a\n  A: 1', '/a/', ['A: 1']],
  ['netlify/build, for-regexp: /a/', '/a/\n  A: 1', '/a', ['A: 1']],
  ['netlify/build, for-regexp: /a/:b', '/a/:b\n  A: 1', '/a/x', ['A: 1']],
  ['netlify/build, for-regexp: /a/:b', '/a/:b\n  A: 1', '/a/x/y', []],
  ['netlify/build, for-regexp: /*', '/*\n  A: 1', '/', ['A: 1']],
  ['netlify/build, for-regexp: /*/a', '/*/a\n  A: 1', '/x/y/a', ['A: 1']],
  ['netlify/build, for-regexp: /a/*', '/a/*\n  A: 1', '/a', ['A: 1']],
  ['netlify/build, for-regexp: /a/*/b', '/a/*/b\n  A: 1', '/a/b', ['A: 1']],
  ['netlify/build, for-regexp: /a/b*c', '/a/b*c\n  A: 1', '/a/bxxc', ['A: 1']],
  ['netlify/build, for-regexp: /a.', '/a.\n  A: 1', '/ab', []],
  ['netlify/build, for-regexp: //a//b//', '/a//b//\n  A: 1', '/a/b', ['A: 1']],
  ['netlify/build, trim_value', '/path\n  test :   one  ', '/path', ['test: one']],
  ['netlify/build, a value with a colon', '/path\n  Link: <https://x.test/>; rel=a', '/path', ['Link: <https://x.test/>; rel=a']],
  [
    'developers.cloudflare.com',
    cloudflare,
    '/secure/page',
    ['X-Frame-Options: DENY', 'X-Content-Type-Options: nosniff', 'Referrer-Policy: no-referrer'],
  ],
  ['developers.cloudflare.com', cloudflare, '/static/image.jpg', ['Access-Control-Allow-Origin: *', 'X-Robots-Tag: nosnippet']],
  [
    'developers.cloudflare.com, blocks are joined',
    cloudflare,
    '/static/secret',
    ['Access-Control-Allow-Origin: *', 'X-Robots-Tag: nosnippet, noindex'],
  ],
  ['developers.cloudflare.com, detach', detach, '/page', ["Content-Security-Policy: default-src 'self';"]],
  ['developers.cloudflare.com, detach', detach, '/a/b.jpg', []],
  ['cloudflare/workers-sdk, without indent', '/a\n\nName: Value\n', '/a', ['Name: Value']],
  ['cloudflare/workers-sdk, an exclamation mark', '/a\n  !Name: Value', '/a', ['!Name: Value']],
  ['cloudflare/workers-sdk, a path with spaces', '/some page\n  A: 1', '/some page', ['A: 1']],
  ['cloudflare/workers-sdk, a path with escapes', '/some%20page\n  A: 1', '/some page', ['A: 1']],
  [
    'E32: a placeholder does not reach a value',
    '/movies/:title\n  X-Name: watching :title',
    '/movies/x',
    ['X-Name: watching :title'],
  ],
  [
    'netlify/build, duplicate: the last value of a header with one value',
    '/*\n  Access-Control-Allow-Origin: *\n  X-Frame-Options: DENY\n  Content-Type: text/plain\n/x\n  access-control-allow-origin: *\n  X-Frame-Options: SAMEORIGIN\n  Content-Type: text/html',
    '/x',
    ['access-control-allow-origin: *', 'X-Frame-Options: SAMEORIGIN', 'Content-Type: text/html'],
  ],
  [
    'E32: twice in one block too',
    '/x\n  Referrer-Policy: origin\n  Referrer-Policy: no-referrer',
    '/x',
    ['Referrer-Policy: no-referrer'],
  ],
  ['E32: lists are joined', '/*\n  Link: </a>\n/x\n  Link: </b>', '/x', ['Link: </a>, </b>']],
  [
    'E32: headers below a line that is no path are not those of the path above',
    '/*\n  A: 1\nblog/*\n  X-Robots-Tag: noindex\n/x\n  B: 2',
    '/x',
    ['A: 1', 'B: 2'],
  ],
  ['E32: a line that is no header leaves the others of its block', '/x\n  A: 1\n  nonsense\n  B: 2', '/x', ['A: 1', 'B: 2']],
  ['E32: a type', '/feed\n  Content-Type: application/atom+xml', '/feed', ['Content-Type: application/atom+xml']],
  ['E32: the first one again after it was taken back', '/*\n  A: 1\n/x\n  ! A\n  A: 2', '/x', ['A: 2']],
])('E32, %s: %j at %s gives %j', (_source, text, path, headers) => expect(headersOf(text, path)).toEqual(headers))

const platformHeaders = [
  'Cache-Control CDN-Cache-Control Surrogate-Control Expires Pragma Age Vary Netlify-CDN-Cache-Control',
  'Cloudflare-CDN-Cache-Control Vercel-CDN-Cache-Control Content-Length Content-Encoding Content-Range',
  'Accept-Ranges ETag Last-Modified Date Server Set-Cookie set-cookie Location Clear-Site-Data Alt-Svc Allow',
  'WWW-Authenticate Connection Keep-Alive Proxy-Authenticate TE Trailer Transfer-Encoding Upgrade',
  'Plinth-Anything X-Plinth-Bypass X-Accel-Redirect X-Sendfile',
].flatMap((names) => names.split(' '))

describe('headers that only the platform sets', () => {
  test.each(platformHeaders)('E32 V12: %s is refused, the other lines of the block stay', (name) => {
    const text = `/*\n  A: 1\n  ${name}: x\n  B: 2`
    expect(faultsOf(text)).toEqual([`3 sets ${name}, which only the platform sets`])
    expect(headersOf(text, '/')).toEqual(['A: 1', 'B: 2'])
  })
})

test.each([
  ['A: 1', '1 stands before the first path'],
  ['/a\nblog/*\n  B: 2', '2 is not a path that begins with a slash; the headers below it are left out'],
  ['/a\nblog/:slug\n  B: 2', '2 is not a path that begins with a slash; the headers below it are left out'],
  ['/a\n*.html\n  B: 2', '2 is not a path that begins with a slash; the headers below it are left out'],
  ['/a\n  nonsense', '2 is neither a path nor a header such as X-Frame-Options: DENY'],
  ['/a\n  : x', '2 is neither a path nor a header such as X-Frame-Options: DENY'],
  ['/a\n  Test:', '2 has a header without a value'],
  ["/a\n  I'm invalid: x", '2 has the name "I\'m invalid", which is not valid for a header'],
  ['/a\n  Näme: x', '2 has the name "Näme", which is not valid for a header'],
  ['/a\n  ! Content-Type: application/json', '2 has the name "Content-Type: application/json", which is not valid for a header'],
  ['/a\n  Name: värde', '2 has a value of Name with characters other than ASCII'],
  ['/a\n  Name: a\rSet-Cookie: b', '2 has a control character, or one that cannot be seen'],
  ['/a\n  Name: a\0b', '2 has a control character, or one that cannot be seen'],
  ['/a\n  Name: a\u2028b', '2 has a control character, or one that cannot be seen'],
  ['/a\n  Name: a\u202eb', '2 has a control character, or one that cannot be seen'],
  ['https://x.test/*\n  A: 1', '1 names a host; headers are the same for all hosts of the site'],
  ['//x.test/*\n  A: 1', '1 names a host; headers are the same for all hosts of the site'],
  ['/a/*/b/*\n  A: 1', '1 has more than one star in its path'],
  ['/a/../b\n  A: 1', '1 has a path that no request can have'],
  [`/a\n  Name: ${'b'.repeat(2000)}`, '2 is longer than 2000 characters'],
])('E32: %j has the fault "%s"', (text, fault) => expect(faultsOf(text)).toEqual([fault]))

test(`E32: the path after the first ${maxHeaderBlocks} is left out with its headers`, () => {
  const text = Array.from({ length: maxHeaderBlocks + 1 }, (_, at) => `/${at}\n  A: ${at}`).join('\n')
  expect(faultsOf(text)).toEqual([`201 is one too many: a site has at most ${maxHeaderBlocks} paths with headers`])
  expect(headersOf(text, '/99')).toEqual(['A: 99'])
  expect(headersOf(text, '/100')).toEqual([])
})

test('E32: the headers of one response are bounded', () => {
  const lines = Array.from({ length: 1000 }, (_, at) => `  X-${at}: ${'a'.repeat(1000)}`).join('\n')
  const added = headersOf(`/*\n${lines}`, '/x').join('\r\n')
  expect(added.length).toBeLessThan(maxAddedHeaderBytes)
})

test('E32: a header names the lines that set it', () => {
  const rules = rulesOf('', '/*\n  A: 1\n\n/x\n  A: 2\n  B: 3')
  expect(rules.headersFor?.('/x')).toEqual([
    { name: 'A', value: '1, 2', lines: [1, 4] },
    { name: 'B', value: '3', lines: [4] },
  ])
})
