import { execFileSync } from 'node:child_process'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectIsolation, nodeBuild, openBuilder, writes } from '../builder.ts'

const MiB = 1024 * 1024
const isRoot = process.getuid?.() === 0

/** Small file systems in memory are mounted, which needs a privileged user. */
describe.skipIf(!isRoot)('on a disk of 64 MB', () => {
  let disk = ''
  let builder: Awaited<ReturnType<typeof openBuilder>>
  beforeAll(async () => {
    disk = await mkdtemp(join(tmpdir(), 'plinth-disk-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m,mode=0711', 'plinth-test', disk])
    builder = await openBuilder({ env: { PLINTH_BUILD_DIR: join(disk, 'builds') } })
    expectIsolation(builder.sandbox.status)
  })
  afterAll(async () => {
    await builder?.[Symbol.asyncDispose]()
    execFileSync('umount', [disk])
    await rm(disk, { recursive: true })
  })

  const page = { 'index.html': 'x' }
  const stored = async () => (await readdir(join(builder.config.build.dir))).filter((name) => name.startsWith('run-'))

  test('a build that fills it is the fault of the platform, is to be repeated, and leaves nothing', async () => {
    const filling = nodeBuild(
      `${writes('dist/index.html')} for (let i = 0; ; i++) fs.appendFileSync('big', Buffer.alloc(${MiB}, i))`,
    )
    await expect(builder.build(filling)).rejects.toThrow('the disk that builds work on is nearly full')
    expect(await stored()).toEqual([])
    expect(await builder.build(page)).toMatchObject({ outcome: 'built', paths: ['index.html'] })
  })

  test('one that others have filled ends builds of every kind without a result, and they work again afterwards', async () => {
    const ballast = join(disk, 'ballast')
    await writeFile(ballast, Buffer.alloc(62 * MiB)).catch(() => undefined)
    const large = { ...page, 'large.bin': { name: '', data: Buffer.alloc(8 * MiB, 'abcdefg') } }
    await expect(builder.build(large)).rejects.toThrow(/ENOSPC/)
    await expect(builder.build(nodeBuild(writes('dist/index.html')))).rejects.toThrow(/nearly full|ENOSPC/)
    expect(await stored()).toEqual([])
    await rm(ballast)
    expect(await builder.build(large)).toMatchObject({ outcome: 'built', paths: ['index.html', 'large.bin'] })
    expect(await builder.build(nodeBuild(writes('dist/index.html')))).toMatchObject({ outcome: 'built', paths: ['index.html'] })
  })
})

describe.skipIf(!isRoot)('with the storage on a disk of 16 MB', () => {
  let disk = ''
  let builder: Awaited<ReturnType<typeof openBuilder>>
  beforeAll(async () => {
    disk = await mkdtemp(join(tmpdir(), 'plinth-disk-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m,mode=0711', 'plinth-test', disk])
    builder = await openBuilder({ casDir: join(disk, 'cas') })
  })
  afterAll(async () => {
    await builder?.[Symbol.asyncDispose]()
    execFileSync('umount', [disk])
    await rm(disk, { recursive: true })
  })

  test('an artifact that does not fit ends without a result, nothing of it is half there, and what is stored stays', async () => {
    const kept = await builder.build({ 'index.html': 'kept' })
    const noise = Buffer.from(Array.from({ length: 65_536 }, (_, i) => (i * i * 31) % 251))
    const files = Object.fromEntries(
      Array.from({ length: 40 }, (_, i) => [
        `f${i}.png`,
        { name: '', data: Buffer.concat([Buffer.from([i]), ...Array(16).fill(noise)]) },
      ]),
    )
    await expect(builder.build({ 'index.html': 'new', ...files })).rejects.toThrow('the storage is full')
    expect(await kept.read('index.html')).toBe('kept')
    expect(await readdir(join(disk, 'cas', 'incoming'))).toEqual([])
    expect((await builder.build({ 'index.html': 'again' })).outcome).toBe('built')
  })
})
