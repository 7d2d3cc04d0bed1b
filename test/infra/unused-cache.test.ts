import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
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
    expect(left.map(({ name }) => name).sort()).toEqual(['main.js', 'new.js', 'old', 'read lately', 'unread.js'])
    expect(await readdir(join(cache, 'code'))).toEqual(['used'])
    await removeUnusedCode(join(cache, 'missing'), now)
  } finally {
    await rm(cache, { recursive: true })
  }
})
