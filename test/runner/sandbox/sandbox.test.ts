import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLogger } from '../../../infra/log.ts'
import { openSandbox } from '../../../runner/sandbox/sandbox.ts'
import { openWorkspace } from '../../../runner/sandbox/workspace.ts'
import { expectIsolation, nodeBuild, openBuilder, processesWith } from '../builder.ts'

const isRoot = process.getuid?.() === 0
const canary = `canary-${process.pid}`

let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  process.env.PLINTH_TEST_CANARY = canary
  builder = await openBuilder()
  expectIsolation(builder.sandbox.status)
})
afterAll(async () => {
  delete process.env.PLINTH_TEST_CANARY
  await builder[Symbol.asyncDispose]()
})

/** Runs one line of shell inside and returns what it printed. */
async function inside(script: string): Promise<string> {
  await using slot = await builder.slots.acquire()
  await using workspace = await openWorkspace(builder.config.build.dir, slot)
  const output: Buffer[] = []
  await builder.sandbox.run({
    workspace,
    slot,
    commands: [['sh', '-c', script]],
    timeoutMs: 20_000,
    signal: new AbortController().signal,
    onOutput: (chunk) => output.push(chunk),
    onNotice: (line) => output.push(Buffer.from(`${line}\n`)),
  })
  const printed = Buffer.concat(output).toString()
  return printed.slice(printed.indexOf(script) + script.length).trim()
}

test('the self-test publishes the level that was reached', async () => {
  const { status } = builder.sandbox
  expect(status).toMatchObject({ level: isRoot ? 'A' : "A'", builds: true })
  expect(JSON.parse(await readFile(join(builder.config.build.dir, 'status.json'), 'utf8'))).toEqual(status)
})

test('without bubblewrap builds are refused, and static archives still published', async () => {
  await using poor = await openBuilder({ env: { PLINTH_BUILD_BWRAP: '/nonexistent/bwrap' } })
  expect(poor.sandbox.status).toMatchObject({
    level: 'none',
    builds: false,
    problems: expect.arrayContaining(['bubblewrap (/nonexistent/bwrap) is not installed']),
  })
  const built = await poor.build({ 'package.json': '{"scripts":{"build":"true"}}' })
  expect(built).toMatchObject({
    outcome: 'failed',
    build_seconds: 0,
    error: expect.stringMatching(/^this server cannot run builds at present/),
  })
  expect(await poor.build({ 'index.html': 'hi' })).toMatchObject({ outcome: 'built', build_mode: 'static' })
})

test('without bubblewrap and with unsafe, builds run as a bare process and still leave nothing behind', async () => {
  await using unsafe = await openBuilder({ env: { PLINTH_BUILD_BWRAP: '/nonexistent/bwrap', PLINTH_BUILD_SANDBOX: 'unsafe' } })
  expect(unsafe.sandbox.status).toMatchObject({ level: isRoot ? 'B' : 'none', builds: true })
  const program = `
    require('node:child_process').spawn('sleep', ['4242.1'], { detached: true, stdio: 'inherit' }).unref()
    require('node:fs').mkdirSync('dist'); require('node:fs').writeFileSync('dist/index.html', Object.keys(process.env).join())`
  const built = await unsafe.build(nodeBuild(program))
  expect(built.error).toBe('')
  expect(await built.read('index.html')).not.toContain('PLINTH')
  expect(await processesWith('4242.1')).toEqual([])
})

describe('a build', () => {
  test('runs as a user without groups, capabilities, or a way to gain them', async () => {
    const status = await inside('cat /proc/self/status')
    expect(status).toMatch(/^Uid:\t1000\t1000\t1000\t1000$/m)
    if (isRoot) expect(status).toMatch(/^Groups:\t *$/m)
    expect(status).toMatch(/^CapPrm:\t0+$/m)
    expect(status).toMatch(/^CapEff:\t0+$/m)
    expect(status).toMatch(/^CapBnd:\t0+$/m)
    expect(status).toMatch(/^NoNewPrivs:\t1$/m)
  })

  test('is another user than the runner outside, and another in each slot', async () => {
    await using one = await builder.slots.acquire()
    await using two = await builder.slots.acquire()
    expect(one.uid === undefined ? !isRoot : one.uid >= 20_000 && two.uid !== one.uid).toBe(true)
  })

  test('sees nothing of the environment of the runner', async () => {
    const seen = await inside('env; cat /proc/*/environ | tr "\\0" "\\n"')
    expect(seen).toContain('HOME=/home/build')
    expect(seen).not.toContain(canary)
    expect(seen).not.toMatch(/PLINTH_|_auth|TOKEN/)
  })

  test('sees only its own processes, and may signal no other', async () => {
    const seen = await inside('ls /proc | grep -cE "^[0-9]+$"; hostname; kill -9 -1 2>/dev/null')
    const [count, host] = seen.split('\n')
    expect(Number(count)).toBeLessThan(12)
    expect(host).toBe('build')
  })

  test('finds no path of the host in what the kernel says of its processes', async () => {
    const said = await inside(
      'for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline; tr "\\0" " " < $p/environ; ls -l $p/cwd $p/root $p/fd; done 2>/dev/null; echo end',
    )
    const { dir } = builder.config.build
    expect(said).toMatch(/bwrap --args 7 -- [\s\S]*end$/)
    for (const path of [dir, dirname(builder.config.build.bwrap), builder.config.build.toolchainDir])
      expect(said).not.toContain(path)
  })

  test('finds none of the folders of the host', async () => {
    await mkdir(builder.config.dataDir, { recursive: true })
    await writeFile(join(builder.config.dataDir, 'operator-token'), canary)
    const { dataDir, build } = builder.config
    const seen = await inside(
      `ls -a / /home /usr/local; cat ${dataDir}/operator-token /etc/shadow ${build.dir}/status.json /root/.npmrc`,
    )
    expect(seen).not.toContain(canary)
    expect(seen.match(/No such file/g)).toHaveLength(4)
    const [root = ''] = seen.split('\n\n')
    expect(
      root
        .split('\n')
        .slice(3)
        .filter((name) => !/^(bin|sbin|lib\w*|usr|etc|proc|dev|tmp|opt|home|build)$/.test(name)),
    ).toEqual([])
    expect(seen).toMatch(/\/home:\n\.\n\.\.\nbuild/)
  })

  test('writes to its own folders and nowhere else', async () => {
    const seen = await inside(
      'for d in / /dev /usr /etc /opt /opt/node/bin /opt/plinth /run /home /proc/sys/kernel /sys/fs/cgroup; do touch $d/x 2>/dev/null && echo "wrote $d"; done; ' +
        'for d in . ~ /tmp /dev/shm; do touch $d/x && echo "own"; done; echo x > /etc/passwd; rm -rf /opt/node/bin/node; node -e 1 && echo alive',
    )
    expect(seen).not.toContain('wrote')
    expect(seen.match(/^own$/gm)).toHaveLength(4)
    expect(seen).toContain('alive')
  })

  test('cannot nest namespaces, mount, or trace its init', async () => {
    const seen = await inside(
      'unshare -U true && echo bad; unshare -m true && echo bad; mount -t tmpfs x /tmp && echo bad; dd if=/proc/1/mem of=/dev/null bs=1 count=1 2>/dev/null && echo bad; setpriv --reuid 0 true && echo bad; true',
    )
    expect(seen).not.toContain('bad')
  })

  test('has no network but the relay, which names what it refuses', async () => {
    const program = `
      const net = require('node:net'), http = require('node:http'), os = require('node:os')
      const proxy = new URL(process.env.HTTPS_PROXY)
      const dial = (host, port) => new Promise((done) => net.connect({ host, port }).on('connect', () => done('open')).on('error', (e) => done(e.code)))
      const ask = (path) => new Promise((done) => http.request({ host: proxy.hostname, port: proxy.port, method: 'CONNECT', path }).on('connect', (r) => done(r.statusCode)).on('error', (e) => done(e.code)).end())
      const main = async () => {
        console.log('interfaces', Object.keys(os.networkInterfaces()).join())
        console.log('direct', await dial('1.1.1.1', 443), await dial('10.0.0.1', 80), await dial('example.com', 443))
        console.log('relayed', await ask('169.254.169.254:443'), await ask('localhost:443'), await ask('[::1]:443'), await ask('1.1.1.1:25'))
        process.exit()
      }
      main()`
    const seen = await inside(`cat > t.cjs <<'END'\n${program}\nEND\nnode t.cjs`)
    expect(seen).toContain('interfaces lo\n')
    expect(seen).toMatch(/^direct (ENETUNREACH|EHOSTUNREACH) (ENETUNREACH|EHOSTUNREACH) (EAI_AGAIN|ENOTFOUND)$/m)
    expect(seen).toContain('relayed 403 403 403 403')
    expect(seen).toContain('blocked: 169.254.169.254:443 (not at a public address)')
    expect(seen).toContain('blocked: localhost:443 (the name has no public address)')
    expect(seen).toContain('blocked: 1.1.1.1:25 (builds reach port 443 only)')
  })

  test('finds nothing that an earlier build has left', async () => {
    await inside('echo poison > ~/.npmrc; echo poison > /tmp/poison; echo poison > poison; sleep 4242.2 & true')
    expect(await processesWith('4242.2')).toEqual([])
    expect(await inside('ls -A ~ /tmp /build')).toBe('/build:\n\n/home/build:\n\n/tmp:')
  })
})

test('all builds together weigh half of another process, and each is the first to go when memory runs out', async () => {
  const name = `plinth-${createHash('sha256').update(builder.config.build.dir).digest('hex').slice(0, 12)}`
  const weights = { 'cpu.weight': '50', 'cpu.shares': '512' }
  const found = (await readdir('/sys/fs/cgroup', { recursive: true }).catch(() => [])).filter((path) => path.endsWith(name))
  const read = found.flatMap((path) =>
    Object.keys(weights).map((file) => readFile(join('/sys/fs/cgroup', path, file), 'utf8').then((text) => [file, text.trim()])),
  )
  const set = (await Promise.allSettled(read)).flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  for (const [file = '', weight] of set) expect(weight).toBe(weights[file as keyof typeof weights])
  if (builder.sandbox.status.cgroup !== 'none') expect(set).not.toEqual([])
  expect(await inside('cat /proc/self/oom_score_adj; nice')).toBe('1000\n10')
})

test('what an earlier runner left is removed at the start', async () => {
  const { dir } = builder.config.build
  await mkdir(join(dir, 'run-0-old', 'source'), { recursive: true })
  await openSandbox({ config: builder.config, log: createLogger('test', 'silent') })
  expect(await builder.leftovers()).toEqual([])
})
