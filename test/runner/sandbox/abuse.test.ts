import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BuildFiles, expectIsolation, nodeBuild, nodePackage, openBuilder, processesWith, writes } from '../builder.ts'

const MiB = 1024 * 1024
let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder({ limits: { tree: { maxBytes: 64 * MiB, maxFiles: 5000 }, outputBytes: 30 * MiB, processes: 128 } })
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder[Symbol.asyncDispose]())

/** Processes of the builds' users, and cgroups, mounts and sockets below the folder of builds. */
async function remains(): Promise<string[]> {
  const { dir } = builder.config.build
  const found: string[] = []
  const uids = new Set<string>()
  {
    await using one = await builder.slots.acquire()
    await using two = await builder.slots.acquire()
    for (const { uid } of [one, two]) if (uid !== undefined) uids.add(String(uid))
  }
  for (const pid of await readdir('/proc')) {
    const status = /^\d+$/.test(pid) ? await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '') : ''
    const uid = /^Uid:\t(\d+)/m.exec(status)?.[1] ?? ''
    // a zombie waits for process 1 and holds nothing
    if (!uids.has(uid) || /^State:\t[ZX]/m.test(status)) continue
    // one folder of builds in 128 has the same users: a test beside this one may build there
    const cgroup = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')
    if (cgroup.includes('plinth-') && !cgroup.includes(cgroupName(dir))) continue
    found.push(`process ${pid} of ${uid}`)
  }
  for (const file of ['/proc/mounts', '/proc/net/unix']) {
    const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line.includes(dir))
    found.push(...lines)
  }
  const name = cgroupName(dir)
  for (const path of await readdir('/sys/fs/cgroup', { recursive: true }).catch(() => [])) {
    if (path.includes(`${name}/run-`)) found.push(path)
  }
  return found
}

const cgroupName = (dir: string) => `plinth-${createHash('sha256').update(dir).digest('hex').slice(0, 12)}`

/** Abuses at install, as a package of somebody else would. */
const abusiveInstall = (program: string) =>
  nodeBuild(program, { 'plinth.json': JSON.stringify({ build: { install_command: 'node build.cjs', build_command: 'exit 0' } }) })

/** The same in a script that npm runs. */
const abusivePackage = (program: string) => ({
  ...nodePackage(program),
  'package.json': JSON.stringify({ name: 'x', version: '1.0.0', scripts: { preinstall: 'node build.cjs', build: 'exit 0' } }),
})

describe('an abusive build', () => {
  const marker = '4242.3'

  const fails = async (files: BuildFiles, message: RegExp, timeoutMs = 40_000) => {
    const built = await builder.build(files, { timeoutMs })
    expect(built.error).toMatch(message)
    expect(await processesWith(marker)).toEqual([])
    expect(await builder.leftovers()).toEqual([])
    expect(await remains()).toEqual([])
    // the runner works on
    expect((await builder.build({ 'index.html': 'x' })).outcome).toBe('built')
  }

  test.each<[string, string, RegExp, number?]>([
    [
      'takes all memory',
      `const all = []; for (;;) all.push(Buffer.alloc(16 * ${MiB}, 1))`,
      /^npm ci ran out of memory: a build has 384 MB/,
    ],
    [
      'ends its npm and the relay and runs on',
      `const fs = require('node:fs'), { spawn } = require('node:child_process')
      spawn('setsid', ['sleep', '${marker}'], { detached: true, stdio: 'inherit' })
      for (const pid of fs.readdirSync('/proc').map(Number).filter((pid) => pid > 1 && pid !== process.pid)) { try { process.kill(pid, 'SIGKILL') } catch {} }
      for (;;);`,
      /^npm ci /,
      10_000,
    ],
  ])('B06: that %s in a script of npm fails with a clear text', async (_name, program, message, timeoutMs) => {
    await fails(abusivePackage(program), message, timeoutMs)
  })

  test.each<[string, string, RegExp, number?]>([
    [
      'fills the heap',
      `const all = []; for (;;) all.push(new Array(1e6).fill({}))`,
      /^node build.cjs (ran out of memory: a build has 384 MB|failed with exit code \d+: it ran out of memory)/,
    ],
    [
      'fills /dev/shm and /tmp',
      `${writes('/tmp/x')} for (const d of ['/dev/shm', '/tmp']) for (let i = 0; i < 40; i++) fs.writeFileSync(d + '/' + i, Buffer.alloc(16 * ${MiB}, 1))`,
      /^node build.cjs (ran out of memory|failed with exit code \d+: it ran out of space)/,
    ],
    [
      'never ends',
      `setInterval(() => undefined, 1000)`,
      /^node build.cjs was stopped because the build took longer than 3 seconds/,
      3000,
    ],
    ['spins', `for (;;);`, /^node build.cjs was stopped because the build took longer than 3 seconds/, 3000],
    [
      'is a fork bomb',
      `require('node:child_process').spawnSync('sh', ['-c', 'f() { f | f & }; f; sleep ${marker}'], { stdio: 'ignore' }); process.exit(3)`,
      /^node build.cjs /,
      4000,
    ],
    [
      'prints without end',
      `const text = 'y'.repeat(65536) + '\\n'; for (;;) require('node:fs').writeSync(1, text)`,
      /^node build.cjs was stopped because it wrote more than 1 GB of output/,
    ],
    [
      'fills the disk',
      `${writes('x')} for (let i = 0; ; i++) fs.appendFileSync('big' + (i % 3), Buffer.alloc(${MiB}, i))`,
      /^node build.cjs was stopped because the build wrote more than 2 GB or 200,000 files/,
    ],
    [
      'makes files without end',
      `${writes('x')} for (let i = 0; ; i++) fs.writeFileSync('f' + i, '')`,
      /^node build.cjs was stopped because the build wrote more than 2 GB or 200,000 files/,
    ],
    [
      'leaves folders that nobody may enter',
      `${writes('dist/index.html')} fs.mkdirSync('shut/in', { recursive: true }); fs.chmodSync('shut', 0); process.exit(9)`,
      /^node build.cjs failed with exit code 9/,
    ],
    ['kills everything it can', `process.kill(-1, 'SIGKILL')`, /^node build.cjs /],
    [
      'takes 2 GiB in a typed array',
      `const all = new Float64Array(2 ** 28); all.fill(1); setInterval(() => all.reverse(), 1)`,
      /^node build.cjs (ran out of memory|failed with exit code \d+)/,
    ],
    [
      'hides what it writes below a path longer than any',
      `const fs = require('node:fs')
      for (let i = 0; i < 400; i++) { fs.mkdirSync('deep_deep_deep'); process.chdir('deep_deep_deep') }
      for (let i = 0; ; i++) fs.appendFileSync('big' + (i % 3), Buffer.alloc(${MiB}, i))`,
      /^node build.cjs was stopped because the build wrote more than 2 GB or 200,000 files/,
    ],
    [
      'makes a sparse file of 10 GB',
      `${writes('dist/index.html')} fs.writeFileSync('dist/big', 'x'); fs.truncateSync('dist/big', 10 * 1024 * ${MiB})`,
      /^node build.cjs (failed with exit code|was ended by a signal)/,
    ],
    [
      'opens files without end',
      `const fs = require('node:fs'); for (;;) fs.openSync('/dev/null')`,
      /^node build.cjs (failed with exit code|ran out of memory)/,
    ],
    [
      'prints one line without end',
      `const text = 'y'.repeat(65536); for (;;) require('node:fs').writeSync(1, text)`,
      /^node build.cjs was stopped because it wrote more than 1 GB of output/,
    ],
    [
      'prints terminal sequences, control characters and half characters',
      `const fs = require('node:fs'); for (let i = 0; i < 3000; i++) fs.writeSync(1, Buffer.from('\\x1b]0;' + 'x'.repeat(1000) + '\\x1b[2J\\r\\0\\u2028\\xff')); process.exit(3)`,
      /^node build.cjs failed with exit code 3/,
    ],
    [
      'ignores every signal it may',
      `for (const name of Object.keys(require('node:os').constants.signals)) { try { process.on(name, () => undefined) } catch {} } setInterval(() => undefined, 1000)`,
      /^node build.cjs was stopped because the build took longer than 3 seconds/,
      3000,
    ],
    [
      'starts programs with as many arguments and variables as fit',
      `const { spawnSync } = require('node:child_process')
      const env = Object.fromEntries(Array.from({ length: 10 }, (_, i) => ['V' + i, 'x'.repeat(120_000)]))
      for (let i = 0; i < 50; i++) spawnSync('true', Array(8).fill('y'.repeat(100_000)), { env })
      const { error } = spawnSync('true', ['z'.repeat(4_000_000)]); console.log(error.code); process.exit(4)`,
      /^node build.cjs failed with exit code 4/,
    ],
    [
      'starts threads without end',
      `const { Worker } = require('node:worker_threads'); const go = () => { new Worker('setInterval(() => 0, 1000)', { eval: true }).on('online', go).on('error', go); }; go()`,
      /^node build.cjs /,
      15_000,
    ],
    [
      'fills pipes and sockets',
      `const net = require('node:net'); net.createServer((s) => s.pause()).listen('/tmp/s', () => { for (let i = 0; i < 100; i++) { const s = net.connect('/tmp/s'); const go = () => { while (s.write(Buffer.alloc(65536))); }; s.on('error', () => 0).on('drain', go).on('connect', go) } setInterval(() => net.connect('/tmp/s').on('error', () => 0), 1) })`,
      /^node build.cjs /,
      5000,
    ],
  ])('B06: that %s fails with a clear text', async (_name, program, message, timeoutMs) => {
    await fails(abusiveInstall(program), message, timeoutMs)
  })

  /** At the install, so that the sandbox of the build has to start in what it leaves, and once more at the end of the build. */
  const spoils = (script: string) => ({
    install_command: script,
    build_command: `rm -rf dist; mkdir dist && echo hi > dist/index.html; ${script}`,
  })

  test.each<[string, string, RegExp]>([
    ['shuts its own folders', 'chmod 000 /build /home/build', /^$/],
    ['shuts the folder of its output', 'mkdir -p dist; chmod 000 dist', /^$|^dist has no index.html/],
    ['removes everything', 'rm -rf /build/* /build/.[!.]* /home/build/*', /^the build wrote none/],
    ['puts a link in the place of its output', 'rm -rf dist; ln -s /etc dist', /^the build wrote none/],
    ['puts a circle of links in the place of its output', 'rm -rf dist; ln -s dist dist', /^the build wrote none/],
    ['puts a file in the place of its output', 'rm -rf dist; echo x > dist', /^the build wrote none/],
    [
      'leaves an output of pipes and links only',
      'rm -rf dist; mkdir dist; mkfifo dist/index.html; ln -s / dist/a',
      /index\.html/,
    ],
    ['makes names that are no text', "mkdir -p dist; touch dist/$(printf '\\377\\376')", /^$/],
    [
      'closes its files to everybody',
      'mkdir -p dist; touch dist/x; chmod 000 dist/*; chmod 500 dist',
      /^$|^dist has no index.html/,
    ],
  ])('B06: what a build that %s leaves is its own fault, in one attempt that is charged', async (_name, script, message) => {
    const built = await builder.build({ 'index.txt': 'x' }, { settings: spoils(script) })
    expect(built.error).toMatch(message)
    expect(built.error).not.toMatch(/\/(?:tmp|var|proc)\/|plinth-runner/)
    expect(built.build_seconds).toBeGreaterThan(0)
    expect(await remains()).toEqual([])
  })

  test('a build whose own folder is gone after the install is told so', async () => {
    const built = await builder.build(
      { 'web/package.json': '{}', 'index.html': 'x' },
      { settings: { root_dir: 'web', ...spoils('rm -rf /build/web') } },
    )
    expect(built.error).toMatch(/failed with exit code 127[\s\S]*the folder web is gone, or shut/)
  })

  test('a daemon ends with its build, and a tree deeper than any path is removed', async () => {
    const program = `${writes('dist/index.html')}
      require('node:child_process').spawn('setsid', ['sleep', '${marker}'], { detached: true, stdio: 'inherit' }).unref()
      for (let i = 0; i < 3000; i++) { fs.mkdirSync('deep_deep_deep'); process.chdir('deep_deep_deep') }`
    const built = await builder.build(nodeBuild(program))
    expect(built).toMatchObject({ outcome: 'built', paths: ['index.html'] })
    expect(await processesWith(marker)).toEqual([])
    expect(await builder.leftovers()).toEqual([])
  })

  test('a build that writes to the report of its runner fools itself only', async () => {
    // the relay's third descriptor: what it says of the commands
    const forge = (lines: string, end: string) => `${writes('dist/index.html')}
      for (const pid of fs.readdirSync('/proc').filter(Number)) { try { const report = fs.openSync('/proc/' + pid + '/fd/3', 'w'); fs.writeSync(report, ${JSON.stringify(lines)}) } catch {} }
      ${end}`
    const claims = await builder.build(nodeBuild(forge('{"code":0}\n', 'process.exit(7)')))
    expect(claims.error).toMatch(/^node build.cjs failed with exit code 7/)
    const floods = await builder.build(nodeBuild(forge(`${'x'.repeat(60_000)}{"code":0}{"started":true}`, 'process.exit(7)')))
    expect(floods.error).toMatch(/^node build.cjs /)
    const garbage = await builder.build(nodeBuild(forge('{"code":999999}{"code":"x"}\0', '')))
    expect(garbage.error === '' || garbage.error.startsWith('node build.cjs ')).toBe(true)
    expect(await remains()).toEqual([])
  })

  test('a stopped build is cleaned up soon, however many processes and files it has', async () => {
    const bomb = `${writes('x')} for (let i = 0; i < 4000; i++) fs.writeFileSync('f' + i, 'x')
      for (let i = 0; i < 100; i++) require('node:child_process').spawn('sleep', ['${marker}'])
      for (;;);`
    const began = performance.now()
    const built = await builder.build(nodeBuild(bomb), { timeoutMs: 6000 })
    expect(built.error).toMatch(/took longer than 6 seconds/)
    // a second or less on an idle machine
    expect(performance.now() - began).toBeLessThan(6000 + 10_000)
    expect(await processesWith(marker)).toEqual([])
    expect(await remains()).toEqual([])
  })

  test('two builds at once do not disturb each other', async () => {
    const calm = builder.build(nodeBuild(`${writes('dist/index.html')} setTimeout(() => undefined, 1500)`))
    const wild = builder.build(nodeBuild(`const all = []; for (;;) all.push(Buffer.alloc(16 * ${MiB}, 1))`))
    expect((await wild).outcome).toBe('failed')
    expect((await calm).outcome).toBe('built')
  })

  test('a cancelled build rejects, and leaves nothing behind', async () => {
    const cancel = new AbortController()
    const running = builder.build(nodeBuild(`require('node:child_process').spawnSync('sleep', ['${marker}'])`), {
      signal: cancel.signal,
    })
    await expect.poll(() => processesWith(marker)).not.toEqual([])
    cancel.abort(new Error('cancelled'))
    await expect(running).rejects.toThrow('cancelled')
    expect(await processesWith(marker)).toEqual([])
    expect(await builder.leftovers()).toEqual([])
  })
})

test('no cgroup is left when the runner closes', async () => {
  const other = await openBuilder()
  const name = cgroupName(other.config.build.dir)
  const ours = async () => {
    const paths = await readdir('/sys/fs/cgroup', { recursive: true }).catch(() => [])
    return paths.filter((path) => path.endsWith(name))
  }
  if (other.sandbox.status.cgroup !== 'none') expect(await ours()).not.toEqual([])
  await other.build(nodeBuild(writes('dist/index.html')))
  await other[Symbol.asyncDispose]()
  expect(await ours()).toEqual([])
})
