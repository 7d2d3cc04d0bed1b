import { describe, expect, test } from 'vitest'
import { decide } from '../../../core/serving.ts'
import { answer, rulesOf } from './answer.ts'

/** Where the expected answer is documented; "E32" is the addendum, which decides where the peers differ. */
type Case = readonly [source: string, rules: string, target: string, expected: string]

const site = [
  'index.html',
  'about.html',
  'news.html',
  'blog/index.html',
  'app/index.html',
  'store-closed.html',
  'too-late.html',
  'en/404.html',
  'de/404.html',
  'style.css',
  'partials/chat.html',
  'best-pets/dogs/index.html',
  'best-pets/cats.html',
  'wardrobe.html',
  'narnia.html',
]

function check(cases: readonly Case[], files: readonly string[] = site): void {
  test.each(cases)('%s: with %j, %s answers %s', (_source, rules, target, expected) =>
    expect(answer(rulesOf(rules), target, files)).toBe(expected),
  )
}

const netlify = 'docs.netlify.com, redirects overview'
const options = 'docs.netlify.com, redirect options'
const rewrites = 'docs.netlify.com, rewrites and proxies'
const cloudflare = 'developers.cloudflare.com, Pages redirects'
const wrangler = 'cloudflare/workers-sdk, parseRedirects.valid.test.ts'
const gitlab = 'docs.gitlab.com, Pages redirects'
const gitlabTest = 'gitlab-pages, matching_test.go'
const parser = 'netlify/build, redirect-parser tests'

describe('what the peers document', () => {
  check([
    [netlify, '# Redirects from what the browser requests to what we serve\n/home              /', '/home', '301 /'],
    [netlify, '/blog/my-post.php  /blog/my-post', '/blog/my-post.php', '301 /blog/my-post'],
    [netlify, '/news-old          /blog', '/news-old', '301 /blog'],
    [netlify, '/cuties            https://www.petsofnetlify.com', '/cuties', '301 https://www.petsofnetlify.com/'],
    [netlify, '/authors/c%C3%A9line   /authors/about-c%C3%A9line', '/authors/c%C3%A9line', '301 /authors/about-c%C3%A9line'],
    [netlify, '/Home /', '/home', '200 index.html'],
    [options, '/home         /              301', '/home', '301 /'],
    [options, '/my-redirect  /              302', '/my-redirect', '302 /'],
    [options, '/ecommerce    /store-closed  404', '/ecommerce', '404 store-closed.html'],
    [options, '/pass-through /index.html    200', '/pass-through', '200 index.html'],
    [options, '/en/* /en/404.html 404\n/de/* /de/404.html 404', '/en/nope', '404 en/404.html'],
    [options, '/en/* /en/404.html 404\n/de/* /de/404.html 404', '/de/nope/deep', '404 de/404.html'],
    [options, '/best-pets/dogs  /best-pets/cats.html 200!', '/best-pets/dogs', '200 best-pets/cats.html'],
    [options, '/best-pets/dogs  /best-pets/cats.html 200', '/best-pets/dogs', '301 /best-pets/dogs/'],
    [options, '/news/*  /blog/:splat', '/news/2004/01/10/my-story', '301 /blog/2004/01/10/my-story'],
    [
      options,
      '/jobs/customer-ninja-rockstar  /careers/support-engineer\n/jobs/* /careers/:splat\n/jobs/outdated-job-link /careers/position-filled',
      '/jobs/customer-ninja-rockstar',
      '301 /careers/support-engineer',
    ],
    [options, '/jobs/*  /careers/:splat\n/jobs/outdated-job-link /careers/filled', '/jobs/x', '301 /careers/x'],
    [
      options,
      '/jobs/*  /careers/:splat\n/jobs/outdated-job-link /careers/filled',
      '/jobs/outdated-job-link',
      '301 /careers/outdated-job-link',
    ],
    [
      options,
      '/news/:month/:date/:year/:slug  /blog/:year/:month/:date/:slug',
      '/news/02/12/2004/my-story',
      '301 /blog/2004/02/12/my-story',
    ],
    [
      options,
      '/news/:month/:date/:year/:slug  /blog/:year/:month/:date/:slug',
      '/news/02/12/2004/a.html?x',
      '301 /blog/2004/02/12/a.html?x',
    ],
    [options, '/store id=:id  /blog/:id  301', '/store?id=my-blog-post', '301 /blog/my-blog-post?id=my-blog-post'],
    [options, '/store id=:id  /blog/:id  301', '/store', '200 index.html'],
    [options, '/store id=:id  /blog/:id  301', '/store?id=1&tag=a', '200 index.html'],
    [options, '/articles id=:id tag=:tag /posts/:tag/:id 301', '/articles?tag=cats&id=7', '301 /posts/cats/7?tag=cats&id=7'],
    [options, '/articles id=:id tag=:tag /posts/:tag/:id 301', '/articles?id=7', '200 index.html'],
    [options, '/path/* param1=:value1 /otherpath/:value1/:splat', '/path/a/b?param1=x', '301 /otherpath/x/a/b?param1=x'],
    [options, '/old /new 301', '/old?utm=1&b=2', '301 /new?utm=1&b=2'],
    [options, '/old /new 302', '/old?utm=1', '302 /new?utm=1'],
    [options, '/old /new?fixed=1 301', '/old?utm=1', '301 /new?fixed=1'],
    [options, '/blog/title-with-a-typo    /blog/typo-free-title', '/blog/title-with-a-typo/', '301 /blog/typo-free-title'],
    [options, '/blog/title-with-a-typo/   /blog/typo-free-title', '/blog/title-with-a-typo', '301 /blog/typo-free-title'],
    [rewrites, '/*    /index.html   200', '/any/route', '200 index.html'],
    [rewrites, '/*    /index.html   200', '/partials/chat.html', '200 partials/chat.html'],
    [rewrites, '/*    /index.html   200!', '/partials/chat.html', '200 index.html'],
    [rewrites, '/app/*  /app/index.html  200!', '/app/x.js', '200 app/index.html'],
    [cloudflare, '/home301 / 301', '/home301', '301 /'],
    [cloudflare, '/home302 / 302', '/home302', '302 /'],
    [cloudflare, '/querystrings /?query=string 301', '/querystrings', '301 /?query=string'],
    [cloudflare, '/twitch https://twitch.tv', '/twitch', '301 https://twitch.tv/'],
    [cloudflare, '/trailing /trailing/ 301', '/trailing', '301 /trailing/'],
    [cloudflare, '/notrailing/ /nottrailing 301', '/notrailing/', '301 /nottrailing'],
    [cloudflare, '/page /page2/#fragment 301', '/page', '301 /page2/#fragment'],
    [cloudflare, '/blog-old/* https://blog.my.domain/:splat', '/blog-old/a/b', '301 https://blog.my.domain/a/b'],
    [
      cloudflare,
      '/products/:code/:name /products?code=:code&name=:name',
      '/products/1234/abcd',
      '301 /products?code=1234&name=abcd',
    ],
    [cloudflare, '/movies/:title /media/:title', '/movies/star-wars', '301 /media/star-wars'],
    [cloudflare, '/temp /other 303', '/temp', '303 /other'],
    [cloudflare, '/temp /other 307', '/temp', '307 /other'],
    [cloudflare, '/temp /other 308', '/temp', '308 /other'],
    [wrangler, '  /a /b?query=string 302', '/a?own=1', '302 /b?query=string'],
    [
      wrangler,
      '/ext https://some.domain:1234/route?q=string#anchor',
      '/ext',
      '301 https://some.domain:1234/route?q=string#anchor',
    ],
    [wrangler, '/a /b#blah 302', '/a', '302 /b#blah'],
    [wrangler, '/a /b##blah-1 302', '/a', '302 /b##blah-1'],
    [wrangler, '/a https://example.com/b##blah-1 302', '/a', '302 https://example.com/b##blah-1'],
    [wrangler, '/a /about 200', '/a', '200 about.html'],
    [wrangler, '/foo https://bar.com/index.html 302', '/foo', '302 https://bar.com/index.html'],
    [wrangler, '/foo https://bar.com:123/index.html 302', '/foo', '302 https://bar.com:123/index.html'],
    [wrangler, '/cat https://cat.com:12345 302', '/cat', '302 https://cat.com:12345/'],
    [wrangler, '/* /about 200', '/nope', '200 about.html'],
    [wrangler, '/some%20page /somewhere%20else', '/some%20page', '301 /somewhere%20else'],
    [gitlab, '/wardrobe-old.html /narnia.html 302', '/wardrobe-old.html', '302 /narnia.html'],
    [gitlab, '/wardrobe.html /narnia.html 302', '/wardrobe.html', '200 wardrobe.html'],
    [gitlab, '/* / 200', '/nope', '200 index.html'],
    [gitlab, '/old/*  /new/:splat', '/old/', '301 /new/'],
    [gitlab, '/news/:year/:month/:date /blog-:year-:month-:date.html', '/news/2021/08/12', '301 /blog-2021-08-12.html'],
    [parser, '/home /\n', '/home', '301 /'],
    [parser, '/blog/my-post.php  /blog/my-post # this is a comment', '/blog/my-post.php', '301 /blog/my-post'],
    [parser, '/blog/my-post-ads.php  /blog/my-post#ads', '/blog/my-post-ads.php', '301 /blog/my-post#ads'],
    [parser, '/10thmagnitude  http://www.10thmagnitude.com/  301', '/10thmagnitude', '301 http://www.10thmagnitude.com/'],
    [parser, '/p page=news /news', '/p?page=news', '301 /news?page=news'],
    [parser, '/p page=news /news', '/p?page=other', '200 index.html'],
    [parser, '/blog-by-id post=:post_id /blog/:post_id', '/blog-by-id?post=5', '301 /blog/5?post=5'],
    [parser, '/p _escaped_fragment_=/about    /about', '/p?_escaped_fragment_=/about', '301 /about?_escaped_fragment_=/about'],
    [parser, '/* https://www.bitballoon.com/:splat 301', '/a/b', '301 https://www.bitballoon.com/a/b'],
    [parser, '/* https://www.bitballoon.com/:splat 301!', '/about', '301 https://www.bitballoon.com/about'],
    [parser, '/test https://www.bitballoon.com/test=hello 301!', '/test', '301 https://www.bitballoon.com/test=hello'],
  ])
})

describe('how GitLab matches', () => {
  check(
    [
      ['exact_match', '/foo/ /bar/', '/foo/', '301 /bar/'],
      ['single_trailing_slash', '/foo/ /bar/', '/foo', '301 /bar/'],
      ['ignore_missing_slash', '/foo /bar/', '/foo/', '301 /bar/'],
      ['no_match', '/foo /bar/', '/foo/bar', '404'],
      ['multiple_trailing_slashes', '/foo/ /bar/', '/foo//', '301 /bar/'],
      ['multiple_leading_slashes', '/foo/ /bar/', '//foo', '301 /bar/'],
      ['multiple_slashes_in_middle', '/foo/bar /baz/', '/foo//bar', '301 /baz/'],
      ['splat_match', '/foo/*/bar /foo/:splat/qux', '/foo/baz/bar', '301 /foo/baz/qux'],
      ['splat_match_multiple_segments', '/foo/*/bar /foo/:splat/qux', '/foo/hello/world/bar', '301 /foo/hello/world/qux'],
      ['splat_match_ignore_trailing_slash', '/foo/*/bar /foo/:splat/qux', '/foo/baz/bar/', '301 /foo/baz/qux'],
      ['splat_match_end', '/foo/* /qux/:splat', '/foo/baz/bar', '301 /qux/baz/bar'],
      ['splat_match_end_with_slash', '/foo/* /qux/:splat', '/foo/baz/bar/', '301 /qux/baz/bar/'],
      ['splat_match_beginning', '/*/baz/bar /qux/:splat', '/foo/baz/bar', '301 /qux/foo'],
      ['splat_match_empty_suffix', '/foo/* /qux/:splat', '/foo/', '301 /qux/'],
      ['splat_consumes_trailing_slash', '/foo/* /qux/:splat', '/foo', '301 /qux/'],
      ['splat_match_empty_prefix', '/*/foo /qux/:splat', '/foo', '301 /qux/'],
      ['lone_splat', '/* https://qux.test/:splat', '/foo/bar', '301 https://qux.test/foo/bar'],
      ['duplicate_splat_replacements', '/foo/* /qux/:splat/:splat', '/foo/hello', '301 /qux/hello/hello'],
      ['splat_missing_path_segment_behavior', '/foo/*/bar /foo/:splat/qux', '/foo/bar', '301 /foo/qux'],
      ['placeholder_match', '/foo/:year/:month/:day/bar /qux/:year-:month-:day', '/foo/2021/08/16/bar', '301 /qux/2021-08-16'],
      ['placeholder_match_end', '/foo/:placeholder /qux/:placeholder', '/foo/bar', '301 /qux/bar'],
      ['placeholder_match_beginning', '/:placeholder/foo /qux/:placeholder', '/baz/foo', '301 /qux/baz'],
      ['placeholder_no_multiple_segments', '/foo/:placeholder/bar /foo/:placeholder/qux', '/foo/hello/world/bar', '404'],
      ['placeholder_at_beginning_no_content', '/:placeholder/foo /qux/:placeholder', '/foo', '404'],
      ['placeholder_at_end_no_content', '/foo/:placeholder /qux/:placeholder', '/foo/', '404'],
      ['placeholder_mid_segment_in_from', '/foo:placeholder /qux', '/foobar', '404'],
      ['placeholder_mid_segment_in_to', '/foo/:placeholder /qux/bar:placeholder', '/foo/baz', '301 /qux/barbaz'],
      ['placeholder_name_substring', '/foo/:foo/:foobar /qux/:foo/:foobar', '/foo/baz/quux', '301 /qux/baz/quux'],
      ['lone_placeholder', '/:placeholder /qux/:placeholder', '/foo', '301 /qux/foo'],
      [
        'duplicate_placeholder_replacements',
        '/foo/:placeholder /qux/:placeholder/:placeholder',
        '/foo/hello',
        '301 /qux/hello/hello',
      ],
    ].map(([name, rules = '', target = '', expected = '']) => [`${gitlabTest}, ${name}`, rules, target, expected]),
    [],
  )
})

describe('what the platform decides', () => {
  check([
    ['E32, an existing file wins', '/style.css /other.css', '/style.css', '200 style.css'],
    ['E32, a clean URL wins', '/about /elsewhere', '/about', '200 about.html'],
    ['E32, a directory index wins', '/blog /elsewhere', '/blog', '301 /blog/'],
    ['E32, a directory index wins', '/blog/ /elsewhere', '/blog/', '200 blog/index.html'],
    ['E32, unless forced', '/about /elsewhere 302!', '/about', '302 /elsewhere'],
    ['E32, unless forced', '/blog/* /elsewhere 301!', '/blog/', '301 /elsewhere'],
    ['E32, first match wins over a later forced rule', '/about /first\n/about /second 301!', '/about', '200 about.html'],
    ['E32, first match wins over a later forced rule', '/nope /first\n/* /second 301!', '/nope', '301 /first'],
    ['E32, first match wins over an earlier star', '/* /second 301!\n/nope /first', '/nope', '301 /second'],
    ['E32, one pass', '/a /b 200\n/b /about 200', '/a', '404'],
    ['E32, a rewrite to nothing is not found', '/a /nope 200', '/a', '404'],
    ['E32, a page for 404 that is missing', '/a /nope 404', '/a', '404'],
    ['E32, then the fallback', '/a /b', '/c', '200 index.html'],
    ['E32, rewrite to a directory index', '/a /blog 200', '/a', '200 blog/index.html'],
    ['E32, rewrite to a directory index', '/a /blog/ 200', '/a', '200 blog/index.html'],
    ['E32, rewrite to a clean URL', '/a/* /:splat 200', '/a/about', '200 about.html'],
    ['V08, a star does not answer for a script', '/* /index.html 200', '/missing.js', '404'],
    ['V08, a star does not answer for a script', '/* /about 200', '/deep/missing.css', '404'],
    ['V08, a placeholder does not make the start page one', '/:x /index.html 200', '/missing.js', '404'],
    ['V08, a placeholder may have a dot', '/users/:name /about.html 200', '/users/john.doe', '200 about.html'],
    ['V08, a page may answer for a page', '/old/* /about.html 200', '/old/x.html', '200 about.html'],
    ['V08, unless forced', '/* /index.html 200!', '/missing.js', '200 index.html'],
    ['V08, a rule for this file', '/missing.js /style.css 200', '/missing.js', '200 style.css'],
    ['V08, a file is no page', '/v1/* /:splat 200', '/v1/style.css', '200 style.css'],
    ['V08, a page for 404 answers for everything', '/en/* /en/404.html 404', '/en/x.js', '404 en/404.html'],
    ['E32, never below /__svc', '/* /elsewhere 301!', '/__svc/login', '404'],
    ['E32, never below /__svc', '/* /elsewhere 301!', '/__SVC', '404'],
    ['E32, never a challenge', '/* /elsewhere 301!', '/.well-known/acme-challenge/x', '200 index.html'],
    ['E32, settings are missing', '/* /elsewhere 301!', '/_redirects', '404'],
    ['E32, a target may be a login of the platform', '/members /__svc/login 302', '/members', '302 /__svc/login'],
    ['E32, a target in the query', '/x/:id /y?id=:id', '/x/a%26b=c', '301 /y?id=a%26b%3Dc'],
    ['E32, a fragment with a capture', '/x/:id /y#:id', '/x/a%20b', '301 /y#a%20b'],
    ['E32, a query before a fragment', '/x /y#z', '/x?a=1', '301 /y?a=1#z'],
    ['E32, another host keeps the query', '/x https://other.test/y', '/x?a=1', '301 https://other.test/y?a=1'],
    ['E32, a host is not case-sensitive', '/x HTTPS://Other.TEST/Y', '/x', '301 https://other.test/Y'],
    ['E32, a host in Unicode', '/x https://münchen.example/ü', '/x', '301 https://xn--mnchen-3ya.example/%C3%BC'],
    ['E32, escapes of the path', '/caf%C3%A9 /x', '/caf%c3%a9', '301 /x'],
    ['E32, a path in Unicode', '/café /x', '/caf%C3%A9', '301 /x'],
    ['E32, a path in another normal form', '/cafe\u0301 /x', '/caf%C3%A9', '301 /x'],
    ['E32, an escaped star is a character', '/a/%2A /x', '/a/b', '200 index.html'],
    ['E32, an escaped star is a character', '/a/%2A /x', '/a/*', '301 /x'],
    ['E32, an escaped colon is a character', '/a/%3Aid /x', '/a/:id', '301 /x'],
    ['E32, a colon in the target is a character', '/x /wiki/Talk:Foo', '/x', '301 /wiki/Talk:Foo'],
    ['E32, part of a segment', '/post-* /blog/:splat', '/post-a/b', '301 /blog/a/b'],
    ['E32, part of a segment', '/old/*.php /:splat', '/old/a/b.php', '301 /a/b'],
    ['E32, part of a segment', '/old/*.php /:splat', '/old/a.html', '404'],
    ['E32, placeholders around a star', '/r/:a/*/:b /x/:b/:a/:splat', '/r/1/2/3/4', '301 /x/4/1/2/3'],
    ['E32, tabs', '/a\t/b\t302', '/a', '302 /b'],
    ['E32, carriage returns', '/a /b 302\r\n/c /d\r\n', '/c', '301 /d'],
    ['E32, a byte order mark', '\ufeff/a /b', '/a', '301 /b'],
    ['E32, parameters in any order', '/s a=1 b=:x /t/:x', '/s?b=2&a=1', '301 /t/2?b=2&a=1'],
    ['E32, an empty parameter', '/s q=:q /t?r=:q', '/s?q=', '301 /t?r='],
    ['E32, a parameter before a rule without', '/s id=:id /t/:id\n/s /all', '/s', '301 /all'],
    ['E32, a parameter behind a rule without', '/s /all\n/s id=:id /t/:id', '/s?id=1', '301 /all?id=1'],
    ['E32, escapes of a parameter', '/s q=:q /t/:q', '/s?q=a%2Fb+c', '301 /t/a/b%20c?q=a%2Fb+c'],
    ['E32, the root', '/ /home 302!', '/', '302 /home'],
    ['E32, the root without !', '/ /home 302', '/', '200 index.html'],
  ])
})

describe('redirects inside the site come to an end', () => {
  check([
    ['itself', '/x /x 301!', '/x', '200 index.html'],
    ['itself', '/about /about 301!', '/about', '200 about.html'],
    ['itself, with the query', '/x /x', '/x?a=1', '200 index.html'],
    ['itself, with another query', '/x /x?a=1', '/x', '301 /x?a=1'],
    ['itself, with another query', '/x /x?a=1', '/x?a=1', '200 index.html'],
    ['itself, by a splat', '/* /:splat 301!', '/about', '200 about.html'],
    ['itself, then the next rule', '/x /x 301!\n/* /about', '/x', '301 /about'],
    ['docs.netlify.com: adding a slash', '/blog/x /blog/x/ 301', '/blog/x', '301 /blog/x/'],
    ['docs.netlify.com: adding a slash', '/blog/x /blog/x/ 301', '/blog/x/', '200 index.html'],
    ['docs.netlify.com: removing a slash', '/blog/x/ /blog/x 301!', '/blog/x/', '301 /blog/x'],
    ['docs.netlify.com: removing a slash', '/blog/x/ /blog/x 301!', '/blog/x', '200 index.html'],
    ['against a directory index', '/blog/ /blog 301!', '/blog/', '200 blog/index.html'],
    ['each other', '/a /b\n/b /a', '/a', '200 index.html'],
    ['each other', '/a /b\n/b /a', '/b', '200 index.html'],
    ['each other, by another host', '/a https://other.test/b\n/b /a', '/b', '301 /a'],
    ['ever longer', '/a/* /a/b/:splat', '/a/c', '200 index.html'],
    ['ever longer queries', '/a/:x /a/:x?:x', '/a/c', '301 /a/c?c'],
    ['twenty in a row', Array.from({ length: 20 }, (_, at) => `/${at} /${at + 1}`).join('\n'), '/0', '301 /1'],
    ['twenty-one in a row', Array.from({ length: 21 }, (_, at) => `/${at} /${at + 1}`).join('\n'), '/0', '200 index.html'],
    ['cloudflare/workers-sdk: a rewrite to the start page is no loop', '/* /index.html 200', '/x', '200 index.html'],
    ['cloudflare/workers-sdk: the start page by its name', '/ /index.html 301!', '/', '301 /index.html'],
  ])
})

test('E32: a decision names the rule that decided', () => {
  const rules = rulesOf('# first\n\n/a /b\n/c /nope 404')
  const has = (file: string) => file === 'index.html'
  expect(decide('/a', has, { rules })).toMatchObject({ kind: 'redirect', rule: { file: '_redirects', line: 3 } })
  expect(decide('/c', has, { rules })).toEqual({ kind: 'missing', rule: { file: '_redirects', line: 4 } })
  expect(decide('/d', has, { rules })).toEqual({ kind: 'file', path: 'index.html', status: 200 })
})
