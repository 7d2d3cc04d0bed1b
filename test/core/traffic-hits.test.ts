import { expect, test } from 'vitest'
import { moscowDay } from '../../core/traffic-days.ts'
import { countedAs, fileKindOf, isProbe, pagePathOf, refererHostOf, sourceOf, topValueOf } from '../../core/traffic-hits.ts'

test.each([
  ['2026-03-01T20:59:59.999Z', '2026-03-01'],
  ['2026-03-01T21:00:00.000Z', '2026-03-02'],
  ['2026-12-31T21:01:00.000Z', '2027-01-01'],
])('K07: %s is on %s in Moscow', (instant, day) => expect(moscowDay(Date.parse(instant))).toBe(day))

test.each([
  ['text/html; charset=utf-8', 'page'],
  ['TEXT/HTML', 'page'],
  ['application/xhtml+xml', 'page'],
  ['text/htmlx', 'part'],
  ['text/css; charset=utf-8', 'part'],
  ['text/javascript', 'part'],
  ['text/plain; charset=utf-8', 'part'],
  ['image/png', 'part'],
  ['font/woff2', 'part'],
  ['application/json', 'part'],
  ['application/wasm', 'part'],
  ['application/xml', 'part'],
  ['application/pdf', 'download'],
  ['application/zip', 'download'],
  ['application/octet-stream', 'download'],
  ['application/vnd.android.package-archive', 'download'],
  ['application/vnd.openxmlformats-officedocument.wordprocessingml.document', 'download'],
  ['text/csv; charset=utf-8', 'download'],
  ['audio/mpeg', 'download'],
  ['video/mp4', 'download'],
  ['application/x-tar', 'download'],
] as const)('K04: a file of %s is a %s', (type, kind) => expect(fileKindOf(type)).toBe(kind))

const get = { isHead: false, fromStart: false }
test.each([
  ['a page', { ...get, status: 200, kind: 'page' }, 'view'],
  ['an unchanged page', { ...get, status: 304, kind: 'page' }, 'view'],
  ['HEAD of a page', { ...get, isHead: true, status: 200, kind: 'page' }, 'nothing'],
  ['a part of a page', { ...get, status: 200, kind: 'part' }, 'nothing'],
  ['an unchanged part', { ...get, status: 304, kind: 'part' }, 'nothing'],
  ['a download', { ...get, status: 200, kind: 'download' }, 'download'],
  ['a download from its first byte', { ...get, status: 206, fromStart: true, kind: 'download' }, 'download'],
  ['a download that is resumed', { ...get, status: 206, kind: 'download' }, 'nothing'],
  ['an unchanged download', { ...get, status: 304, kind: 'download' }, 'nothing'],
  ['a missing page', { ...get, status: 404, kind: 'page' }, 'not_found'],
  ['HEAD of a missing page', { ...get, isHead: true, status: 404, kind: 'part' }, 'nothing'],
  ['a range that does not exist', { ...get, status: 416, kind: 'page' }, 'nothing'],
  ['a page in trouble', { ...get, status: 503, kind: 'page' }, 'nothing'],
] as const)('K02 K04: %s', (_name, outcome, counted) => expect(countedAs(outcome)).toBe(counted))

test.each([
  ['/wp-login.php', 404, true],
  ['/wp-login.php', 200, true],
  ['/.env', 404, true],
  ['/.git/config', 404, true],
  ['/xmlrpc.php', 404, true],
  ['/wp-content/uploads/photo.jpg', 200, false],
  ['/wp-content/plugins/x/readme.txt', 404, true],
  ['/admin.php', 404, true],
  ['/about', 404, false],
  ['/.environment-report.html', 200, false],
])('K02: %s with %i is a probe: %s', (path, status, expected) => expect(isProbe(path, status)).toBe(expected))

test.each([
  ['/a%20b/?q=1', '/a b/'],
  ['/%D0%BF%D1%80', '/пр'],
  ['/%D0%BF%D1%8', '/п'],
  ['/%D0%BF%D1%', '/п'],
  ['/%F0%9F%98%80%F0%9F%98', '/😀'],
  ['//a//b', '/a/b'],
  ['http://site.test/x?y', '/x'],
  ['', '/'],
  ['/%00', '/'],
  [`/${'x'.repeat(300)}`, `/${'x'.repeat(255)}`],
])('K04: the path of %s', (target, path) => expect(pagePathOf(target)).toBe(path))

test('K04: a cut never leaves half of a character', () => {
  expect(topValueOf(`${'x'.repeat(255)}😀`)).toBe(`${'x'.repeat(255)}\ufffd`)
  expect(topValueOf('a\u0000b\u009fc')).toBe('a\ufffdb\ufffdc')
})

test.each([
  ['https://News.Example/item?id=1', 'news.example'],
  ['http://example.org:8080/', 'example.org'],
  ['android-app://com.google.android.gm/', 'com.google.android.gm'],
  ['ftp://example.org/', undefined],
  ['javascript:alert(1)', undefined],
  ['no address', undefined],
  ['', undefined],
])('K04: the referring host of %s', (referer, host) => expect(refererHostOf(referer)).toBe(host))

test('K04: a site is not its own source', () => {
  expect(sourceOf('a.test', false)).toBe('a.test')
  expect(sourceOf('a.test', true)).toBe('(direct)')
  expect(sourceOf(undefined, false)).toBe('(direct)')
})
