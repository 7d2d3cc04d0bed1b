import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hostileArchives } from '../../infra/hostile-archives.ts'
import { openBuilder } from '../builder.ts'

const MiB = 1024 * 1024
let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder({ env: { PLINTH_BUILD_BWRAP: '/nonexistent/bwrap' } })
})
afterAll(() => builder?.[Symbol.asyncDispose]())

test.each(hostileArchives)('D01 D02 V13 V14: $name', async ({ bytes, expected, kept }) => {
  const archive = bytes()
  const before = process.memoryUsage().rss
  const built = await builder.build(archive)
  const outcome = built.outcome === 'built' ? `built ${built.paths.join()} without ${built.skipped_paths.join()}` : built.error
  if (expected instanceof RegExp) {
    expect(outcome).toMatch(expected)
    if (!kept) expect(built.outcome).toBe('failed')
  } else {
    expect(outcome).toMatch(/^built /)
    expect([...built.skipped_paths].sort()).toEqual([...expected].sort())
    expect(built.paths).toEqual(['index.html', ...(kept ?? [])].sort())
    expect(await built.read('index.html')).toBe('<p>')
  }
  expect(outcome).not.toMatch(/plinth-runner|undefined|\[object/)
  expect(process.memoryUsage().rss - before).toBeLessThan(250 * MiB)
  expect(await builder.leftovers()).toEqual([])
  expect(await readdir(join(builder.config.build.dir))).toEqual(expect.not.arrayContaining([expect.stringContaining('evil')]))
})
