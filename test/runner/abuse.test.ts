import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectIsolation, nodePackage, openBuilder, processesWith, writes } from './builder.ts'

const MiB = 1024 * 1024
let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder({ limits: { tree: { maxBytes: 64 * MiB, maxFiles: 5000 }, outputBytes: 30 * MiB, processes: 128 } })
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder[Symbol.asyncDispose]())

describe('an abusive build', () => {
  const marker = '4242.3'

  test.each<[string, string, RegExp, number?]>([
    [
      'takes all memory',
      `const all = []; for (;;) all.push(Buffer.alloc(16 * ${MiB}, 1))`,
      /^npm run build ran out of memory: a build has 384 MB/,
    ],
    [
      'fills the heap',
      `const all = []; for (;;) all.push(new Array(1e6).fill({}))`,
      /^npm run build (ran out of memory: a build has 384 MB|failed with exit code \d+: it ran out of memory)/,
    ],
    [
      'fills /dev/shm and /tmp',
      `${writes('/tmp/x')} for (const d of ['/dev/shm', '/tmp']) for (let i = 0; i < 40; i++) fs.writeFileSync(d + '/' + i, Buffer.alloc(16 * ${MiB}, 1))`,
      /^npm run build (ran out of memory|failed with exit code \d+: it ran out of space)/,
    ],
    [
      'never ends',
      `setInterval(() => undefined, 1000)`,
      /^npm run build was stopped because the build took longer than 3 seconds/,
      3000,
    ],
    ['spins', `for (;;);`, /^npm run build was stopped because the build took longer than 3 seconds/, 3000],
    [
      'is a fork bomb',
      `require('node:child_process').spawnSync('sh', ['-c', 'f() { f | f & }; f; sleep ${marker}'], { stdio: 'ignore' })`,
      /^npm run build /,
      4000,
    ],
    [
      'prints without end',
      `const text = 'y'.repeat(65536) + '\\n'; for (;;) require('node:fs').writeSync(1, text)`,
      /^npm run build was stopped because it wrote more than 1 GB of output/,
    ],
    [
      'fills the disk',
      `${writes('x')} for (let i = 0; ; i++) fs.appendFileSync('big' + (i % 3), Buffer.alloc(${MiB}, i))`,
      /^npm run build was stopped because the build wrote more than 2 GB or 200,000 files/,
    ],
    [
      'makes files without end',
      `${writes('x')} for (let i = 0; ; i++) fs.writeFileSync('f' + i, '')`,
      /^npm run build was stopped because the build wrote more than 2 GB or 200,000 files/,
    ],
    [
      'leaves folders that nobody may enter',
      `${writes('dist/index.html')} fs.mkdirSync('shut/in', { recursive: true }); fs.chmodSync('shut', 0); process.exit(9)`,
      /^npm run build failed with exit code 9/,
    ],
    ['kills everything it can', `process.kill(-1, 'SIGKILL')`, /^npm run build /],
  ])('B06: that %s fails with a clear text', async (_name, program, message, timeoutMs = 40_000) => {
    const built = await builder.build(nodePackage(program), { timeoutMs })
    expect(built.error).toMatch(message)
    expect(await processesWith(marker)).toEqual([])
    expect(await builder.leftovers()).toEqual([])
    // the runner works on
    expect((await builder.build({ 'index.html': 'x' })).outcome).toBe('built')
  })

  test('a daemon ends with its build, and a tree deeper than any path is removed', async () => {
    const program = `${writes('dist/index.html')}
      require('node:child_process').spawn('setsid', ['sleep', '${marker}'], { detached: true, stdio: 'inherit' }).unref()
      for (let i = 0; i < 3000; i++) { fs.mkdirSync('deep_deep_deep'); process.chdir('deep_deep_deep') }`
    const built = await builder.build(nodePackage(program))
    expect(built).toMatchObject({ outcome: 'built', paths: ['index.html'] })
    expect(await processesWith(marker)).toEqual([])
    expect(await builder.leftovers()).toEqual([])
  })

  test('two builds at once do not disturb each other', async () => {
    const calm = builder.build(nodePackage(`${writes('dist/index.html')} setTimeout(() => undefined, 1500)`))
    const wild = builder.build(nodePackage(`const all = []; for (;;) all.push(Buffer.alloc(16 * ${MiB}, 1))`))
    expect((await wild).outcome).toBe('failed')
    expect((await calm).outcome).toBe('built')
  })

  test('a cancelled build rejects, and leaves nothing behind', async () => {
    const cancel = new AbortController()
    const running = builder.build(nodePackage(`require('node:child_process').spawnSync('sleep', ['${marker}'])`), {
      signal: cancel.signal,
    })
    await expect.poll(() => processesWith(marker), { timeout: 20_000 }).not.toEqual([])
    cancel.abort(new Error('cancelled'))
    await expect(running).rejects.toThrow('cancelled')
    expect(await processesWith(marker)).toEqual([])
    expect(await builder.leftovers()).toEqual([])
  })
})

test('no cgroup is left when the runner closes', async () => {
  const other = await openBuilder()
  const name = `plinth-${createHash('sha256').update(other.config.build.dir).digest('hex').slice(0, 12)}`
  const ours = async () => {
    const paths = await readdir('/sys/fs/cgroup', { recursive: true }).catch(() => [])
    return paths.filter((path) => path.endsWith(name))
  }
  if (other.sandbox.status.cgroup !== 'none') expect(await ours()).not.toEqual([])
  await other.build(nodePackage(writes('dist/index.html')))
  await other[Symbol.asyncDispose]()
  expect(await ours()).toEqual([])
})
