import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type InstallPlan, nameInstall } from '../../../runner/install/install-inputs.ts'
import { lockedPackage } from '../locks.ts'

/** A busy machine may be late once. */
const bestOfThree = { retry: 2 }

let dir = ''
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-inputs-'))
})
afterAll(() => rm(dir, { recursive: true }))

type Files = Readonly<Record<string, string>>
const npm = lockedPackage('npm') as Files
const pnpm = lockedPackage('pnpm 10') as Files
const yarn1 = lockedPackage('Yarn 1') as Files
const yarn4 = lockedPackage('Yarn 4.18') as Files
const packageJson = JSON.parse(npm['package.json'] ?? '')
const withPackage = (change: object) => ({ ...npm, 'package.json': JSON.stringify({ ...packageJson, ...change }) })
const withScript = (name: string) => withPackage({ scripts: { build: 'true', [name]: 'true' } })
const appended = (files: Files, name: string, text: string) => ({ ...files, [name]: `${files[name] ?? ''}${text}` })

function planOf(files: Files): InstallPlan {
  const node = { node: 20, installFolder: '', environment: { CI: 'true' } } as const
  if (files === npm || 'package-lock.json' in files)
    return { ...node, packageManager: 'npm', install: ['npm', 'ci'], lockName: 'package-lock.json' }
  if ('pnpm-lock.yaml' in files)
    return { ...node, packageManager: 'pnpm-10', install: ['pnpm', 'install'], lockName: 'pnpm-lock.yaml' }
  if ('yarn.lock' in files) return { ...node, packageManager: 'yarn-4.18', install: ['yarn', 'install'], lockName: 'yarn.lock' }
  return { ...node, packageManager: 'npm', install: ['npm', 'install'], lockName: undefined }
}

async function nameOf(files: Files, { plan = {}, folder = '' }: { plan?: Partial<InstallPlan>; folder?: string } = {}) {
  const root = await mkdtemp(join(dir, 'source-'))
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), text)
  }
  return await nameInstall(root, new Set(Object.keys(files)), folder, { ...planOf(files), ...plan })
}

const named = expect.stringMatching(/^[0-9a-f]{64}$/)

describe('the name of an install', () => {
  test('69: depends on the environment that the install gets', async () => {
    const name = await nameOf(npm)
    expect(await nameOf(npm, { plan: { environment: { CI: 'true', NPM_TOKEN: 'secret' } } })).not.toBe(name)
    expect(await nameOf(npm, { plan: { environment: { CI: 'true' } } })).toBe(name)
  })

  test('69: is that of every source with the same lock file, package.json and settings', async () => {
    const name = await nameOf(npm)
    expect(name).toEqual(named)
    expect(await nameOf({ ...npm, 'build.cjs': 'another', 'src/new.js': '', 'README.md': '' })).toBe(name)
  })

  test.each<[string, Files]>([
    ['pnpm', pnpm],
    ['Yarn 1', yarn1],
    ['Yarn 4', yarn4],
    [
      'Yarn with a patch of its own',
      appended(yarn4, 'yarn.lock', '"fsevents@patch:fsevents@npm%3A^2.3.2#optional!builtin<compat/fsevents>":\n'),
    ],
    ['ordinary settings', { ...npm, '.npmrc': 'registry=https://registry.npmjs.org/\nlegacy-peer-deps=true\n' }],
    ['Yarn with node_modules', { ...yarn4, '.yarnrc.yml': 'nodeLinker: node-modules\n' }],
    ['scripts that no install runs', withScript('installer')],
  ])('69: exists for %s', async (_name, files) => {
    expect(await nameOf(files)).toEqual(named)
  })

  test.each<[string, Files, Parameters<typeof nameOf>[1]]>([
    ['lock file', appended(npm, 'package-lock.json', '\n'), {}],
    ['package.json', withPackage({ description: 'new' }), {}],
    ['.npmrc', { ...npm, '.npmrc': 'omit=optional' }, {}],
    ['second lock file', { ...npm, 'yarn.lock': '' }, {}],
    ['Node', npm, { plan: { node: 22 } }],
    ['package manager', npm, { plan: { packageManager: 'yarn-1' } }],
    ['command', npm, { plan: { install: ['npm', 'install'] } }],
    ['folder', { ...npm, 'app/package.json': npm['package.json'] ?? '' }, { folder: 'app/' }],
    ['package.json above', { ...npm, 'app/package.json': '{}' }, { folder: 'app/' }],
  ])('69: is another one with another %s', async (_name, files, options) => {
    const name = await nameOf(files, options)
    expect(name).toEqual(named)
    expect(name).not.toBe(await nameOf(npm))
  })

  test.each<[string, Files]>([
    ['no lock file', { 'package.json': npm['package.json'] ?? '' }],
    ...['preinstall', 'install', 'postinstall', 'prepare', 'prepublish', 'postprepare', 'dependencies', 'pnpm:devPreinstall'].map(
      (name): [string, Files] => [`a script ${name}`, withScript(name)],
    ),
    ['workspaces', withPackage({ workspaces: ['packages/*'] })],
    ['workspaces of pnpm', { ...pnpm, 'pnpm-workspace.yaml': 'packages:\n  - a\n' }],
    ['a dependency in a folder', withPackage({ dependencies: { local: 'file:./local' } })],
    ['a linked dependency', appended(npm, 'package-lock.json', ' "node_modules/a": { "resolved": "a", "link": true }')],
    ['a linked dependency of pnpm', appended(pnpm, 'pnpm-lock.yaml', '      a:\n        version: link:../a\n')],
    ['a dependency of Yarn 1 in a folder', appended(yarn1, 'yarn.lock', '"a@./a":\n')],
    ['a portal', appended(yarn4, 'yarn.lock', '"a@portal:./a::locator=small%40workspace%3A.":\n')],
    ['another workspace', appended(yarn4, 'yarn.lock', '"a@workspace:a":\n')],
    ['a patch', appended(yarn4, 'yarn.lock', '"a@patch:a@npm%3A1.0.0#./a.patch":\n')],
    ['a patch of pnpm', appended(pnpm, 'pnpm-lock.yaml', 'patchedDependencies:\n  ms@2.1.3: patches/ms.patch\n')],
    ['a program that takes part', { ...pnpm, '.pnpmfile.cjs': '' }],
    ['a package manager of its own', { ...yarn4, '.yarnrc.yml': 'yarnPath: .yarn/releases/yarn.cjs\n' }],
    ['packages of its own', { ...yarn4, '.yarn/cache/ms.zip': '' }],
    ['a compiled part', { ...npm, 'binding.gyp': '{}' }],
    ['a program in its settings', { ...npm, '.npmrc': 'fund=false\n script-shell = ./shell\n' }],
    ['a package.json that is none', { ...npm, 'package.json': '[' }],
    ['settings without an end', { ...npm, '.npmrc': '\n'.repeat(2 * 1024 * 1024) }],
  ])('69: does not exist with %s', async (_name, files) => {
    expect(await nameOf(files)).toBe(undefined)
  })

  test('69: is found in time, whatever the lock file holds', bestOfThree, async () => {
    for (const unit of ['patch:', '"link" ', '\n', ' ', 'file', '@.']) {
      const began = performance.now()
      await nameOf({ ...npm, 'package-lock.json': unit.repeat((16 * 1024 * 1024) / unit.length) })
      expect(performance.now() - began).toBeLessThan(4000)
    }
  })
})
