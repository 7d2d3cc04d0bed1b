import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { outputFolders } from '../../core/output-folders.ts'
import { zip } from '../infra/archives.ts'
import { expectIsolation, nodeBuild, nodePackage, openBuilder, writes } from './builder.ts'

const MiB = 1024 * 1024
let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder()
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder[Symbol.asyncDispose]())

describe('a package', () => {
  test('B01: with a lock file is built by npm ci on Node 20', async () => {
    const built = await builder.build(
      nodePackage(`${writes('dist/index.html', 'dist/a/b.css')} console.log('env', process.env.CI, process.env.NODE_ENV)`),
    )
    expect(built).toMatchObject({
      outcome: 'built',
      build_mode: 'build',
      file_count: 2,
      skipped_paths: [],
      paths: ['a/b.css', 'index.html'],
    })
    expect(built.build_seconds).toBeGreaterThanOrEqual(1)
    expect(built).toMatchObject({ total_bytes: 'dist/index.htmldist/a/b.css'.length })
    expect(built.log).toMatch(/^unpacked 3 files\n\$ node -v\nv20\.20\.2\n\$ npm ci\n/)
    expect(built.log).toMatch(/\n\$ npm run build\n/)
    expect(built.log).toContain('env true undefined')
    expect(built.phases).toEqual(['wait', 'fetch source', 'unpack', 'install', 'build', 'collect', 'store'])
  })

  test('B02: without a lock file is installed by npm install', async () => {
    const { 'package-lock.json': _, ...files } = nodePackage(writes('out/index.html'))
    const built = await builder.build(files)
    expect(built).toMatchObject({ outcome: 'built', paths: ['index.html'] })
    expect(built.log).toMatch(/\n\$ npm install\n/)
  })

  test('B01 E7: inside a single folder, from a zip, with executable scripts', async () => {
    const files = {
      'site/package.json': JSON.stringify({ scripts: { build: './make.sh' } }),
      'site/make.sh': '#!/bin/sh\nmkdir dist && echo made > dist/index.html\n',
      '__MACOSX/site/._make.sh': 'junk',
      'site/.git/HEAD': 'ref',
    }
    const built = await builder.build(
      zip(Object.entries(files).map(([name, data]) => ({ name, data, executable: name.endsWith('.sh') }))),
    )
    expect(built).toMatchObject({
      outcome: 'built',
      paths: ['index.html'],
      skipped_paths: ['__MACOSX/site/._make.sh', '.git/HEAD'],
    })
    expect(await built.read('index.html')).toBe('made\n')
  })

  test('V13 V14: keeps .env and .npmrc for the build, and publishes no service file', async () => {
    const program = `${writes('dist/.env', 'dist/__svc/x', 'dist/ok.txt')} fs.copyFileSync('.env', 'dist/index.html')`
    const built = await builder.build(nodeBuild(program, { '.env': 'COLOR=red', '.npmrc': 'fund=false' }))
    expect(built).toMatchObject({ outcome: 'built', paths: ['index.html', 'ok.txt'], skipped_paths: ['.env', '__svc/x'] })
    expect(await built.read('index.html')).toBe('COLOR=red')
  })

  test('B03: the first existing output folder of the list is published', async () => {
    // one build per neighbouring pair would take a minute; the folders below the first show that order decides, not luck
    for (const [i, folder] of outputFolders.entries()) {
      if (i % 3 !== 0) continue
      const built = await builder.build(
        nodeBuild(
          writes(
            ...outputFolders
              .slice(i)
              .toReversed()
              .map((name) => `${name}/index.html`),
          ),
        ),
      )
      expect(await built.read('index.html')).toBe(`${folder}/index.html`)
    }
  })

  test('B03 E7: a page outside of the output folders fails, and is named', async () => {
    const stale = await builder.build(nodeBuild(writes('target/index.html'), { 'public/index.html': 'template' }))
    expect(stale).toMatchObject({
      outcome: 'failed',
      error: 'The build finished, but it wrote nothing to public/. Found target/index.html: set output_dir to target.',
    })
  })

  test('B03 E7: no output folder fails, and so does a link to one', async () => {
    const none = await builder.build(nodeBuild(writes('target/a.js')))
    expect(none.error).toMatch(/^the build wrote none of the folders dist, build, out, .*; make it write one of them/)
    const linked = await builder.build(nodeBuild('require("node:fs").symlinkSync("/etc", "dist")'))
    expect(`${linked.error} (it wrote target)`).toBe(none.error)
  })

  test('B03: a folder of the source gives way to the one that the build wrote', async () => {
    const built = await builder.build(nodeBuild(writes('_site/index.html'), { 'dist/index.html': 'of another time' }))
    expect(await built.read('index.html')).toBe('_site/index.html')
    expect(built.log).toMatch(/ from _site\n$/)
  })

  test('V18: a build cannot publish what it links to', async () => {
    const built = await builder.build(
      nodeBuild(`${writes('dist/index.html')} fs.symlinkSync('/etc/passwd', 'dist/passwd'); fs.symlinkSync('/', 'dist/root')`),
    )
    expect(built).toMatchObject({ outcome: 'built', paths: ['index.html'], skipped_paths: ['passwd', 'root'] })
  })
})

describe('a build that fails', () => {
  test('B06: says the command, its code and its last lines', async () => {
    const built = await builder.build(nodePackage(`console.error('\\u001b[31mno such colour\\u001b[0m'); process.exit(3)`))
    expect(built).toMatchObject({ outcome: 'failed', build_mode: 'build' })
    expect(built.error).toMatch(/^npm run build failed with exit code 3\n\n/)
    expect(built.error).toMatch(/\nno such colour$/)
    expect(built.log).toContain('no such colour')
  })

  test.each<[string, Record<string, string>, RegExp]>([
    ['no build script', { 'package.json': '{}' }, /^package.json has no "build" script/],
    ['a package.json that is not JSON', { 'package.json': '{' }, /^package.json is not valid JSON/],
  ])('B06: %s runs no command', async (_name, files, message) => {
    const built = await builder.build(files)
    expect(built).toMatchObject({ outcome: 'failed', build_mode: 'build', build_seconds: 0 })
    expect(built.error).toMatch(message)
  })

  test('B06: a lock file out of step is named', async () => {
    const changed = { name: 'test', version: '1.0.0', dependencies: { local: 'file:./local' }, scripts: { build: 'true' } }
    const local = { 'local/package.json': '{"name":"local","version":"1.0.0"}' }
    const built = await builder.build({ ...nodePackage(''), 'package.json': JSON.stringify(changed), ...local })
    expect(built.error).toMatch(/^npm ci failed with exit code 1: package-lock.json does not match package.json; run npm install/)
  })
})

describe('static archives', () => {
  test('B04: are published as they are, without commands', async () => {
    const built = await builder.build({
      './index.html': 'hi',
      './.git/config': 'x',
      './.env': 'x',
      './__svc/x': 'x',
      './server.js': 'x',
    })
    expect(built).toMatchObject({
      outcome: 'built',
      build_mode: 'static',
      build_seconds: 0,
      paths: ['index.html', 'server.js'],
    })
    expect([...built.skipped_paths].sort()).toEqual(['.env', '.git/config', '__svc/x'])
  })

  test('B04: need index.html at the root', async () => {
    const built = await builder.build({ 'a.txt': 'x', 'b/index.html': 'x' })
    expect(built).toMatchObject({
      outcome: 'failed',
      build_mode: 'static',
      error: expect.stringMatching(/^the archive has no index.html at its root/),
    })
  })

  test('D04: fit the quota, or the deploy fails with its text', async () => {
    const files = { 'index.html': 'x'.repeat(3 * MiB) }
    const built = await builder.build(files, { input: { storage_bytes: 2 * MiB, plan_title: 'Start' } })
    expect(built.error).toBe(
      'the archive unpacks to more than the storage quota of the Start plan (2 MB); leave out what the site does not need, or change the plan',
    )
    expect((await builder.build(files, { input: { storage_bytes: 3 * MiB } })).outcome).toBe('built')
  })

  test('D02: that cannot be read fail with what to do', async () => {
    const built = await builder.build(Buffer.from('PK\x03\x04 not really'))
    expect(built.error).toMatch(/^the zip is damaged.*; pack the folder again$/)
  })
})

test('a missing source archive is the fault of the platform', async () => {
  await expect(builder.build({ 'index.html': 'x' }, { input: { source_sha256: '0'.repeat(64) } })).rejects.toThrow(
    'is missing from the storage',
  )
  expect(await builder.leftovers()).toEqual([])
})
