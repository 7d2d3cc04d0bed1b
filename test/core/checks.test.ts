import { describe, expect, test } from 'vitest'
import { folderOfLinks, internalPath, judgeLinks, resolve } from '../../core/checks/links.ts'
import { collectFindings, maxRecommendations, recommendationCodes } from '../../core/checks/recommendation.ts'
import { findSecret } from '../../core/checks/secrets.ts'
import { type CheckedFile, checkFile, checkSite, type PageFacts } from '../../core/checks.ts'

const good: PageFacts = {
  isDocument: true,
  hasTitle: true,
  hasLang: true,
  hasViewport: true,
  hasDescription: true,
  hasIcon: true,
  isUnlisted: false,
  forwards: false,
  mayRoute: false,
  imagesWithoutAlt: 0,
  insecure: { count: 0, first: '' },
  links: [],
}
const MB = 1024 * 1024
const codes = (file: Partial<CheckedFile>) =>
  checkFile({ path: 'index.html', size: 100, ...file }, () => true).map((finding) => finding.code)
const page = (facts: Partial<PageFacts>, path = 'index.html') => codes({ path, page: { ...good, links: [], ...facts } })

describe('E28: what is said about a file', () => {
  const bare = { hasTitle: false, hasLang: false, hasViewport: false, hasDescription: false, hasIcon: false }
  const all = ['missing_title', 'missing_viewport', 'missing_lang', 'missing_description']
  test.each<[string, string[], string[]]>([
    ['a good page', page({}), []],
    ['a page without anything', page(bare), all],
    ['one without a document around it', page({ ...bare, isDocument: false }, 'about/index.html'), all],
    ['a fragment that scripts load', page({ ...bare, isDocument: false }, 'parts/menu.html'), []],
    ['a page that forwards', page({ ...bare, forwards: true }, 'old.html'), []],
    ['a page that search engines leave out', page({ ...bare, isUnlisted: true }), all.slice(1, 3)],
    ['an error page', page({ ...bare }, '404.html'), all.slice(0, 3)],
    ['a proof of ownership', page({ ...bare }, 'google1234567890abcdef.html'), []],
    ['images without alt', page({ imagesWithoutAlt: 2 }), ['img_no_alt']],
    ['files over http', page({ insecure: { count: 1, first: 'http://a.example/b.js' } }), ['mixed_content']],
    ['an image of 1 MB', codes({ path: 'a.JPG', size: MB }), []],
    ['a larger one', codes({ path: 'a.JPG', size: MB + 1 }), ['large_image']],
    ['a large script', codes({ path: 'a.js', size: MB + 1 }), ['large_file']],
    ['a video of 10 MB', codes({ path: 'a.mp4', size: 10 * MB }), []],
    ['a larger one', codes({ path: 'a.mp4', size: 10 * MB + 1 }), ['large_file']],
    ['a secret', codes({ path: 'config.json', secret: 'a Stripe key' }), ['secret_suspected']],
    ['headers and redirects', [...codes({ path: '_headers' }), ...codes({ path: '_redirects' })], []],
    ['settings of Netlify', codes({ path: 'netlify.toml' }), ['config_ignored']],
    ['settings of Vercel', codes({ path: 'vercel.json' }), ['config_ignored']],
    ['settings of Apache', codes({ path: '.htaccess' }), ['config_ignored']],
    ['a page about them', codes({ path: 'docs/netlify.toml' }), []],
  ])('%s', (_what, found, expected) => expect(found).toEqual(expected))

  test.each<[string, Parameters<typeof checkSite>, string[]]>([
    ['a site with a 404 page and an icon', [good, (path) => path === '404.html', 3], []],
    ['one without a 404 page', [good, () => false, 3], ['no_404']],
    ['an app of one page, which shows its own', [{ ...good, mayRoute: true }, () => false, 1], []],
    ['many pages with scripts', [{ ...good, mayRoute: true }, () => false, 2], ['no_404']],
    ['no icon', [{ ...good, hasIcon: false }, (path) => path === '404.html', 1], ['no_favicon']],
    ['an icon by its usual name', [{ ...good, hasIcon: false }, (path) => /404|favicon/.test(path), 1], []],
    ['a start page that was not read', [undefined, () => false, 1], []],
  ])('of the site: %s', (_what, input, expected) => expect(checkSite(...input).map((finding) => finding.code)).toEqual(expected))
})

describe('E28 broken_link: where links lead', () => {
  test.each<[string, string | undefined]>([
    ['/about', '/about'],
    ['post.html?page=2#top', 'post.html'],
    ['  /a\n/b ', '/a/b'],
    ['caf%C3%A9.html', 'café.html'],
    ['/cafe\u0301', '/café'],
    ['a\\b', 'a/b'],
    ['//host.example/a', undefined],
    ['https://host.example/a', undefined],
    ['mailto:a@b.example', undefined],
    ['javascript:void(0)', undefined],
    ['data:,a', undefined],
    ['#top', undefined],
    ['?page=2', undefined],
    ['', undefined],
    ['/{{ slug }}', undefined],
    ['./', './'],
    ['.', './'],
    ['./a', 'a'],
    ['../a/./b/../c/', '../a/c/'],
    ['a/..', './'],
    ['..', '../'],
    ['/../a//b', '/a/b'],
    ['/..', '/'],
    ['/.well-known/x', '/.well-known/x'],
    ['100%', '100%'],
    [`/${'a'.repeat(5000)}`, undefined],
  ])('%j asks for %j', (reference, expected) => expect(internalPath(reference)).toBe(expected))

  test.each([
    ['index.html', undefined, 'a.html', '/a.html'],
    ['blog/post/index.html', undefined, '../', '/blog/'],
    ['blog/post/index.html', undefined, '../../../../x', '/x'],
    ['blog/post.html', undefined, './', '/blog/'],
    ['blog/post.html', '/', 'a', '/a'],
    ['blog/post.html', '/docs/index.html', 'a', '/docs/a'],
    ['blog/post.html', '../docs/', 'a', '/docs/a'],
    ['blog/post.html', '#', 'a', '/blog/a'],
  ])('on %s with the base %s, %s is %s', (path, base, link, expected) =>
    expect(resolve(folderOfLinks(path, base) ?? '', link)).toBe(expected),
  )

  test('a base on another host takes all relative links with it', () => {
    expect(folderOfLinks('index.html', 'https://host.example/')).toBeUndefined()
    const facts = { ...good, base: 'https://host.example/', links: ['gone.html', '/gone.html'] }
    const [finding] = checkFile({ path: 'index.html', size: 1, page: facts }, () => true)
    expect(finding?.message).toBe('The page points to something that is not there: /gone.html.')
  })

  const files = ['index.html', 'about.html', 'blog/index.html', 'img/a b.png', 'café.html']
  const plain = { has: (path: string) => files.includes(path), routesInBrowser: false }
  const app = { ...plain, routesInBrowser: true }
  const withErrorPage = { ...app, has: (path: string) => path === '404.html' || plain.has(path) }
  test.each([
    ['/', plain, false],
    ['/index.html', plain, false],
    ['/index', plain, false],
    ['/about', plain, false],
    ['/about.html', plain, false],
    ['/blog', plain, false],
    ['/blog/', plain, false],
    ['/img/a b.png', plain, false],
    ['/café', plain, false],
    ['/404', plain, true],
    ['/gone', plain, true],
    ['/about/', plain, true],
    ['/gone.html', plain, true],
    ['/settings', app, false],
    ['/settings/', app, false],
    ['/gone.js', app, true],
    ['/settings', withErrorPage, true],
    ['/404', withErrorPage, false],
    ['/About', withErrorPage, true],
    ['/__svc/login', withErrorPage, false],
  ])('%s of %j is broken: %s', (path, targets, expected) => expect(judgeLinks(targets)(path)).toBe(expected))

  test('a long address is not cut within a character', () => {
    const links = [`/${'a'.repeat(78)}\u{1f30a}b`]
    const [finding] = checkFile({ path: 'x.html', size: 1, page: { ...good, links } }, () => true)
    expect(finding?.message.isWellFormed()).toBe(true)
  })

  test('what several links of a page lack is one finding that names a few of them, safe to print', () => {
    const links = ['/a', '/b\u0007', `/${'c'.repeat(200)}`, '/d', '/e']
    const [finding, ...others] = checkFile({ path: 'x.html', size: 1, page: { ...good, links } }, () => true)
    expect(others).toEqual([])
    expect(finding?.message).toBe(`The page points to 5 things that are not there: /a, /b, /${'c'.repeat(79)}… and 2 more.`)
  })
})

describe('E28 secret_suspected', () => {
  const random = 'Zk3vQ9xT7mB2nL8pR4wY6sD1fG5hJ0cK2aE9uI4oP7tX'
  test.each<[string, string | undefined]>([
    [`-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIB\n`, 'a private key'],
    [`"-----BEGIN RSA PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIB"`, 'a private key'],
    ['pem.startsWith("-----BEGIN PRIVATE KEY-----")', undefined],
    ['-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA', undefined],
    ['key = AKIAZ5QW7RTYPLKJ2MNB', 'an AWS access key'],
    ['AKIAIOSFODNN7EXAMPLE', undefined],
    [`sk_live_${random.slice(0, 24)}`, 'a Stripe key'],
    [`pk_live_${random.slice(0, 24)}`, undefined],
    [`sk_test_${random.slice(0, 24)}`, undefined],
    [`ghp_${random.slice(0, 36)}`, 'a GitHub token'],
    [`ghp_${'x'.repeat(36)}`, undefined],
    [`github_pat_${random}${random}`, 'a GitHub token'],
    [`svc_a1B2c3D4_${random.slice(0, 43)}`, 'a key of this platform'],
    [`svc_a1B2c3D4_${'A'.repeat(43)}`, undefined],
    [`AIzaSy${random.slice(0, 33)}`, undefined],
    ['the risk_live_in_the_past', undefined],
  ])('%s is %s', (text, expected) => expect(findSecret(`var a = 1; ${text}; b`)).toBe(expected))
})

describe('E28: the list', () => {
  const add = (list: ReturnType<typeof collectFindings>, code: (typeof recommendationCodes)[number], count: number) => {
    for (let i = 0; i < count; i++) list.add({ code, path: `${i}.html`, message: 'Text.' })
  }

  test('warnings come first, then kind by kind in the order of the files', () => {
    const list = collectFindings()
    for (const code of recommendationCodes.toReversed()) add(list, code, 2)
    const found = list.list()
    const severities = found.map((entry) => entry.severity)
    expect(severities).toEqual(severities.toSorted().toReversed())
    expect(found.slice(0, 2).map((entry) => [entry.code, entry.path])).toEqual([
      ['secret_suspected', '0.html'],
      ['secret_suspected', '1.html'],
    ])
    expect(new Set(found.map((entry) => entry.code)).size).toBe(15)
    expect(found.every((entry) => /^[A-Z].*\.$/.test(entry.message) && /^[A-Z].*\.$/.test(entry.hint))).toBe(true)
  })

  test('at most 100: what occurs seldom stays, what occurs often tells how much is left out', () => {
    const list = collectFindings()
    add(list, 'missing_description', 2000)
    add(list, 'broken_link', 300)
    add(list, 'no_404', 1)
    const found = list.list()
    expect(found).toHaveLength(maxRecommendations)
    const of = (code: string) => found.filter((entry) => entry.code === code)
    expect([of('broken_link').length, of('missing_description').length, of('no_404').length]).toEqual([89, 10, 1])
    expect(of('missing_description').at(-1)?.message).toBe('Text. The same is true of 1990 more.')
    expect(of('missing_description').at(-2)?.message).toBe('Text.')
  })
})
