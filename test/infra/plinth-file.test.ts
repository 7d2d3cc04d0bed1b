import { expect, test } from 'vitest'
import { parsePlinthFile, plinthFileSchema } from '../../infra/plinth-file.ts'

test('E30: a whole plinth.json is read in the form in which settings are kept', () => {
  const build = { install_command: ' npm i ', build_command: 'make', output_dir: './www/', root_dir: '', node_version: '22.x' }
  const text = JSON.stringify({ $schema: 'https://plinth.test/plinth.schema.json', build, ignore: ['*.map', '!a.map'] })
  expect(parsePlinthFile(`\ufeff${text}`)).toEqual({
    file: {
      $schema: 'https://plinth.test/plinth.schema.json',
      build: { install_command: 'npm i', build_command: 'make', output_dir: 'www', root_dir: null, node_version: '22' },
      ignore: ['*.map', '!a.map'],
    },
  })
  expect(parsePlinthFile('{}')).toEqual({ file: {} })
})

test.each([
  ['[', /^plinth.json is not valid JSON \(/],
  ['\uFFFD\uFFFD{\0}\0', /^plinth.json is not in UTF-8/],
  ['[]', /^plinth.json is not valid: /],
  ['{"biuld":{}}', /^plinth.json is not valid: .*"biuld"/],
  ['{"build":{"cmd":"x"}}', /^plinth.json is not valid: build .*"cmd"/],
  ['{"build":{"build_command":1}}', /^plinth.json is not valid: build.build_command must be text$/],
  ['{"build":{"build_command":"a\\nb"}}', /build.build_command must be one line of at most 1000 characters$/],
  ['{"build":{"output_dir":"../x"}}', /build.output_dir contains "..";/],
  ['{"build":{"node_version":"19"}}', /build.node_version must be 18, 20, 22 or 24$/],
  ['{"ignore":"x"}', /ignore must be a list$/],
  ['{"ignore":["a","b[c]"]}', /ignore.1 has a bracket/],
  [JSON.stringify({ ignore: Array(101).fill('a') }), /ignore has more than 100 patterns$/],
  [JSON.stringify({ ['x'.repeat(5000)]: 1 }), /^.{100,400}$/],
])('E30: %s says what is wrong', (text, message) =>
  expect(parsePlinthFile(text)).toEqual({ error: expect.stringMatching(message) }),
)

test('E30: the JSON schema names the five settings and the patterns, and allows nothing else', () => {
  expect(plinthFileSchema()).toMatchObject({
    additionalProperties: false,
    properties: {
      build: {
        additionalProperties: false,
        properties: {
          install_command: { type: 'string', maxLength: 1000 },
          build_command: { type: 'string', maxLength: 1000 },
          output_dir: { type: 'string' },
          root_dir: { type: 'string' },
          node_version: { type: 'string' },
        },
      },
      ignore: { type: 'array', maxItems: 100, items: { type: 'string', maxLength: 200 } },
    },
  })
})
