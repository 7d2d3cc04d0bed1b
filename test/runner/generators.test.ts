import { existsSync } from 'node:fs'
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

describe.runIf(existsSync('/usr/bin/python3'))('a site of MkDocs', { timeout: 240_000 }, () => {
  const files = { 'mkdocs.yml': 'site_name: Notes\n', 'docs/index.md': '# Home\n\nSome *words*.\n' }

  test('is built with a release of MkDocs that is known', async () => {
    const built = await builder.build(files)
    expect(built.error).toBe('')
    expect(built).toMatchObject({ outcome: 'built', build_mode: 'build' })
    expect(await built.read('index.html')).toContain('Some <em>words</em>.')
    expect(built.log).toMatch(/\n\$ python3 --version\nPython 3\.\S+\n\$ pip install mkdocs==1\.6\.1\n/)
    expect(built.log).toMatch(/\n\$ mkdocs build\n[\s\S]* from site\n$/)
    expect(built.log).not.toContain('blocked:')
  })

  test('is built with what requirements.txt names, which the next build finds', async () => {
    // pip itself makes a wheel of the second, and keeps it whatever the index says about caching
    const pinned = { ...files, 'requirements.txt': 'mkdocs==1.5.3\ndocopt==0.6.2\n' }
    const built = await builder.build(pinned)
    expect(built.error).toBe('')
    expect(built.log).toMatch(/\n\$ pip install -r requirements\.txt\n/)
    expect(await built.read('index.html')).toContain('MkDocs version : 1.5.3')
    const again = await builder.build(pinned)
    expect(again.log).toContain('packages of an earlier build with this lock file are at hand')
    expect(again.log).toMatch(/Using cached docopt-0\.6\.2-\S+\.whl/)
  })
})

test.each([
  ['Jekyll', '_config.yml', 'title: a', 'Ruby'],
  ['Zola', 'config.toml', 'base_url = "/"', 'Zola'],
])('B06: a site of %s is told that builds cannot build it', async (name, file, content, needs) => {
  const built = await builder.build({ [file]: content, 'content/a.md': 'a' })
  expect(built).toMatchObject({ outcome: 'failed', build_mode: 'static' })
  expect(built.error).toMatch(new RegExp(`^this is a site of ${name}, and builds have no ${needs}; build it yourself`))
})
