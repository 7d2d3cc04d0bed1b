import { appendFile, lstat, mkdir, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type KeptFolders, openKeptFolders } from '../../../runner/install/kept-folders.ts'
import type { KeptLimits } from '../../../runner/install/kept-limits.ts'
import { type BuildFiles, expectIsolation, openBuilder } from '../builder.ts'
import { lockedPackage } from '../locks.ts'

const MiB = 1024 * 1024
const warm = 'packages of an earlier build with this lock file are at hand'

let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder({ env: { PLINTH_BUILD_TIMEOUT: '120s' } })
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder[Symbol.asyncDispose]())

/** Two levels only: what lies in a kept folder is hostile, and a recursive `readdir` follows its links. */
async function cachesOf(dir: string): Promise<string[]> {
  const root = join(dir, 'caches')
  const projects = (await readdir(root, { withFileTypes: true })).filter((entry) => entry.isDirectory())
  const kept = await Promise.all(
    projects.map(async ({ name }) => (await readdir(join(root, name))).map((folder) => join(name, folder))),
  )
  return kept.flat().filter((path) => /^[0-9a-f]{32}\/[0-9a-f]{32}\.\d+\.[0-9a-f]{64}$/.test(path))
}

/** A package whose install runs this shell script, so that no build restores what another has installed. */
function installs(script: string, files = lockedPackage('npm')): BuildFiles {
  const parsed = JSON.parse(files['package.json'] as string)
  parsed.scripts.postinstall = script
  return { ...files, 'package.json': JSON.stringify(parsed) }
}

describe('packages that a build has fetched', { timeout: 240_000 }, () => {
  test.each(['npm', 'pnpm 10', 'Yarn 1', 'Yarn 4.18'] as const)(
    '69: by %s are at hand for the next of the project',
    async (manager) => {
      const input = { project_id: `cache of ${manager}` }
      const files = installs('exit 0', lockedPackage(manager))
      await using online = await openBuilder({ env: { PLINTH_BUILD_TIMEOUT: '120s' } })
      const first = await online.build(files, { input })
      expect(first.error).toBe('')
      expect(first.log).not.toContain(warm)
      // where the registry is a mirror at a private address, nothing can be fetched here
      await using offline = await openBuilder({
        env: { PLINTH_BUILD_TIMEOUT: '120s', PLINTH_BUILD_EGRESS_HOSTS: 'none.invalid' },
        heirOf: online.config,
      })
      const second = await offline.build(files, { input })
      expect(second.error).toBe('')
      expect(second.log).toContain(warm)
      expect(second.log).not.toContain('blocked:')
      expect(await second.read('index.html')).toBe('1m')
    },
  )

  test('69: are not at hand for another project, lock file, Node or after a failed install', async () => {
    const files = installs('exit 0')
    const input = { project_id: 'one' }
    await builder.build(files, { input })
    const lock = files['package-lock.json'] as string
    const others = [
      await builder.build(files, { input: { project_id: 'two' } }),
      await builder.build({ ...files, 'package-lock.json': `${lock}\n` }, { input }),
      await builder.build({ ...files, '.nvmrc': '22' }, { input }),
    ]
    for (const other of others) {
      expect(other.error).toBe('')
      expect(other.log).not.toContain(warm)
    }
    const input3 = { project_id: 'three' }
    expect((await builder.build(installs('exit 1'), { input: input3 })).error).toMatch(/^npm ci failed/)
    expect((await builder.build(installs('exit 0'), { input: input3 })).log).not.toContain(warm)
    const { 'package-lock.json': _, ...unlocked } = lockedPackage('npm')
    const input4 = { project_id: 'four' }
    for (let i = 0; i < 2; i++) expect((await builder.build(unlocked, { input: input4 })).log).not.toContain(warm)
  })

  test('69: go to one of two builds at once', async () => {
    const input = { project_id: 'at once' }
    const files = installs('exit 0')
    await builder.build(files, { input })
    const both = await Promise.all([1, 2].map(() => builder.build(files, { input })))
    expect(both.map(({ error }) => error)).toEqual(['', ''])
    expect(both.filter(({ log }) => log.includes(warm))).toHaveLength(1)
  })

  test('69: may be hostile, and neither hurt the runner nor lie open to others', async () => {
    const script =
      'cd ~/packages && chmod -R u+rwX . && rm -rf * && ln -s /etc/passwd link && ln -s / root && cp /bin/true suid && chmod 6755 suid && mkdir -m 0 shut'
    const input = { project_id: 'hostile' }
    const before = await lstat('/etc/passwd')
    for (const log of [/unpacked/, new RegExp(warm)]) {
      const built = await builder.build(installs(script), { input })
      expect(built.error).toBe('')
      expect(built.log).toMatch(log)
    }
    const after = await lstat('/etc/passwd')
    expect([after.uid, after.mode, after.ctimeMs]).toEqual([before.uid, before.mode, before.ctimeMs])
    expect((await stat(join(builder.config.build.dir, 'caches'))).mode & 0o777).toBe(0o700)
    expect(await builder.leftovers()).toEqual([])
  })

  test.each([
    ['are a link to elsewhere', 'rm -rf ~/packages && ln -s /build ~/packages'],
    ['hold a pipe', 'mkfifo ~/packages/pipe'],
    ['share a file with the home folder', 'echo mine > ~/packages/file && ln ~/packages/file ~/alias'],
  ])('69: are not kept when they %s', async (name, script) => {
    const input = { project_id: name }
    const built = await builder.build(installs(script), { input })
    expect(built.error).toBe('')
    expect((await builder.build(installs('exit 0'), { input })).log).not.toContain(warm)
  })

  test('69: are kept as the install has left them, whatever the build then does', async () => {
    const input = { project_id: 'set aside' }
    const files = installs('exit 0')
    const spoiling = `const fs = require('fs'); fs.mkdirSync('dist'); fs.writeFileSync('dist/index.html', 'x');
      fs.mkdirSync(process.env.HOME + '/packages', { recursive: true }); fs.writeFileSync(process.env.HOME + '/packages/evil', 'x')`
    const spoilt = await builder.build({ ...files, 'build.cjs': spoiling }, { input })
    expect(spoilt.error).toBe('')
    const listing = "fs.writeFileSync('dist/index.html', String(fs.existsSync(process.env.HOME + '/packages/evil')))"
    const next = await builder.build(
      { ...installs('ls ~/packages'), 'build.cjs': `const fs = require('fs'); fs.mkdirSync('dist'); ${listing}` },
      { input },
    )
    expect(next.log).toContain(warm)
    expect(next.log).not.toContain('evil')
    expect(await next.read('index.html')).toBe('false')
  })

  test('69: are dropped when they are not as they were set aside', async () => {
    const input = { project_id: 'altered' }
    const files = installs('exit 0')
    const dir = builder.config.build.dir
    const before = await cachesOf(dir)
    await builder.build(files, { input })
    const [made = ''] = (await cachesOf(dir)).filter((path) => !before.includes(path))
    const folder = join(dir, 'caches', made)
    const [file] = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
    await appendFile(join(file?.parentPath ?? '', file?.name ?? ''), 'x')
    const next = await builder.build(files, { input })
    expect(next.error).toBe('')
    expect(next.log).not.toContain(warm)
    expect((await builder.build(files, { input })).log).toContain(warm)
    // a registry that is silent once is asked again after a minute
  }, 180_000)
})

describe('the room for kept folders', () => {
  const small: Partial<KeptLimits> = { leastBytes: 0 }
  const key = (project: number, lock = 0) => ({ project_id: `p${project}`, trust: 'production', purpose: `l${lock}` }) as const

  async function openRoom(name: string, limits: Partial<KeptLimits>) {
    const dir = join(builder.config.dataDir, name)
    await mkdir(dir, { recursive: true })
    return { dir, folders: await openKeptFolders(dir, { ...small, ...limits }) }
  }

  /** Takes what is kept, or makes it, puts it back and answers whether it was there. */
  async function keep({ dir, folders }: { dir: string; folders: KeptFolders }, wanted: ReturnType<typeof key>, bytes: number) {
    const folder = join(dir, 'run-taken')
    const isKept = await folders.take(wanted, folder)
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'file'), Buffer.alloc(bytes))
    await folders.put(wanted, folder)
    await rm(folder, { recursive: true, force: true })
    return isKept
  }

  test('69: is bounded, and the least recently used go first', async () => {
    const room = await openRoom('bounded', { totalBytes: 3 * MiB + 64 * 1024, maxBytes: 2 * MiB })
    for (const project of [1, 2, 3]) await keep(room, key(project), MiB)
    expect(await keep(room, key(1), MiB)).toBe(true)
    expect(await keep(room, key(4), MiB)).toBe(false)
    expect(await cachesOf(room.dir)).toHaveLength(3)
    expect(await keep(room, key(1), MiB)).toBe(true)
    expect(await keep(room, key(2), 3 * MiB)).toBe(false)
    expect(await keep(room, key(2), 1)).toBe(false)
  })

  test('69: of one project holds a few folders', async () => {
    const room = await openRoom('few', { perProject: 2 })
    await keep(room, key(2), 1)
    for (const lock of [1, 2, 3]) await keep(room, key(1, lock), 1)
    expect(await cachesOf(room.dir)).toHaveLength(3)
    expect(await keep(room, key(1, 1), 1)).toBe(false)
    expect(await keep(room, key(2), 1)).toBe(true)
  })

  test('of one project is a share in bytes', async () => {
    const room = await openRoom('share', { projectBytes: 2 * MiB + 64 * 1024 })
    for (const lock of [1, 2, 3]) await keep(room, key(1, lock), MiB)
    expect(await keep(room, key(1, 1), MiB)).toBe(false)
    expect(await room.folders.usage()).toMatchObject({ folders: 2, largestShare: expect.toSatisfy((bytes) => bytes > 2 * MiB) })
  })

  test('is made by the project that holds most, so that none takes the folders of others', async () => {
    const room = await openRoom('fair', { totalBytes: 4 * MiB + 64 * 1024 })
    await keep(room, key(1), MiB)
    for (let lock = 0; lock < 12; lock++) await keep(room, key(2, lock), MiB)
    expect(await keep(room, key(1), MiB)).toBe(true)
  })

  test('counts many small folders too', async () => {
    const room = await openRoom('small', { totalBytes: 4 * MiB, leastBytes: MiB })
    for (let project = 0; project < 10; project++) await keep(room, key(project), 1)
    expect(await room.folders.usage()).toEqual({ folders: 4, bytes: 4 * MiB, largestShare: MiB })
    expect(await readFile(join(room.dir, 'kept.prom'), 'utf8')).toContain(`\nplinth_kept_bytes ${4 * MiB}\n`)
  })

  test('69: is cleaned of what a killed runner has left, and of folders without a seal, at the start', async () => {
    const dir = join(builder.config.dataDir, 'left')
    const root = join(dir, 'caches')
    const sealed = (letter: string) => `${letter.repeat(32)}.10.${'0'.repeat(64)}`
    await mkdir(join(root, 'a'.repeat(32), 'half'), { recursive: true })
    await mkdir(join(root, 'b'.repeat(32), sealed('c')), { recursive: true })
    await mkdir(join(root, 'b'.repeat(32), sealed('d')), { recursive: true })
    await mkdir(join(root, 'b'.repeat(32), `${'e'.repeat(32)}.10`), { recursive: true })
    await writeFile(join(root, 'file'), '')
    await symlink('/etc', join(root, 'a'.repeat(32), 'link'))
    await utimes(join(root, 'b'.repeat(32), sealed('c')), 1, 1)
    await openKeptFolders(dir, { totalBytes: 15 })
    expect(await cachesOf(dir)).toEqual([join('b'.repeat(32), sealed('d'))])
    expect(await readdir(join(root, 'a'.repeat(32)))).toEqual([])
    expect(await readFile('/etc/passwd', 'utf8')).not.toBe('')
  })
})
