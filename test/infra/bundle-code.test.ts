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
const bundle = (folder: string, ...flags: string[]) =>
  run(process.execPath, [...flags, join(local, 'bundle-code.ts'), source, folder])

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

/** Says on standard output what is flushed, and when a folder gets its name. */
const tracing = `
import fs, { readlinkSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
const say = (line) => process.stdout.write(line + '\\n')
const handle = await fs.promises.open(process.execPath)
const { sync } = Object.getPrototypeOf(handle)
Object.getPrototypeOf(handle).sync = function () {
  say('flush ' + readlinkSync('/proc/self/fd/' + this.fd))
  return sync.call(this)
}
await handle.close()
const { rename } = fs.promises
fs.promises.rename = (from, to) => {
  say('rename ' + from)
  return rename(from, to)
}
syncBuiltinESMExports()`

test.skipIf(process.platform !== 'linux')('a bundle is on the disk before it gets its name', async () => {
  const folder = join(cache, 'flushed')
  const { stdout } = await bundle(folder, '--import', `data:text/javascript,${encodeURIComponent(tracing)}`)
  const lines = stdout.trim().split('\n')
  const temporary = lines.at(-1)?.replace('rename ', '') ?? ''
  const made = await readdir(folder, { recursive: true })
  expect(made).toContain('main.mjs')
  expect(lines.slice(0, -1).sort()).toEqual(['', ...made].map((name) => `flush ${join(temporary, name)}`).sort())
})
