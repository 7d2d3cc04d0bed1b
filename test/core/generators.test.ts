import { describe, expect, test } from 'vitest'
import {
  chooseHugo,
  generatorOf,
  type HugoRequest,
  hugoReleases,
  hugoVersionIn,
  runsHugo,
  runsPython,
  unavailable,
} from '../../core/generators.ts'

test.each<[Readonly<Record<string, string>>, string | undefined]>([
  [{ 'hugo.toml': '' }, 'hugo'],
  [{ 'hugo.json': '{' }, 'hugo'],
  [{ 'config/_default/hugo.yaml': '' }, 'hugo'],
  [{ 'config/_default/config.toml': '' }, 'hugo'],
  [{ 'config.toml': 'title = "a"\nbaseURL = "https://example.org/"\n' }, 'hugo'],
  [{ 'config.toml': 'baseurl = "/"' }, 'hugo'],
  [{ 'config.yaml': 'title: a\r\nbaseURL: /' }, 'hugo'],
  [{ 'config.json': '{\n  "baseURL": "/"\n}' }, 'hugo'],
  [{ 'config.toml': 'base_url = "https://example.org"' }, 'zola'],
  [{ 'config.toml': '[server]\nport = 80' }, undefined],
  [{ 'config.json': '{"api":"x"}' }, undefined],
  [{ '_config.yml': 'title: a' }, 'jekyll'],
  [{ 'mkdocs.yml': 'site_name: a' }, 'mkdocs'],
  [{ 'sub/hugo.toml': '' }, undefined],
  [{}, undefined],
])('a folder with %j is a site of %s', async (files, generator) => {
  const found = await generatorOf(
    (path) => Object.hasOwn(files, path),
    async (path) => files[path] ?? '',
  )
  expect(found).toBe(generator)
})

test.each(['jekyll', 'zola'] as const)('a site of %s says what to do instead', (generator) => {
  expect(unavailable(generator)).toMatch(/^this is a site of \w+, and builds have no \w+; build it yourself, and send the folder/)
})

describe('the version of Hugo', () => {
  test.each<[HugoRequest['file'], string, string | undefined]>([
    ['.hugo-version', '0.148.2\n', '0.148.2'],
    ['.hugo-version', 'v0.155\n', '0.155'],
    ['.hugo-version', 'latest', undefined],
    ['.tool-versions', 'nodejs 20.1.0\nhugo extended_0.155.3\n', '0.155.3'],
    ['.tool-versions', 'hugo 0.161.1', '0.161.1'],
    ['.tool-versions', 'nodejs 20.1.0', undefined],
    ['netlify.toml', '[build.environment]\n  HUGO_VERSION = "0.120.4"\n', '0.120.4'],
    ['netlify.toml', '# HUGO_VERSION = "0.120.4"\n', undefined],
    ['netlify.toml', '[build]\npublish = "public"', undefined],
  ])('in %s with %j is %s', (file, text, version) => expect(hugoVersionIn(file, text)?.version).toBe(version))

  const chosen = (version: string) => {
    const choice = chooseHugo({ file: 'netlify.toml', version })
    return choice.kind === 'hugo' ? [choice.release, choice.note] : choice.error
  }

  test('is the newest when nothing is said', () => {
    expect(chooseHugo(undefined)).toEqual({ kind: 'hugo', release: hugoReleases.at(-1), note: undefined })
  })

  test.each([
    ['0.148.2', '0.148.2'],
    ['0.155', '0.155.3'],
  ])('%s is %s', (version, release) => expect(chosen(version)).toEqual([release, undefined]))

  test.each([
    ['0.9.0', '0.148.2'],
    ['0.148.10', '0.155.3'],
    ['0.155.1', '0.155.3'],
  ])('%s is served by %s, and the log says so', (version, release) => {
    expect(chosen(version)).toEqual([release, `netlify.toml asks for Hugo ${version}; builds have ${release} instead`])
  })

  test('is refused when it is newer than all', () => {
    expect(chosen('0.200.0')).toBe(
      'netlify.toml asks for Hugo 0.200.0; builds have Hugo 0.148.2, 0.155.3, 0.161.1 and 0.168.0: name one of them, or none for Hugo 0.168.0',
    )
  })
})

test.each<[string, boolean]>([
  ['hugo', true],
  ['hugo --minify', true],
  ['npm run css && hugo -s site', true],
  ['(hugo)', true],
  ['hugo-bin', false],
  ['npx hugo-extended', false],
  ['vite build --outDir hugo-site', false],
  ['', false],
])('%j runs Hugo: %s', (command, runs) => expect(runsHugo(command)).toBe(runs))

test.each<[string, boolean]>([
  ['mkdocs build --strict', true],
  ['python3 hooks.py && mkdocs build', true],
  ['make html', false],
  ['npm run mkdocs-assets', false],
])('%j runs Python: %s', (command, runs) => expect(runsPython(command)).toBe(runs))
