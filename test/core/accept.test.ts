import { expect, test } from 'vitest'
import { prefersHtml } from '../../core/accept.ts'

test.each([
  [undefined, false],
  ['', false],
  ['*/*', false],
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', true],
  ['text/html, */*;q=0.1', true],
  ['application/json, text/plain, */*', false],
  ['application/json;q=0.5, text/html;q=0.4', false],
  ['application/json;q=0.4, TEXT/HTML;q=0.5', true],
  ['text/*', true],
  ['text/*, application/json', false],
  ['text/html, application/json', true],
  ['application/json, text/html', false],
  ['text/html;q=0', false],
  ['text/html;level=1', false],
  ['text/html;level=1, text/html;q=0.5', true],
  ['image/png', false],
  ['application/json;q=0', false],
  [',,', false],
  [`text/html${' '.repeat(2000)}`, false],
])('E35: Accept %j asks for HTML: %j', (header, expected) => expect(prefersHtml(header)).toBe(expected))
