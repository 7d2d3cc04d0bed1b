import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRequestPath } from '../../core/request-path.ts'
import { type Decision, decide } from '../../core/serving.ts'

const show = (decision: Decision) => {
  if (decision.kind === 'redirect') return `301 ${decision.location}`
  return decision.kind === 'file' ? `${decision.status} ${decision.path}` : 'missing'
}

const plain = ['index.html', 'about.html', 'blog/index.html', 'style.css', 'LICENSE', 'docs/v1.2/index.html', '.well-known/acme']
const both = ['index.html', 'about.html', 'about/index.html']
const own404 = ['index.html', '404.html', 'blog/index.html', '404/deep.html']
const odd = [
  'index.html',
  'a b?/index.html',
  'ünï/index.html',
  '100%/index.html',
  '#/index.html',
  '__svc/login.html',
  'constructor',
]

describe('decide', () => {
  test.each([
    ['V01', '/style.css', plain, '200 style.css'],
    ['V01', '/LICENSE', plain, '200 LICENSE'],
    ['V01', '/about.html', plain, '200 about.html'],
    ['V01', '/.well-known/acme', plain, '200 .well-known/acme'],
    ['V01', '/constructor', odd, '200 constructor'],
    ['V02', '/about', plain, '200 about.html'],
    ['V02', '/index', plain, '200 index.html'],
    ['V02', '/404', own404, '200 404.html'],
    ['V02', '/404/deep', own404, '200 404/deep.html'],
    ['V03', '/about', both, '200 about.html'],
    ['V03 V05', '/about/', both, '200 about/index.html'],
    ['V04', '/blog', plain, '301 /blog/'],
    ['V04', '/a b?', odd, '301 /a%20b%3F/'],
    ['V04', '/ünï', odd, '301 /%C3%BCn%C3%AF/'],
    ['V04', '/100%', odd, '301 /100%25/'],
    ['V04', '/#', odd, '301 /%23/'],
    ['V05', '/', plain, '200 index.html'],
    ['V05', '/blog/', plain, '200 blog/index.html'],
    ['V05', '/docs/v1.2/', plain, '200 docs/v1.2/index.html'],
    ['V06', '/nope', own404, '404 404.html'],
    ['V06', '/nope/', own404, '404 404.html'],
    ['V06', '/blog/nope/', own404, '404 404.html'],
    ['V06 V08', '/nope.js', own404, '404 404.html'],
    ['V07', '/deep/route', plain, '200 index.html'],
    ['V07', '/about/', plain, '200 index.html'],
    ['V07', '/v1.2/users', plain, '200 index.html'],
    ['V07', '/.hidden', plain, '200 index.html'],
    ['V07', '/nope.js/', plain, '200 index.html'],
    ['V08', '/nope.js', plain, 'missing'],
    ['V08', '/deep/nope.js', plain, 'missing'],
    ['V08', '/.hidden.txt', plain, 'missing'],
    ['V08', '/nope.', plain, 'missing'],
    ['V08 V04', '/docs/v1.2', plain, 'missing'],
    ['V07', '/nope', [], 'missing'],
    ['V13', '/__svc/login', odd, 'missing'],
    ['V13', '/__svc/login.html', odd, 'missing'],
    ['V13', '/__SVC/', own404, 'missing'],
    ['V13', '/__svc', own404, 'missing'],
    ['V13', '/__svcx', plain, '200 index.html'],
  ])('%s: %s of %j is %s', (_row, path, files, expected) => {
    const has = new Set(files)
    expect(show(decide(path, (file) => has.has(file)))).toBe(expected)
  })

  test('V04: a redirect begins with exactly one slash and leads to the directory, whatever the request', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const target = parseRequestPath(`/${encodeURIComponent(text).replaceAll('%2F', '/')}`)
        if (!target) return
        const decision = decide(target.path, (file) => file.endsWith('/index.html'))
        if (decision.kind !== 'redirect') return
        expect(decision.location).toMatch(/^\/[^/\\]/)
        expect(new URL(decision.location, 'https://site.test').host).toBe('site.test')
        expect(parseRequestPath(decision.location)?.path).toBe(`${target.path}/`)
      }),
      { numRuns: 500 },
    )
  })
})

const pages = ['index.html', 'about.html', 'blog/index.html', 'contact.html', 'both.html', 'both/index.html', 'same', 'same.html']
const oddPages = [
  'index.html',
  'v1.2.html',
  '.html',
  '__svc.html',
  '_headers.html',
  'a b.html',
  'index',
  'x/404.html',
  'no/deep.html',
]

describe('canonical_urls', () => {
  test.each([
    ['/about', pages, '200 about.html'],
    ['/about.html', pages, '301 /about?q=1'],
    ['/about/', pages, '301 /about?q=1'],
    ['/index.html', pages, '301 /?q=1'],
    ['/index', pages, '301 /?q=1'],
    ['/', pages, '200 index.html'],
    ['/blog', pages, '301 /blog/?q=1'],
    ['/blog/', pages, '200 blog/index.html'],
    ['/blog/index.html', pages, '301 /blog/?q=1'],
    ['/blog/index', pages, '301 /blog/?q=1'],
    ['/contact/', pages, '301 /contact?q=1'],
    ['/both.html', pages, '301 /both?q=1'],
    ['/both/', pages, '200 both/index.html'],
    ['/both/index.html', pages, '301 /both/?q=1'],
    ['/same.html', pages, '200 same.html'],
    ['/same/', pages, '200 index.html'],
    ['/v1.2.html', oddPages, '200 v1.2.html'],
    ['/v1.2/', oddPages, '200 index.html'],
    ['/.html', oddPages, '200 .html'],
    ['/_headers.html', oddPages, '200 _headers.html'],
    ['/__svc.html', oddPages, '200 __svc.html'],
    ['/a b.html', oddPages, '301 /a%20b?q=1'],
    ['/index', oddPages, '200 index'],
    ['/x/404.html', oddPages, '301 /x/404?q=1'],
  ])('E32: with it, %s of %j is %s', (path, files, expected) => {
    const has = (file: string) => files.includes(file)
    const decision = decide(path, has, { canonical: true, query: '?q=1' })
    expect(show(decision)).toBe(expected)
    // one redirect leads to the page
    if (decision.kind === 'redirect') {
      const next = parseRequestPath(decision.location)
      expect(decide(next?.path ?? '', has, { canonical: true, query: '?q=1' })).toMatchObject({ kind: 'file', status: 200 })
    }
  })

  test.each(['/about.html', '/blog/index.html', '/index'])('E32: without it, %s stays', (path) => {
    expect(decide(path, (file) => pages.includes(file), { query: '?q=1' })).toMatchObject({ kind: 'file', status: 200 })
  })
})

describe('settings files', () => {
  const published = ['_redirects', '_headers', 'netlify.toml', 'vercel.json', 'plinth.json', '.htaccess', '.gitattributes']
  const nested = ['docs/.htaccess', 'docs/.gitattributes']
  test.each([...published, ...nested])('E32: %s answers as missing', (file) => {
    expect(decide(`/${file}`, () => true)).toEqual({ kind: 'file', path: '404.html', status: 404 })
    expect(decide(`/${file}`, (path) => path === file || path === 'index.html')).toEqual({ kind: 'missing' })
  })

  test.each(['docs/_redirects', 'docs/netlify.toml', '_redirects.txt', 'x.htaccess'])('E32: %s is an ordinary file', (file) => {
    expect(decide(`/${file}`, (path) => path === file)).toEqual({ kind: 'file', path: file, status: 200 })
  })
})

describe('parseRequestPath', () => {
  test.each([
    ['/', '/', ''],
    ['/a/b.css', '/a/b.css', ''],
    ['/a?b=/../c', '/a', '?b=/../c'],
    ['/?', '/', '?'],
    ['/a%20b', '/a b', ''],
    ['/%C3%BC', '/ü', ''],
    ['/u%CC%88', '/ü', ''],
    ['/a%3Fb', '/a?b', ''],
    ['/a%23b', '/a#b', ''],
    ['/%2561', '/%61', ''],
    ['//evil.test/x', '/evil.test/x', ''],
    ['/%2F%2Fevil.test', '/evil.test', ''],
    ['/a///b//', '/a/b/', ''],
    ['/a%2Fb', '/a/b', ''],
    ['/...', '/...', ''],
    ['/..a/.b', '/..a/.b', ''],
    ['/.well-known/x', '/.well-known/x', ''],
  ])('%s is the path %s', (raw, path, query) => {
    expect(parseRequestPath(raw)).toEqual({ path, query })
  })

  test.each([
    ['http://site.test', '/', '', 'site.test'],
    ['http://site.test?x', '/', '?x', 'site.test'],
    ['HTTPS://site.test:8443/a/b?x', '/a/b', '?x', 'site.test:8443'],
    ['http://u@site.test/', '/', '', 'u@site.test'],
  ])('the absolute form %s keeps its authority apart', (raw, path, query, authority) => {
    expect(parseRequestPath(raw)).toEqual({ path, query, authority })
  })

  test.each([
    '',
    '*',
    'a',
    'site.test:443',
    'ftp://site.test/',
    'http:///a',
    '/a#b',
    '/a/../b',
    '/..',
    '/a/.',
    '/./a',
    '/%2e%2e/a',
    '/a/%2E%2e',
    '/a%2f..%2fb',
    '/a\\b',
    '/..%5ca',
    '/a%5Cb',
    '/a%00b',
    '/a%0d%0ab',
    '/a%09',
    '/a%7f',
    '/%',
    '/%zz',
    '/%c0%ae%c0%ae/',
    '/%ff',
    '/%ed%a0%80',
    '/\u00ff',
    '/\u00c3\u00bc',
    '/a b',
  ])('%j is refused', (raw) => {
    expect(parseRequestPath(raw)).toBeUndefined()
  })

  test('a path is never climbed out of, whatever the request', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('/', '.', '..', '%2e', '%2F', '%5c', '\\', 'a', '%00', '//', '%25')), (parts) => {
        const target = parseRequestPath(`/${parts.join('')}`)
        if (!target) return
        expect(target.path).toMatch(/^\/(?!\/)/)
        expect(target.path).not.toMatch(/\/\/|\\|\0/)
        expect(target.path.split('/')).not.toContain('..')
        expect(target.path.split('/')).not.toContain('.')
      }),
      { numRuns: 2000 },
    )
  })
})
