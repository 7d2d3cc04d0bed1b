import { expect, test } from 'vitest'
import { acceptedEncodings, mayHaveBackgroundVariants, savesTwentieth } from '../../core/encodings.ts'
import { cpuMsOf } from '../cpu-time.ts'

const all = 'br zstd gzip'

test.each([
  // browsers and tools
  ['gzip, deflate, br, zstd', all],
  ['gzip, deflate, br', 'br gzip'],
  ['gzip', 'gzip'],
  ['br;q=1.0, gzip;q=0.8, *;q=0.1', 'br gzip zstd'],
  // the examples of RFC 9110, 12.5.3
  ['compress, gzip', 'gzip'],
  ['', ''],
  ['*', all],
  ['compress;q=0.5, gzip;q=1.0', 'gzip'],
  ['gzip;q=1.0, identity; q=0.5, *;q=0', 'gzip'],
  // weights decide before our preference
  ['br;q=0.5, zstd;q=0.9, gzip', 'gzip zstd br'],
  ['gzip;q=0.999, br;q=0.998', 'gzip br'],
  ['br;q=0.001', 'br'],
  ['zstd;q=0.7, br;q=0.7', 'br zstd'],
  // exclusions
  ['gzip;q=0', ''],
  ['gzip; q=0.000', ''],
  ['br;q=0, *', 'zstd gzip'],
  ['*;q=0', ''],
  ['*;q=0, gzip', 'gzip'],
  ['*, gzip;q=0', 'br zstd'],
  // plain bytes
  ['identity', ''],
  ['identity, gzip', 'gzip'],
  ['identity;q=1, gzip;q=0.5', ''],
  ['identity;q=0.5, gzip;q=0.5, br;q=0.4', 'gzip'],
  ['identity;q=0, br', 'br'],
  ['identity;q=0', ''],
  ['*;q=0.5, br;q=0.4', 'zstd gzip'],
  // names
  ['GZIP, Br', 'br gzip'],
  ['x-gzip', 'gzip'],
  ['x-gzip;q=0, gzip', ''],
  ['gzipped, brotli, zst', ''],
  ['gzip, gzip;q=0', 'gzip'],
  // bad syntax does not count
  ['gzip;q=', ''],
  ['gzip;q=2', ''],
  ['gzip;q=1.5, br', 'br'],
  ['gzip;q=-1', ''],
  ['gzip;q=0.1234', ''],
  ['gzip;level=9', ''],
  ['gzip q=1', ''],
  [',,;;,q=1', ''],
  [' \t gzip \t ; \t q=0.5 \t , ,br', 'br gzip'],
])('V17: Accept-Encoding %j prefers: %s', (header, expected) => {
  expect(acceptedEncodings(header).join(' ')).toBe(expected)
})

test('V17: without an Accept-Encoding plain bytes are sent', () => {
  expect(acceptedEncodings(undefined)).toEqual([])
})

test.each([
  ['very long', `gzip${' '.repeat(100_000)}`],
  ['of many items', 'gzip,'.repeat(10_000)],
  ['of many parameters', `gzip${';q=1'.repeat(10_000)}`],
  ['of a long weight', `gzip;q=0.${'0'.repeat(100_000)}`],
])('V17: an Accept-Encoding that is %s is not read', (_what, header) => {
  expect(cpuMsOf(() => expect(acceptedEncodings(header)).toEqual([]))).toBeLessThan(50)
})

test.each([
  [1023, false],
  [1024, true],
  [4 * 1024 * 1024, true],
  [4 * 1024 * 1024 + 1, false],
])('V17: a text of %i bytes may have variants that are made in the background: %s', (size, may) => {
  expect(mayHaveBackgroundVariants(size)).toBe(may)
})

test.each([
  [95, true],
  [96, false],
])('V17: a variant of %i instead of 100 bytes is worth keeping: %s', (size, worth) => {
  expect(savesTwentieth(size, 100)).toBe(worth)
})
