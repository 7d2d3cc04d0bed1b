import { cp, lstat, mkdir, readdir, readFile, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openPackageCaches } from '../../runner/package-cache.ts'
import type { Slot } from '../../runner/slots.ts'
import { openWorkspace } from '../../runner/workspace.ts'
import { type BuildFiles, expectIsolation, openBuilder } from './builder.ts'
import { lockedPackage } from './locks.ts'

const MiB = 1024 * 1024
const warm = 'packages of an earlier build with this lock file are at hand'

let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder({ env: { PLINTH_BUILD_TIMEOUT: '120s' } })
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder[Symbol.asyncDispose]())

const cachesFolder = (from: typeof builder) => join(from.config.build.dir, 'caches')
const cachesOf = async (dir: string) =>
  (await readdir(join(dir, 'caches'), { recursive: true })).filter((path) => /^[0-9a-f]{32}\/[0-9a-f]{32}\.\d+$/.test(path))

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
      const first = await builder.build(files, { input })
      expect(first.error).toBe('')
      expect(first.log).not.toContain(warm)
      // where the registry is a mirror at a private address, nothing can be fetched here
      await using offline = await openBuilder({
        env: { PLINTH_BUILD_TIMEOUT: '120s', PLINTH_BUILD_EGRESS_HOSTS: 'none.invalid' },
      })
      await cp(cachesFolder(builder), cachesFolder(offline), { recursive: true, verbatimSymlinks: true })
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
      'cd ~/packages && chmod -R u+rwX . && rm -rf * && ln -s /etc/passwd link && ln -s / root && mkfifo pipe && cp /bin/true suid && chmod 6755 suid && mkdir -m 0 shut'
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

  test('69: are no link to elsewhere', async () => {
    const input = { project_id: 'linked' }
    const built = await builder.build(installs('rm -rf ~/packages && ln -s /build ~/packages'), { input })
    expect(built.error).toBe('')
    expect((await builder.build(installs('exit 0'), { input })).log).not.toContain(warm)
  })
})

describe('the room for caches', () => {
  const slot: Slot = { index: 0, uid: undefined }
  const request = (project: number, lock = 0) => ({ project_id: `p${project}`, lockSha256: `l${lock}`, tools: 't' })
  const folder = (name: string) => join(builder.config.dataDir, name)

  async function keep(caches: Awaited<ReturnType<typeof openPackageCaches>>, dir: string, wanted: object, bytes: number) {
    await using workspace = await openWorkspace(dir, slot)
    const cache = await caches.take(wanted as ReturnType<typeof request>, workspace, slot)
    await mkdir(join(workspace.home, 'packages'), { recursive: true })
    await writeFile(join(workspace.home, 'packages', 'file'), Buffer.alloc(bytes))
    await cache.keep()
    return cache.isWarm
  }

  test('69: is bounded, and the least recently used go first', async () => {
    const dir = folder('bounded')
    await mkdir(dir, { recursive: true })
    const caches = await openPackageCaches(dir, { totalBytes: 3 * MiB + 64 * 1024, maxBytes: 2 * MiB })
    for (const project of [1, 2, 3]) await keep(caches, dir, request(project), MiB)
    expect(await keep(caches, dir, request(1), MiB)).toBe(true)
    expect(await keep(caches, dir, request(4), MiB)).toBe(false)
    expect(await cachesOf(dir)).toHaveLength(3)
    expect(await keep(caches, dir, request(1), MiB)).toBe(true)
    expect(await keep(caches, dir, request(2), 3 * MiB)).toBe(false)
    expect(await keep(caches, dir, request(2), 1)).toBe(false)
  })

  test('69: of one project holds a few lock files', async () => {
    const dir = folder('few')
    await mkdir(dir, { recursive: true })
    const caches = await openPackageCaches(dir, { perProject: 2 })
    await keep(caches, dir, request(2), 1)
    for (const lock of [1, 2, 3]) await keep(caches, dir, request(1, lock), 1)
    expect(await cachesOf(dir)).toHaveLength(3)
    expect(await keep(caches, dir, request(1, 1), 1)).toBe(false)
    expect(await keep(caches, dir, request(2), 1)).toBe(true)
  })

  test('69: is cleaned of what a killed runner has left, at the start', async () => {
    const dir = folder('left')
    const root = join(dir, 'caches')
    await mkdir(join(root, 'a'.repeat(32), 'half'), { recursive: true })
    await mkdir(join(root, 'b'.repeat(32), `${'c'.repeat(32)}.10`), { recursive: true })
    await mkdir(join(root, 'b'.repeat(32), `${'d'.repeat(32)}.10`), { recursive: true })
    await writeFile(join(root, 'file'), '')
    await symlink('/etc', join(root, 'a'.repeat(32), 'link'))
    await utimes(join(root, 'b'.repeat(32), `${'c'.repeat(32)}.10`), 1, 1)
    await openPackageCaches(dir, { totalBytes: 15 })
    expect(await cachesOf(dir)).toEqual([join('b'.repeat(32), `${'d'.repeat(32)}.10`)])
    expect(await readdir(join(root, 'a'.repeat(32)))).toEqual([])
    expect(await readFile('/etc/passwd', 'utf8')).not.toBe('')
  })
})
