import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemCallFilter } from '../../../runner/sandbox/seccomp.ts'
import { type Canaries, openCanaries } from '../../canaries.ts'
import { expectIsolation, nodeBuild, nodePackage, openBuilder, processesWith, writes } from '../builder.ts'

// What a malicious package tries from its scripts, in a real build: everything fails, nothing outside hears of it.

const canary = `canary-${process.pid}`
let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder()
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder?.[Symbol.asyncDispose]())

/** Runs the program as a package's install script, and answers the lines that it printed between marks. */
async function probe(program: string): Promise<string[]> {
  const scripts = { postinstall: 'node probe.cjs', build: 'node build.cjs' }
  const built = await builder.build({
    ...nodePackage(writes('dist/index.html')),
    'package.json': JSON.stringify({ name: 'evil', version: '1.0.0', scripts }),
    'probe.cjs': `const say = (...words) => require('node:fs').writeSync(1, 'SAID ' + words.join(' ') + '\\n');
      process.on('uncaughtException', (error) => say('threw', error.message));\n${program}`,
  })
  expect(built.error).toBe('')
  expect(built.log).toContain('SAID')
  return [...built.log.matchAll(/^SAID (.*)$/gm)].map(([, line = '']) => line)
}

const hasPerl = spawnSync('/usr/bin/perl', ['-e', '1']).status === 0

describe('an install script', () => {
  test('finds no secret in any process, and no process but its own', async () => {
    process.env['PLINTH_TEST_CANARY'] = canary
    const said = await probe(`
      const fs = require('node:fs')
      for (const pid of fs.readdirSync('/proc').filter((name) => /^\\d+$/.test(name)))
        for (const file of ['environ', 'cmdline']) { try { say(pid, file, fs.readFileSync('/proc/' + pid + '/' + file, 'utf8').replace(/[\\0\\n]/g, ' ')) } catch (error) { say(pid, error.code) } }
      say('user', process.getuid(), 'parent', process.ppid, JSON.stringify(process.env))`)
    delete process.env['PLINTH_TEST_CANARY']
    const all = said.join('\n')
    expect(all).not.toContain(canary)
    expect(all).not.toContain('vitest')
    expect(all).not.toMatch(/PLINTH_|postgres|temporal/i)
    expect(new Set(said.map((line) => line.split(' ', 1)[0])).size).toBeLessThan(12)
  })

  test('gets no descriptor but its input and output, and finds no other way out in the process that started it', async () => {
    const said = await probe(`
      const fs = require('node:fs')
      say('own', require('node:child_process').execFileSync('sh', ['-c', 'ls /proc/$$/fd; :']).toString().trim().split('\\n').join())
      for (const pid of fs.readdirSync('/proc').filter((name) => /^\\d+$/.test(name))) {
        for (const fd of fs.readdirSync('/proc/' + pid + '/fd')) {
          try { if (/^socket|^\\/(?!dev\\/null|home\\/build)/.test(fs.readlinkSync('/proc/' + pid + '/fd/' + fd))) say(pid === '2' ? 'relay' : 'other', fd) } catch {}
        }
      }`)
    expect(said).toContain('own 0,1,2')
    const open = (whose: string) => [...new Set(said.filter((line) => line.startsWith(whose)))].map((line) => line.split(' ')[1])
    // the last says how the commands end
    expect(open('relay')).toEqual(['1', '2', '3'])
    expect(open('other')).toEqual(['1', '2'])
  })

  test('reads nothing of the host, of the storage, of another slot, or of another build', async () => {
    const hidden = await mkdtemp(join(tmpdir(), 'plinth-hidden-'))
    await writeFile(join(hidden, 'secret'), canary, { mode: 0o644 })
    const { dataDir, build } = builder.config
    await mkdir(join(build.dir, 'caches', 'other-project'), { recursive: true })
    await writeFile(join(build.dir, 'caches', 'other-project', 'secret'), canary)
    await using slot = await builder.slots.acquire()
    const paths = [
      hidden,
      dataDir,
      build.dir,
      join(build.dir, 'caches'),
      '/root',
      '/var',
      '/home/user',
      '/mnt',
      '/srv',
      '/sys',
      '/boot',
    ]
    const said = await probe(`
      const fs = require('node:fs')
      const list = (path) => { try { say(path, fs.readdirSync(path).length) } catch (error) { say(path, error.code) } }
      ${JSON.stringify(paths)}.forEach(list)
      for (const up of ['..', '../..', '../../..', '/proc/1/root', '/proc/1/cwd', '/proc/self/root/..', '/proc/self/fd/../root']) { try { say(up, fs.readdirSync(up).sort().join()) } catch (error) { say(up, error.code) } }
      for (const file of ['/proc/1/mem', '/proc/kcore', '/proc/kmsg', '/dev/mem', '/dev/kmsg', '/dev/sda', '/dev/vda', '/dev/fuse', '/dev/kvm', '/dev/vsock', '/etc/shadow', '/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern']) {
        for (const flag of ['r', 'r+']) { try { fs.readSync(fs.openSync(file, flag), Buffer.alloc(1)); say(file, flag, 'OPENED') } catch (error) { say(file, flag, error.code) } }
      }`)
    await rm(hidden, { recursive: true })
    expect(said.slice(0, paths.length)).toEqual(paths.map((path) => `${path} ENOENT`))
    expect(said.join('\n')).not.toContain(canary)
    expect(said.filter((line) => line.endsWith('OPENED') && !/core_pattern r OPENED/.test(line))).toEqual([])
    const roots = said.filter((line) => line.includes('bin,'))
    expect(roots.length).toBeGreaterThan(0)
    for (const root of roots) expect(root).not.toMatch(/\b(root|var|mnt|srv|boot|sys|work)\b(?!\/)(?<!\/root)(?<!\/root\/\.\.)/)
    expect(slot.index).toBeGreaterThanOrEqual(0)
  })

  test.skipIf(!hasPerl)('gets no dangerous socket, key, trace or mount from the kernel', async () => {
    const x64 = process.arch === 'x64'
    const number = (x: number, arm: number) => (x64 ? x : arm)
    // name, number, arguments
    const calls: [string, number, string][] = [
      ['add_key', number(248, 217), `"user", "k", "v", 1, -3`],
      ['keyctl', number(250, 219), `0, -3, 1, 0, 0`],
      ['bpf', number(321, 280), `0, 0, 0`],
      ['perf_event_open', number(298, 241), `0, 0, -1, -1, 0`],
      ['userfaultfd', number(323, 282), `1`],
      ['io_uring_setup', 425, `8, "\\0" x 120`],
      ['ptrace', number(101, 117), `0, 0, 0, 0`],
      ['open_by_handle_at', number(304, 265), `-100, "\\0" x 64, 0`],
      ['process_vm_readv', number(310, 270), `1, 0, 0, 0, 0, 0`],
      ['syslog', number(103, 116), `3, "\\0" x 64, 64`],
      ['unshare user', number(272, 97), `0x10000000`],
      ['unshare mount', number(272, 97), `0x20000`],
      ['mount', number(165, 40), `"none", "/tmp", "tmpfs", 0, 0`],
      ['umount', number(166, 39), `"/proc", 2`],
      ['chroot', number(161, 51), `"/"`],
      ['setuid 0', number(105, 146), `0`],
      ['sethostname', number(170, 161), `"x", 1`],
      ['init_module', number(175, 105), `"x", 1, ""`],
      ['reboot', number(169, 142), `0xfee1dead, 672274793, 0x1234567, 0`],
      ['settimeofday', number(164, 170), `"\\0" x 16, 0`],
      ['swapon', number(167, 224), `"/tmp/x", 0`],
    ]
    const perl = [
      'use Socket;',
      // family, type, protocol; AF_INET raw, AF_INET6 raw, NETLINK audit and uevent, PACKET, ALG, VSOCK, BLUETOOTH, XDP
      ...[
        [2, 3, 255],
        [10, 3, 58],
        [16, 3, 9],
        [16, 3, 15],
        [17, 3, 768],
        [38, 5, 0],
        [40, 1, 0],
        [31, 1, 0],
        [44, 3, 0],
        [15, 3, 2],
      ].map(
        ([family, type, protocol]) =>
          `print "SAID socket ${family} ${type}: ", (socket(my $s, ${family}, ${type}, ${protocol}) ? "MADE" : "no"), "\\n";`,
      ),
      ...calls.map(
        ([name, nr, args]) => `{ my @a = (${args}); print "SAID ${name}: ", (syscall(${nr}, @a) >= 0 ? "DONE" : "no"), "\\n"; }`,
      ),
      // TIOCSTI types into the terminal of whoever started this
      'my $c = "x"; print "SAID tiocsti: ", (ioctl(STDIN, 0x5412, $c) ? "DONE" : "no"), "\\n";',
      'open(my $tty, "+<", "/dev/tty"); print "SAID tty: ", (defined fileno($tty) ? "OPENED" : "no"), "\\n";',
    ].join('\n')
    const said = await probe(`
      require('node:fs').writeFileSync('probe.pl', ${JSON.stringify(perl)})
      require('node:child_process').spawnSync('perl', ['probe.pl'], { stdio: ['ignore', 'inherit', 'inherit'] })`)
    expect(said).toHaveLength(10 + calls.length + 2)
    expect(said.filter((line) => !line.endsWith('no'))).toEqual([])
  })

  test('ends no process of the host, and cannot make itself more important', async () => {
    const victim = process.pid
    const said = await probe(`
      const os = require('node:os'), fs = require('node:fs')
      const attempt = (name, action) => { try { action(); say(name, 'DONE') } catch (error) { say(name, error.code) } }
      attempt('kill', () => process.kill(${victim}, 'SIGKILL'))
      attempt('renice', () => os.setPriority(0, -5))
      attempt('renice to normal', () => os.setPriority(0, 0))
      attempt('oom', () => fs.writeFileSync('/proc/self/oom_score_adj', '0'))
      say('oom is', fs.readFileSync('/proc/self/oom_score_adj', 'utf8').trim())
      attempt('autogroup', () => fs.writeFileSync('/proc/self/autogroup', '-10'))
      for (const path of ['/sys/fs/cgroup', '/sys/fs/cgroup/memory', '/sys/fs/cgroup/unified', '/proc/1/cgroup']) attempt(path, () => fs.writeFileSync(path + (path.startsWith('/sys') ? '/cgroup.procs' : ''), '1'))`)
    // the kernel keeps the floor of a runner that has CAP_SYS_RESOURCE; containers may lack it
    const capabilities = /^CapEff:\s*(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'
    const kept = ((BigInt(`0x${capabilities}`) >> 24n) & 1n) === 1n
    expect(said.filter((line) => line.endsWith('DONE') && (kept || line !== 'oom DONE'))).toEqual([])
    if (kept) expect(said).toContain('oom is 1000')
  })
})

describe('the network of a build', () => {
  let canaries: Canaries
  let folder = ''

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'plinth-canary-'))
    const places = { unix: { path: join(folder, 'db.sock') }, abstract: { path: '\0plinth-canary' } }
    canaries = await openCanaries(['0.0.0.0'], [80, 443, 2019, 5432, 7233], places)
  })
  afterAll(async () => {
    await canaries[Symbol.asyncDispose]()
    await rm(folder, { recursive: true })
  })

  test('reaches no service of this machine, by address, by name, by socket, or through the relay', async () => {
    canaries.forget()
    const own = Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address))
    const hosts = ['127.0.0.1', '127.1', '0.0.0.0', 'localhost', '::1', '169.254.169.254', ...own]
    const authorities = [...hosts, '2130706433', '0x7f.1', '[::1]', '[::ffff:127.0.0.1]', '[64:ff9b::7f00:1]', 'localhost.']
    const said = await probe(`
      const net = require('node:net'), http = require('node:http')
      const proxy = new URL(process.env.HTTPS_PROXY)
      const dial = (where) => new Promise((done) => { const s = net.connect(where).on('connect', () => { s.destroy(); done('OPEN') }).on('error', (e) => done(e.code)); s.setTimeout(3000, () => { s.destroy(); done('timeout') }) })
      const relay = (method, path) => new Promise((done) => { const r = http.request({ host: proxy.hostname, port: proxy.port, method, path, headers: { host: 'registry.npmjs.org' } }).on('connect', (a, s) => { s.destroy(); done(a.statusCode) }).on('response', (a) => { a.resume(); done(a.statusCode) }).on('error', (e) => done(e.code)); r.end() })
      const main = async () => {
        for (const port of ${JSON.stringify([...new Set([80, 443, 2019, 5432, 7233, ...canaries.ports])])}) {
          for (const host of ${JSON.stringify(hosts)}) if (port !== Number(proxy.port)) say('direct', host, port, await dial({ host, port }))
          // each refusal takes a whole second
          await Promise.all(${JSON.stringify(authorities)}.map(async (host) => {
            say('connect', host, port, await relay('CONNECT', host + ':' + port))
            say('get', host, port, await relay('GET', 'http://' + host + ':' + port + '/'))
          }))
        }
        for (const path of ['${folder}/db.sock', '\\0plinth-canary', '/var/run/docker.sock', '/run/postgresql/.s.PGSQL.5432', '/run/systemd/private']) say('unix', JSON.stringify(path), await dial({ path }))
        process.exit()
      }
      main()`)
    expect(said.length).toBeGreaterThan(100)
    const reached = said.filter((line) => / (OPEN|2\d\d)$/.test(line))
    expect(reached).toEqual([])
    expect(canaries.hits).toEqual([])
  })

  test('the canaries would have noticed', async () => {
    canaries.forget()
    for (const port of canaries.ports)
      connect(port, '127.0.0.1')
        .on('error', () => undefined)
        .resume()
    await expect.poll(() => canaries.hits.length).toBe(canaries.ports.length)
  })
})

describe('two builds one after the other', () => {
  test('share no process, file, variable, key, shared memory or socket', async () => {
    await builder.build(
      nodeBuild(`${writes('dist/index.html')}
        const { spawn, spawnSync } = require('node:child_process')
        process.env.LEFT = 'poison'
        spawn('setsid', ['sleep', '4243.1'], { detached: true, stdio: 'ignore' }).unref()
        for (const path of ['/tmp', '/dev/shm', process.env.HOME, process.env.HOME + '/.npm', '/build', '/build/..']) { try { fs.mkdirSync(path, { recursive: true }); fs.writeFileSync(path + '/poison', 'x') } catch {} }
        fs.writeFileSync(process.env.HOME + '/.npmrc', 'registry=https://evil.test/')
        fs.writeFileSync(process.env.HOME + '/.bashrc', 'exit 9')
        spawnSync('perl', ['-e', 'syscall(248, "user", "poison", "x", 1, -3); syscall(29, 4242, 100, 01666)'])
        require('node:net').createServer().listen('\\0poison')
        setTimeout(() => process.exit(0), 300)`),
    )
    expect(await processesWith('4243.1')).toEqual([])
    const said = await probe(`
      const fs = require('node:fs')
      for (const path of ['/tmp', '/dev/shm', process.env.HOME, '/']) say(path, fs.readdirSync(path).join())
      say('variables', JSON.stringify(process.env))
      say('registry', require('node:child_process').execSync('npm config get registry').toString().trim())
      say('ipc', fs.readFileSync('/proc/sysvipc/shm', 'utf8').split('\\n').length)
      say('keys', fs.existsSync('/proc/keys') ? fs.readFileSync('/proc/keys', 'utf8') : '')
      say('unix', fs.readFileSync('/proc/net/unix', 'utf8').includes('poison'))`)
    const all = said.join('\n')
    expect(all).not.toContain('poison,')
    expect(all).not.toMatch(/poison/)
    expect(all).not.toContain('evil.test')
    expect(said).toContain('ipc 2')
    expect(said).toContain('unix false')
  })
})

test('a processor that the filter has no numbers for gets none, so nothing is built there', () => {
  expect(systemCallFilter('riscv64')).toBeUndefined()
  for (const arch of ['x64', 'arm64']) expect(systemCallFilter(arch)?.length).toBeGreaterThan(200)
})
