import { expect, test } from 'vitest'
import { storableJson, storableText } from '../../core/storable-texts.ts'

test.each([
  ['', ''],
  ['plain', 'plain'],
  ['ø 漢 😀', 'ø 漢 😀'],
  ['a\0b', 'a\uFFFDb'],
  ['\0\0', '\uFFFD\uFFFD'],
  ['a\uD83D', 'a\uFFFD'],
  ['\uDE00\0', '\uFFFD\uFFFD'],
  ['the escape \\u0000', 'the escape \\u0000'],
])('PostgreSQL stores the text %j as %j', (text, stored) => expect(storableText(text)).toBe(stored))

test.each<[unknown, unknown]>([
  [{ a: 'b' }, { a: 'b' }],
  [{ a: 'x\0y' }, { a: 'x\uFFFDy' }],
  [{ 'k\0': ['\uD83D', '😀'] }, { 'k\uFFFD': ['\uFFFD', '😀'] }],
  ['the escape \\u0000', 'the escape \\u0000'],
  ['a backslash and a NUL: \\\0', 'a backslash and a NUL: \\\uFFFD'],
  ['\\\\uD83D \uD83D', '\\\\uD83D \uFFFD'],
])('PostgreSQL stores the JSON of %j as that of %j', (value, stored) => expect(JSON.parse(storableJson(value))).toEqual(stored))
