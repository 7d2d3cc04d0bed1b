import { expect, test } from 'vitest'
import { chooseNode } from '../../../runner/source/node-version.ts'

const choose = (text: string) => {
  const choice = chooseNode({ file: '.nvmrc', text })
  return choice.kind === 'node' ? choice.major : choice.error
}

test('B01: Node is 20 when nothing is said', () => {
  expect(chooseNode(undefined)).toEqual({ kind: 'node', major: 20 })
  expect(choose(' \n# nothing\n')).toBe(20)
})

test.each<[string, number]>([
  ['20', 20],
  ['v22', 22],
  ['22.3.0', 22],
  ['v18.0.0\n', 18],
  ['node-v24.1.0', 24],
  ['22 # for the build', 22],
  ['# comment\r\n18.x\r\n', 18],
  ['lts/*', 24],
  ['lts/jod', 22],
  ['lts/Iron', 20],
  ['hydrogen', 18],
  ['node', 24],
  ['stable', 24],
  ['*', 20],
  ['>=18', 20],
  ['>=14.0.0', 20],
  ['^18 || ^20', 20],
  ['^18.17 || >=22', 24],
  ['>20', 24],
  ['>=21 <23', 22],
  ['^22.3.0', 22],
  ['<20', 18],
  ['18', 18],
  ['~20.1.0', 20],
  ['>=22.1 <22.9', 22],
  ['^20.99.0', 20],
])('Node for %j is %i', (text, major) => expect(choose(text)).toBe(major))

test.each<[string, RegExp]>([
  ['16', /^\.nvmrc asks for Node 16; builds have Node 18, 20, 22 and 24: name one of them, or none for Node 20$/],
  ['^14 || 16.x', /^\.nvmrc asks for Node \^14 \|\| 16\.x; builds have/],
  ['v99.1.2', /^\.nvmrc asks for Node v99\.1\.2; builds have/],
  ['lts/argon', /^\.nvmrc names "lts\/argon", which is no version; builds have Node 18, 20, 22 and 24/],
  ['constructor', /^\.nvmrc names "constructor", which is no version/],
  ['iojs', /^\.nvmrc names "iojs", which is no version/],
  ['$(rm -rf /)', /which is no version/],
])('B06: %j is refused with what there is', (text, message) => expect(choose(text)).toMatch(message))
