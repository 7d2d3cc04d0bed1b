import { expect, test } from 'vitest'
import { preferredLanguage } from '../../core/page-language.ts'

test.each([
  [undefined, 'en'],
  ['', 'en'],
  ['ru', 'ru'],
  ['ru-RU,ru;q=0.9,en-US;q=0.8', 'ru'],
  ['en-US,en;q=0.9,ru;q=0.8', 'en'],
  ['de, RU;q=0.5', 'ru'],
  ['de', 'en'],
  ['ru;q=0', 'en'],
  ['en;q=0.5, ru;q=0.8', 'ru'],
  ['rue', 'en'],
  [`ru${' '.repeat(2000)}`, 'en'],
])('a visitor with Accept-Language %j reads %s', (header, expected) => expect(preferredLanguage(header)).toBe(expected))
