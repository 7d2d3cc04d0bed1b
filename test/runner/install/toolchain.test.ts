import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openToolchain } from '../../../infra/toolchain/toolchain.ts'
import { type BuildFiles, expectIsolation, nodePackage, openBuilder, writes } from '../builder.ts'
import { lockedPackage } from '../locks.ts'

const withEngines = (node: string) =>
  JSON.stringify({ name: 'test', version: '1.0.0', engines: { node }, scripts: { build: 'node build.cjs' } })

let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder({ env: { PLINTH_BUILD_TIMEOUT: '120s' } })
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder[Symbol.asyncDispose]())

describe('the lock file decides who installs', { timeout: 120_000 }, () => {
  test.each([
    ['npm', 'npm ci', 'npm run build'],
    ['pnpm 10', 'pnpm install --frozen-lockfile', 'pnpm run build'],
    ['pnpm 8', 'pnpm install --frozen-lockfile', 'pnpm run build'],
    ['Yarn 1', 'yarn install --frozen-lockfile', 'yarn run build'],
    ['Yarn 3', 'yarn install --immutable', 'yarn run build'],
    ['Yarn 4.13', 'yarn install --immutable', 'yarn run build'],
    ['Yarn 4.14', 'yarn install --immutable', 'yarn run build'],
    ['Yarn 4.18', 'yarn install --immutable', 'yarn run build'],
  ] as const)('B01: %s', async (manager, install, build) => {
    const built = await builder.build(lockedPackage(manager))
    expect(built.error).toBe('')
    expect(await built.read('index.html')).toBe('1m')
    expect(built.log).toMatch(/\$ node -v\nv20\.20\.2\n/)
    expect(built.log).toContain(`\n$ ${install}\n`)
    expect(built.log).toContain(`\n$ ${build}\n`)
    expect(built.log).not.toContain('blocked:')
  })
})

describe('the Node that is asked for', { timeout: 120_000 }, () => {
  const versions = `${writes('dist/index.html')} fs.writeFileSync('dist/index.html', process.version)`

  test.each<[string, BuildFiles, string]>([
    ['.nvmrc', { '.nvmrc': 'lts/jod\n', '.node-version': '18' }, 'v22.'],
    ['.node-version', { '.node-version': 'v18.1.0\n', 'package.json': withEngines('>=20') }, 'v18.'],
    ['engines.node', { 'package.json': withEngines('>=23') }, 'v24.'],
  ])('B01: %s is what builds run on', async (_file, files, version) => {
    const built = await builder.build(nodePackage(versions, files))
    expect(built.error).toBe('')
    expect(await built.read('index.html')).toContain(version)
    expect(built.log).toContain(`$ node -v\n${version}`)
    expect(built.log).toContain('\n$ npm ci\n')
  })

  test('B06: another one is refused before anything runs', async () => {
    const built = await builder.build(nodePackage(versions, { '.nvmrc': '16' }))
    expect(built).toMatchObject({ outcome: 'failed', build_mode: 'build', build_seconds: 0 })
    expect(built.error).toBe('.nvmrc asks for Node 16; builds have Node 18, 20, 22 and 24: name one of them, or none for Node 20')
  })
})

describe('packageManager', { timeout: 120_000 }, () => {
  test.each([
    ['pnpm 10', 'pnpm@9.1.0'],
    ['pnpm 8', 'pnpm@8.1.0+sha256.00'],
    ['Yarn 1', 'yarn@4.5.0'],
    ['Yarn 4.13', 'yarn@4.5.0'],
  ] as const)('of a project with a lock file of %s may name %s and changes nothing', async (manager, packageManager) => {
    const files = lockedPackage(manager)
    const parsed = JSON.parse(files['package.json'] as string)
    const built = await builder.build({ ...files, 'package.json': JSON.stringify({ ...parsed, packageManager }) })
    expect(built.error).toBe('')
    expect(await built.read('index.html')).toBe('1m')
  })
})

describe('a site in a folder of its repository', { timeout: 240_000 }, () => {
  const workspace = {
    'package.json': JSON.stringify({ name: 'all', version: '1.0.0', workspaces: ['apps/*'] }),
    'package-lock.json': JSON.stringify({
      name: 'all',
      version: '1.0.0',
      lockfileVersion: 3,
      requires: true,
      packages: {
        '': { name: 'all', version: '1.0.0', workspaces: ['apps/*'] },
        'apps/shared': { name: 'shared', version: '1.0.0' },
        'apps/web': { name: 'web', version: '1.0.0', dependencies: { shared: '*' } },
        'node_modules/shared': { resolved: 'apps/shared', link: true },
        'node_modules/web': { resolved: 'apps/web', link: true },
      },
    }),
    'apps/shared/package.json': '{"name":"shared","version":"1.0.0","main":"text.cjs"}',
    'apps/shared/text.cjs': "module.exports = 'shared text'",
    'apps/web/package.json': JSON.stringify({
      name: 'web',
      version: '1.0.0',
      scripts: { build: 'node build.cjs' },
      dependencies: { shared: '*' },
    }),
    'apps/web/build.cjs': `${writes('dist/index.html')} fs.writeFileSync('dist/index.html', require('shared'))`,
    'apps/docs/index.html': 'documents',
    'apps/empty/readme.md': 'nothing',
  }

  test('B01: is installed where the lock file lies, built in the folder, and published from there', async () => {
    const built = await builder.build(workspace, { settings: { root_dir: 'apps/web' } })
    expect(built.error).toBe('')
    expect(await built.read('index.html')).toBe('shared text')
    expect(built.log).toMatch(/\n\$ npm ci\n[\s\S]*\n\$ cd apps\/web && npm run build\n/)
  })

  test('B01: may hold a lock file of its own, and pnpm and Yarn find theirs', async () => {
    const moved = (files: BuildFiles) =>
      Object.fromEntries(Object.entries(files).map(([path, file]) => [`repo/site/${path}`, file]))
    for (const manager of ['npm', 'pnpm 10', 'Yarn 4.18'] as const) {
      const built = await builder.build(
        { ...moved(lockedPackage(manager)), 'repo/other/a.txt': 'x' },
        { settings: { root_dir: 'site' } },
      )
      expect(built.error).toBe('')
      expect(await built.read('index.html')).toBe('1m')
      expect(built.log).toMatch(/\n\$ cd site && (npm ci|pnpm install --frozen-lockfile|yarn install --immutable)\n/)
    }
  })

  test('B04: without package.json is published as it is', async () => {
    const built = await builder.build(workspace, { settings: { root_dir: 'apps/docs' } })
    expect(built).toMatchObject({ outcome: 'built', build_mode: 'static', paths: ['index.html'] })
  })

  test('B06: that is not there, or empty, is named', async () => {
    const missing = await builder.build(workspace, { settings: { root_dir: 'apps/blog' } })
    expect(missing.error).toMatch(/^the source has no folder "apps\/blog", the root_dir of the site; change root_dir/)
    const empty = await builder.build(workspace, { settings: { root_dir: 'apps/empty' } })
    expect(empty.error).toMatch(/^apps\/empty, the root_dir of the site, has neither package.json nor index.html/)
  })

  test('V18: cannot be replaced by a link to elsewhere', async () => {
    const program = "const fs = require('fs'); fs.rmSync('../web', { recursive: true }); fs.symlinkSync('/etc', '../web')"
    const built = await builder.build({ ...workspace, 'apps/web/build.cjs': program }, { settings: { root_dir: 'apps/web' } })
    expect(built.error).toMatch(/^the build wrote none of the folders/)
  })
})

test('several builds that ask for a tool at once install it once, also after a killed install, and a second runner finds it', async () => {
  const { cacheDir, npm } = builder.config
  const folder = join(builder.config.dataDir, 'tools')
  const cache = join(folder, 'cache')
  const lines: string[] = []
  const request = { report: (line: string) => lines.push(line) }
  const open = (name: string) => openToolchain({ dir: join(folder, name), cacheDir: cache, npm })
  const [one, two] = [open('one'), open('two')]
  expect(cacheDir).not.toBe(cache)
  await mkdir(join(cache, 'yarn-1.new', 'half'), { recursive: true })
  await writeFile(join(cache, 'yarn-1.lock'), JSON.stringify({ pid: 1, identity: 'of a process that has ended' }))
  await Promise.all([one, one, two].map((toolchain) => toolchain.get('yarn-1', request)))
  expect(lines.filter((line) => line === 'installing Yarn 1 for the first time')).toHaveLength(1)
  for (const name of ['one', 'two']) expect(await readdir(join(folder, name))).toEqual(['yarn-1'])
  expect(await readdir(cache)).toEqual(['yarn-1'])
})
