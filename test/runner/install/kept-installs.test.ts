import { execFileSync } from 'node:child_process'
import { chmod, link, lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type KeptFolders, openKeptFolders } from '../../../runner/install/kept-folders.ts'
import { takeInstall } from '../../../runner/install/kept-installs.ts'
import type { Slot } from '../../../runner/sandbox/slots.ts'
import { openWorkspace, removeLeftoverWorkspaces, type Workspace } from '../../../runner/sandbox/workspace.ts'

const slot: Slot = { index: 0, uid: undefined }
let dir = ''
let shared: KeptFolders
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-installs-'))
  await chmod(dir, 0o711)
  shared = await openKeptFolders(dir)
})
afterAll(() => rm(dir, { recursive: true }))

/** What an install or a build does in its folders. */
type Act = (at: { root: string; home: string }) => Promise<unknown>
const nothing: Act = async () => undefined

const writing =
  (...paths: string[]): Act =>
  async ({ root }) => {
    for (const path of paths) {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await writeFile(join(root, path), path)
    }
  }

const packages: Act = async (at) => {
  await writing('node_modules/ms/package.json', 'node_modules/ms/index.js', 'node_modules/@a/b/package.json')(at)
  await writing('node_modules/.package-lock.json')(at)
  await mkdir(join(at.root, 'node_modules/.bin'))
  await symlink('../ms/index.js', join(at.root, 'node_modules/.bin/ms'))
}

const both =
  (...acts: Act[]): Act =>
  async (at) => {
    for (const act of acts) await act(at)
  }

async function openSource(): Promise<Workspace> {
  const workspace = await openWorkspace(dir, slot)
  await writing('package.json', 'src/index.js')({ root: workspace.source, home: workspace.home })
  return workspace
}

/** Changes within one tick of the file system's clock could not be told apart; a build starts many ticks later. */
async function nextTick(): Promise<void> {
  const probe = join(dir, 'tick')
  const now = async () => {
    await writeFile(probe, '')
    return (await lstat(probe)).ctimeMs
  }
  const before = await now()
  while ((await now()) === before);
}

const request = (workspace: Workspace, name: string) => ({
  project_id: 'p',
  trust: 'production' as const,
  name,
  root: workspace.source,
  folder: '',
})

interface Case {
  install?: Act
  build?: Act
  folders?: KeptFolders
}

/** One build after the other; what the second finds restored, or undefined. */
async function secondFinds(name: string, { install = packages, build = nothing, folders = shared }: Case) {
  {
    await using workspace = await openSource()
    const at = { root: workspace.source, home: workspace.home }
    const first = await takeInstall(folders, request(workspace, name), workspace, slot)
    expect(first.restored).toBe(undefined)
    await nextTick()
    await install(at)
    await first.remember()
    await nextTick()
    await build(at)
    await first.keep()
  }
  await using workspace = await openSource()
  const second = await takeInstall(folders, request(workspace, name), workspace, slot)
  if (!second.restored) return undefined
  const paths = await readdir(join(workspace.source, 'node_modules'), { recursive: true })
  return { packages: second.restored.packages, paths: paths.sort() }
}

const whole = {
  packages: 2,
  paths: ['.bin', '.bin/ms', '.package-lock.json', '@a', '@a/b', '@a/b/package.json', 'ms', 'ms/index.js', 'ms/package.json'],
}
const inRoot =
  (act: (path: (name: string) => string) => Promise<unknown>): Act =>
  ({ root }) =>
    act((name) => join(root, name))

describe('packages that an install has left', () => {
  test('69: are those of the next build, and go from hand to hand', async () => {
    expect(await secondFinds('whole', {})).toEqual(whole)
    // the second has not kept them
    await using workspace = await openSource()
    expect((await takeInstall(shared, request(workspace, 'whole'), workspace, slot)).restored).toBe(undefined)
  })

  test.each<[string, Act]>([
    ['files with two names in them', inRoot((path) => link(path('node_modules/ms/index.js'), path('node_modules/ms/same.js')))],
    ['names of every kind', writing('node_modules/ms/a\nb', 'node_modules/ms/ü')],
    ['downloads beside them', async ({ home }) => writing('packages/npm/x')({ root: home, home })],
  ])('69: may have %s', async (name, act) => {
    expect((await secondFinds(name, { install: both(packages, act) }))?.packages).toBe(2)
  })

  test.each<[string, Act]>([
    ['are none', nothing],
    ['are a file', writing('node_modules')],
    ['come with a file elsewhere', both(packages, writing('public/worker.js'))],
    [
      'come with a change of the source',
      both(
        packages,
        inRoot((path) => writeFile(path('src/index.js'), 'changed')),
      ),
    ],
    [
      'come without a file of the source',
      both(
        packages,
        inRoot((path) => rm(path('src/index.js'))),
      ),
    ],
    ['come with a file in the home folder', both(packages, async ({ home }) => writing('.cache/chrome')({ root: home, home }))],
    ['hold what was made from the project', both(packages, writing('node_modules/.prisma/client/index.js'))],
    [
      'share a file with the source',
      both(
        packages,
        inRoot((path) => link(path('src/index.js'), path('node_modules/ms/x.js'))),
      ),
    ],
    [
      'link to the source',
      both(
        packages,
        inRoot((path) => symlink('../src', path('node_modules/local'))),
      ),
    ],
    [
      'link to the system',
      both(
        packages,
        inRoot((path) => symlink('/usr', path('node_modules/usr'))),
      ),
    ],
    [
      'hold a pipe',
      both(
        packages,
        inRoot(async (path) => execFileSync('mkfifo', [path('node_modules/pipe')])),
      ),
    ],
  ])('69: are not kept when they %s', async (name, install) => {
    expect(await secondFinds(name, { install })).toBe(undefined)
  })
})

describe('a build after the install', () => {
  test.each<[string, Act]>([
    ['adds a cache', writing('node_modules/.vite/deps/a.js', 'node_modules/.cache/b')],
    ['adds to a package', writing('node_modules/ms/new.js', 'node_modules/new/package.json')],
    ['adds a link to elsewhere', inRoot((path) => symlink('/', path('node_modules/root')))],
    ['writes elsewhere', writing('dist/index.html', 'src/index.js')],
  ])('69: that %s leaves nothing of it to the next', async (name, build) => {
    expect(await secondFinds(name, { build })).toEqual(whole)
  })

  test.each<[string, Act]>([
    ['changes a file', writing('node_modules/ms/index.js')],
    [
      'changes a file and sets its times back',
      inRoot(async (path) => {
        const file = path('node_modules/ms/index.js')
        const { atime, mtime, size } = await lstat(file)
        await writeFile(file, 'x'.repeat(size))
        await utimes(file, atime, mtime)
      }),
    ],
    ['makes a file executable', inRoot((path) => chmod(path('node_modules/ms/index.js'), 0o755))],
    ['removes a file', inRoot((path) => rm(path('node_modules/ms/index.js')))],
    [
      'replaces a file',
      inRoot(async (path) => {
        await writeFile(path('new'), 'x')
        await rename(path('new'), path('node_modules/ms/index.js'))
      }),
    ],
    ['gives a file a second name', inRoot((path) => link(path('node_modules/ms/index.js'), path('kept.js')))],
    [
      'replaces a package by a link',
      inRoot(async (path) => {
        await rename(path('node_modules/ms'), path('ms'))
        await symlink('../ms', path('node_modules/ms'))
      }),
    ],
    [
      'replaces all by a link',
      inRoot(async (path) => {
        await rename(path('node_modules'), path('moved'))
        await symlink('moved', path('node_modules'))
      }),
    ],
    ['removes all', inRoot((path) => rm(path('node_modules'), { recursive: true }))],
    [
      'adds a name that is no text',
      inRoot((path) => writeFile(Buffer.concat([Buffer.from(path('node_modules/')), Buffer.of(0xff)]), '')),
    ],
  ])('69: that %s leaves no packages to the next', async (name, build) => {
    expect(await secondFinds(name, { build })).toBe(undefined)
  })

  test('69: cannot have a folder elsewhere taken, by a link in its path', async () => {
    const elsewhere = join(dir, 'elsewhere')
    await writing('node_modules/precious')({ root: elsewhere, home: '' })
    await using workspace = await openWorkspace(dir, slot)
    const at = { root: workspace.source, home: workspace.home }
    await writing('app/package.json')(at)
    const install = await takeInstall(shared, { ...request(workspace, 'path'), folder: 'app/' }, workspace, slot)
    await writing('app/node_modules/ms/package.json')(at)
    await install.remember()
    await rename(join(at.root, 'app'), join(at.root, 'moved'))
    await symlink(elsewhere, join(at.root, 'app'))
    await install.keep()
    expect(await readFile(join(elsewhere, 'node_modules/precious'), 'utf8')).toBe('node_modules/precious')
    await using next = await openSource()
    expect((await takeInstall(shared, request(next, 'path'), next, slot)).restored).toBe(undefined)
  })
})

describe('the room for packages', () => {
  test('69: holds none that are too large or too many', async () => {
    for (const [name, limits] of Object.entries({ bytes: { maxBytes: 1024 }, files: { maxFiles: 3 } })) {
      await mkdir(join(dir, name))
      expect(await secondFinds(name, { folders: await openKeptFolders(join(dir, name), limits) })).toBe(undefined)
    }
  })

  test('69: holds nothing of an install that was half taken when the runner was killed', async () => {
    const workspace = await openSource()
    const killed = { ...shared, put: () => Promise.reject(new Error('killed')) }
    const install = await takeInstall(killed, request(workspace, 'killed'), workspace, slot)
    await packages({ root: workspace.source, home: workspace.home })
    await install.remember()
    await expect(install.keep()).rejects.toThrow('killed')
    expect(await readdir(workspace.source)).not.toContain('node_modules')
    await removeLeftoverWorkspaces(dir)
    expect((await readdir(dir)).filter((name) => name.startsWith('run-'))).toEqual([])
    await using next = await openSource()
    expect((await takeInstall(shared, request(next, 'killed'), next, slot)).restored).toBe(undefined)
  })
})
