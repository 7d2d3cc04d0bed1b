import { access, mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { removeUnusedCode } from '../../infra/local/unused-cache.ts'

test('compiled code and bundles that nothing has used for 30 days are removed, and nothing else', async () => {
  const cache = await mkdtemp(join(tmpdir(), 'plinth-cache-'))
  try {
    const now = new Date('2026-06-01T00:00:00Z')
    const daysAgo = (days: number) => new Date(now.getTime() - days * 24 * 60 * 60 * 1000)
    const files = {
      'compiled/v24-x64/old': [31, 31],
      'compiled/v24-x64/read lately': [1, 31],
      'workflows/old.js': [40, 40],
      'workflows/new.js': [2, 2],
      'code/old/main.js': [40, 40],
      'code/old/chunks/a.js': [31, 40],
      'code/removed by half.removed/chunks/a.js': [40, 40],
      'code/used/main.js': [1, 40],
      'code/used/chunks/unread.js': [40, 40],
      'toolchains/old': [400, 400],
    } as const
    for (const [path, [readDays, writtenDays]] of Object.entries(files)) {
      await mkdir(join(cache, path, '..'), { recursive: true })
      await writeFile(join(cache, path), 'x')
      await utimes(join(cache, path), daysAgo(readDays), daysAgo(writtenDays))
    }
    for (const version of ['old', 'used', 'removed by half.removed'])
      await utimes(join(cache, 'code', version), daysAgo(40), daysAgo(40))
    await removeUnusedCode(cache, now)
    const left = (await readdir(cache, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
    expect(left.map(({ name }) => name).sort()).toEqual(['last-clean-up', 'main.js', 'new.js', 'old', 'read lately', 'unread.js'])
    expect(await readdir(join(cache, 'code'))).toEqual(['used'])
    await removeUnusedCode(join(cache, 'missing'), now)
  } finally {
    await rm(cache, { recursive: true })
  }
})

test('the cache is looked through once a day, however often the platform is started', async () => {
  const cache = await mkdtemp(join(tmpdir(), 'plinth-cache-'))
  try {
    const file = join(cache, 'workflows', 'old.js')
    const begun = new Date('2026-06-01T00:00:00Z').getTime()
    const isLeftAfter = async (hours: number) => {
      await mkdir(join(cache, 'workflows'), { recursive: true })
      await writeFile(file, 'x')
      await utimes(file, new Date(0), new Date(0))
      await removeUnusedCode(cache, new Date(begun + hours * 60 * 60 * 1000))
      return await access(file).then(
        () => true,
        () => false,
      )
    }
    expect(await isLeftAfter(0)).toBe(false)
    expect(await isLeftAfter(1)).toBe(true)
    expect(await isLeftAfter(23)).toBe(true)
    expect(await isLeftAfter(25)).toBe(false)
    // the clock was wrong, and is set right
    expect(await isLeftAfter(-100)).toBe(false)
  } finally {
    await rm(cache, { recursive: true })
  }
})
