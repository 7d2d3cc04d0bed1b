import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'

const run = promisify(execFile)
const source = join(import.meta.dirname, 'bundled-program.ts')
const local = join(import.meta.dirname, '../../infra/local')

const cache = await mkdtemp(join(tmpdir(), 'plinth-bundle-'))
afterAll(() => rm(cache, { recursive: true }))
const bundle = (folder: string) => run(process.execPath, [join(local, 'bundle-code.ts'), source, folder])

test('a bundle does what the sources do, and its errors name the sources', async () => {
  const folder = join(cache, 'code', 'version')
  await bundle(folder)
  const { stdout } = await run(process.execPath, ['--import', join(local, 'source-maps.mjs'), join(folder, 'main.mjs')])
  const { stack, ...said } = JSON.parse(stdout) as { stack: string }
  expect(said).toEqual({ fromThread: 'from a thread', ownLength: (await readFile(source, 'utf8')).length, text: 'größer 🚫' })
  expect(stack).toMatch(/at fail \(.*\/test\/infra\/bundled-program\.ts:16:10\)/)
})

test('two starts that bundle at the same time end with one whole bundle', async () => {
  await Promise.all([bundle(join(cache, 'twice')), bundle(join(cache, 'twice'))])
  expect((await readdir(cache)).filter((name) => name.startsWith('twice'))).toEqual(['twice'])
  expect(await readdir(join(cache, 'twice'))).toContain('main.mjs')
})
