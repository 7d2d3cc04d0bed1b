import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Phase } from '../../runner/build-context.ts'
import { openFilesBelow } from '../../runner/sandbox/workspace.ts'
import { tarGz } from '../infra/archives.ts'
import { expectIsolation, nodePackage, openBuilder, writes } from './builder.ts'

const MiB = 1024 * 1024
const deadlineMs = 25
// permitted, and each read in one piece, which takes 50 ms on a quick machine
const hugeLock = `# yarn lockfile v1\n${'"@"'.repeat((31 * MiB) / 3)}`
const packageJson = nodePackage(writes('dist/index.html'))['package.json'] as string

/** A site of many small files. */
const siteOf = (files: number) =>
  tarGz(Array.from({ length: files }, (_, i) => ({ name: i === 0 ? 'index.html' : `${i % 50}/${i}.html`, data: `<p>${i}` })))

let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder({ reading: { deadlineMs } })
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder[Symbol.asyncDispose]())

test('1: a source that takes too long to read fails its own deploy, once and with a text, and no other', async () => {
  const other = builder.build({ 'index.html': 'beside' })
  const files = { 'yarn.lock': hugeLock, 'site/yarn.lock': hugeLock, 'site/package.json': packageJson }
  const slow = await builder.build(files, { settings: { root_dir: 'site' } })
  expect(slow).toMatchObject({
    outcome: 'failed',
    build_mode: 'build',
    error:
      'reading the lock file and the settings of the package manager took more than 0.025 seconds of processor time; look for files, names or lines that are unusually long or deeply nested, and leave them out',
  })
  expect(slow.build_seconds).toBe(1)
  expect(slow.log).toBe(`unpacked 3 files\nfailed: ${slow.error}\n`)
  expect((await other).outcome).toBe('built')
  expect((await builder.build({ 'index.html': 'afterwards' })).outcome).toBe('built')
  expect(await builder.leftovers()).toEqual([])
})

// a source of two files takes 10 ms, and 64 KiB of lines that may hold a secret take 50 ms, or half as long on a quick machine. A busy one may
// take longer for the source, which is then what the build fails for
test('1: output of a build that takes too long to read stops the build', { retry: 2 }, async () => {
  await using hasty = await openBuilder({ reading: { deadlineMs: 15 } })
  const program = "process.stdout.write('eyJ\\n'.repeat(2 * 1024 * 1024)); setTimeout(() => {}, 600000)"
  const built = await hasty.build(nodePackage(program))
  expect(built.error).toMatch(/^reading the output of the build took more than 0\.015 seconds of processor time;/)
  expect(built.log).toMatch(/\nfailed: reading the output of the build/)
})

test('1: reading a large source costs the thread that serves other builds little', async () => {
  await using patient = await openBuilder()
  const at: Partial<Record<Phase, { own: number; all: number }>> = {}
  const built = await patient.build(siteOf(2000), {
    onPhase(phase) {
      at[phase] = { own: process.threadCpuUsage().user, all: process.cpuUsage().user }
    },
  })
  const spent = (kind: 'own' | 'all') => (at.collect?.[kind] ?? Number.NaN) - (at.unpack?.[kind] ?? Number.NaN)
  expect(built.outcome).toBe('built')
  expect(spent('own')).toBeLessThan(spent('all') / 4)
})

test('1: deploys that are cancelled while their source is read end then, and leave no open file', async () => {
  // the reading of so many files can take longer than the deadline of the other tests
  await using patient = await openBuilder()
  const archive = siteOf(5000)
  for (const afterMs of [0, 20, 40, 80, 160]) {
    const stop = new AbortController()
    const reading = patient.build(archive, {
      signal: stop.signal,
      onPhase(phase) {
        if (phase === 'unpack') setTimeout(() => stop.abort(new Error('cancelled')), afterMs)
      },
    })
    await expect(reading).rejects.toThrow('cancelled')
  }
  expect(await patient.leftovers()).toEqual([])
  expect(openFilesBelow(patient.config.build.dir)).toEqual([])
  expect((await patient.build({ 'index.html': 'afterwards' })).outcome).toBe('built')
})

test('B06: a package description above the project is read only when it is small', async () => {
  const above = JSON.stringify({ keywords: 'x'.repeat(2 * MiB) })
  const files = { 'package.json': above, 'site/package.json': packageJson }
  const built = await builder.build(files, { settings: { root_dir: 'site' } })
  expect(built.error).toBe('package.json is larger than 1 MB; that is no package description')
})
