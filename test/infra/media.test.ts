import { expect, test } from 'vitest'
import { mediaTypeOf } from '../../infra/media.ts'

test.each([
  ['V01', 'style.css', 'text/css; charset=utf-8'],
  ['V01', 'LICENSE', 'application/octet-stream'],
  ['V01', 'html', 'application/octet-stream'],
  ['V01', 'data.json', 'application/json; charset=utf-8'],
  ['E32', 'apple-app-site-association', 'application/json; charset=utf-8'],
  ['E32', '.well-known/apple-app-site-association', 'application/json; charset=utf-8'],
  ['E32', 'docs/apple-app-site-association', 'application/octet-stream'],
  ['E32', '.well-known/assetlinks.json', 'application/json; charset=utf-8'],
  ['E32', '.well-known/matrix/server', 'application/json; charset=utf-8'],
  ['E32', '.well-known/webfinger', 'application/jrd+json'],
  ['E32', '.well-known/host-meta', 'application/xrd+xml'],
  ['E32', '.well-known/atproto-did', 'text/plain; charset=utf-8'],
  ['E32', '.well-known/security.txt', 'text/plain; charset=utf-8'],
  ['E32', '.well-known/constructor', 'application/octet-stream'],
])('%s: %s has the type %s', (_row, path, type) => expect(mediaTypeOf(path)).toBe(type))
