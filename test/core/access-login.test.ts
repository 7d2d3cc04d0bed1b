import { expect, test } from 'vitest'
import { deviceOf, maskedEmail } from '../../core/access-login.ts'
import { maskedNetwork, networkOf, widerNetworks } from '../../core/client-network.ts'
import { returnPath } from '../../core/return-path.ts'

test.each([
  ['/', '/'],
  ['/docs/a%20b?x=1&y=%2F', '/docs/a%20b?x=1&y=%2F'],
  ['/страница?имя=значение', encodeURI('/страница?имя=значение')],
  ['/a/../b', '/b'],
  ['/a#part', '/a'],
  ['/__svcx', '/__svcx'],
  ['/%zz', '/%zz'],
])('L02: a login returns to %s as %s', (to, expected) => expect(returnPath(to)).toBe(expected))

test.each([
  undefined,
  '',
  'docs',
  '//evil.example',
  '///evil.example',
  '/\\evil.example',
  '\\\\evil.example',
  '/a\\..\\..\\/evil.example',
  '/\t/evil.example',
  '/\n/evil.example',
  '/\r\nSet-Cookie: a=b',
  '/a\u0000b',
  '/.//evil.example',
  '/a/..//evil.example',
  '/%2e//evil.example',
  '/a/%2e%2e//evil.example',
  'https://evil.example/',
  'https:evil.example',
  'javascript:alert(1)',
  ' //evil.example',
  '@evil.example',
  '.evil.example',
  '/__svc/logout',
  '/__SVC/login',
  '/%5f%5fsvc/login',
  '/a/../__svc/logout',
  '/./__svc',
  `/${'a'.repeat(2048)}`,
])('check 74: a login never follows %j', (to) => expect(returnPath(to)).toBe('/'))

test.each([
  ['ada@example.com', 'a***@e***.com'],
  ['ada@mail.example.co.uk', 'a***@m***.uk'],
  ['a@localhost', 'a***@l***'],
])('E03: %s is shown as %s', (email, shown) => expect(maskedEmail(email)).toBe(shown))

test.each([
  ['192.0.2.77', '192.0.2.0/24'],
  ['::ffff:192.0.2.77', '192.0.2.0/24'],
  ['2001:db8:7:8::1', '2001:db8:7::/48'],
  ['::1', '0:0:0::/48'],
])('E03: the client %s is shown as %s', (address, shown) => expect(maskedNetwork(networkOf(address))).toBe(shown))

test.each([
  ['192.0.2.77', ['192.0.2.0/24']],
  ['::ffff:192.0.2.77', ['192.0.2.0/24']],
  ['2001:db8:7:8::1', ['2001:db8:7:0::/56', '2001:db8:7::/48']],
  ['2001:db8:7:8ff::1', ['2001:db8:7:800::/56', '2001:db8:7::/48']],
  ['2001:db8::1', ['2001:db8:0:0::/56', '2001:db8:0::/48']],
  ['localhost', []],
])('E36: the client %s is in the networks %j', (address, networks) => expect(widerNetworks(networkOf(address))).toEqual(networks))

const chrome = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36'
test.each([
  [chrome, 'Chrome on Windows'],
  [`${chrome} Edg/140.0`, 'Edge on Windows'],
  ['Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'Firefox on Linux'],
  [
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1',
    'Safari on iPhone',
  ],
  ['Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15', 'Safari on macOS'],
  ['Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36', 'Chrome on Android'],
  ['curl/8.5.0', 'Unknown device'],
  ['', 'Unknown device'],
  ['<script>alert(1)</script>', 'Unknown device'],
  [`${'x'.repeat(100_000)}Chrome/1 Windows`, 'Unknown device'],
])('E03: the device %j is shown as %s', (header, shown) => expect(deviceOf(header)).toBe(shown))
