import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BuildFiles, expectIsolation, openBuilder } from './builder.ts'

let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder({ env: { PLINTH_BUILD_TIMEOUT: '120s' } })
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder[Symbol.asyncDispose]())

const hugoSite: BuildFiles = {
  'hugo.toml': 'baseURL = "https://example.org/"\ntitle = "Notes"\ndisableKinds = ["taxonomy", "term", "RSS", "sitemap"]\n',
  'content/_index.md': '---\ntitle: Home\n---\nSome *words*.\n',
  'layouts/index.html': '<title>{{ .Title }} {{ hugo.Version }}</title>{{ .Content }}',
  'layouts/_default/single.html': '{{ .Content }}',
  'assets/a.scss': 'a { b { color: red } }',
}

describe('a site of Hugo', { timeout: 240_000 }, () => {
  test('is built with the newest release, without package.json', async () => {
    const built = await builder.build(hugoSite)
    expect(built.error).toBe('')
    expect(built).toMatchObject({ outcome: 'built', build_mode: 'build', paths: ['index.html'] })
    expect(await built.read('index.html')).toBe('<title>Home 0.168.0</title><p>Some <em>words</em>.</p>\n')
    expect(built.log).toMatch(/\n\$ hugo version\nhugo v0\.168\.0-\S+\+extended[^\n]*\n\$ hugo\n/)
    expect(built.log).toMatch(/ from public\n$/)
  })

  test('is built with the release and the command that it names, beside its packages', async () => {
    const own = {
      '.tool-versions': 'hugo extended_0.148.0\n',
      'package.json': JSON.stringify({ name: 'notes', version: '1.0.0', scripts: { build: 'hugo --destination dist' } }),
      'public/index.html': 'of another time',
    }
    const built = await builder.build({ ...hugoSite, ...own })
    expect(built.error).toBe('')
    expect(await built.read('index.html')).toContain('0.148.2')
    expect(built.log).toContain('\n.tool-versions asks for Hugo 0.148.0; builds have 0.148.2 instead\n$ hugo version\n')
    expect(built.log).toMatch(/\n\$ npm install\n[\s\S]*\n\$ npm run build\n/)
  })

  test('B06: whose theme is not there says so', async () => {
    const built = await builder.build({ ...hugoSite, 'config.toml': 'baseURL = "/"', 'hugo.toml': 'theme = "lost"\n' })
    expect(built.error).toMatch(/^hugo failed with exit code 1: the theme of the site is missing; send its files/)
  })

  test('B06: that asks for a newer release than there is runs nothing', async () => {
    const built = await builder.build({ ...hugoSite, '.hugo-version': '1.0.0' })
    expect(built).toMatchObject({ outcome: 'failed', build_mode: 'build', build_seconds: 0 })
    expect(built.error).toMatch(/^\.hugo-version asks for Hugo 1\.0\.0; builds have Hugo /)
  })

  test('B04: is published as it is when it has index.html', async () => {
    const built = await builder.build({ ...hugoSite, 'index.html': 'ready' })
    expect(built).toMatchObject({ outcome: 'built', build_mode: 'static' })
  })
})

test.each([
  ['Jekyll', '_config.yml', 'title: a', 'Ruby'],
  ['MkDocs', 'mkdocs.yml', 'site_name: a', 'Python'],
  ['Zola', 'config.toml', 'base_url = "/"', 'Zola'],
])('B06: a site of %s is told that builds cannot build it', async (name, file, content, needs) => {
  const built = await builder.build({ [file]: content, 'content/a.md': 'a' })
  expect(built).toMatchObject({ outcome: 'failed', build_mode: 'static' })
  expect(built.error).toMatch(new RegExp(`^this is a site of ${name}, and builds have no ${needs}; build it yourself`))
})
