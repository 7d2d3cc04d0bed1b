import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Role } from '../../infra/config/setting.ts'
import { ConfigError, loadConfig, parseSecretKey } from '../../infra/config.ts'
import { lastLines, startChild, trimLogs } from '../../infra/local/child.ts'
import { claimDataDir } from '../../infra/local/data-dir.ts'
import { childEnvironment } from '../../infra/local/environment.ts'
import { claimReachableFolder, reachableFolder } from '../../infra/local/place.ts'
import { choosePorts, freePort } from '../../infra/local/ports.ts'
import { readyLines } from '../../infra/local/ready.ts'
import { openProcessRecords } from '../../infra/local/records.ts'
import { openSecret } from '../../infra/local/secrets.ts'
import { supervise } from '../../infra/local/supervisor.ts'
import { findTool, isAtLeast } from '../../infra/local/tools.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import { settingWarnings } from '../../infra/local/warnings.ts'
import { processIdentity } from '../../infra/process-identity.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-local-'))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

const soon = { timeoutMs: 60_000 }
const sleeper = (seconds: number) => ({
  command: ['sleep', String(seconds)] as const,
  env: { PATH: '/usr/bin:/bin' },
  stopSignal: 'SIGTERM' as const,
  stopTimeoutMs: 5000,
})

describe('the environment of a process', () => {
  const config = loadConfig({
    PLINTH_DATA_DIR: '/data',
    PLINTH_DATABASE_URL: 'postgres://plinth:secret@127.0.0.1:5432/plinth',
    PLINTH_TEMPORAL_ADDRESS: '127.0.0.1:7233',
    PLINTH_OPERATOR_TOKEN: 'a-token-of-the-operator',
    PLINTH_SECRET_KEY: Buffer.alloc(32, 7).toString('base64'),
    PLINTH_BASE_URL: 'https://host.example',
    PLINTH_PLATFORM_DOMAIN: 'sites.example',
    PLINTH_BUILD_TIMEOUT: '90s',
    PLINTH_BUILD_EGRESS_HOSTS: 'a.example,b.example',
    PATH: '/usr/bin',
    AWS_SECRET_ACCESS_KEY: 'of the machine',
  })

  test.each<[Role, { database: boolean; temporal: boolean; token: boolean; builds: boolean }]>([
    ['api', { database: true, temporal: true, token: true, builds: false }],
    ['worker', { database: true, temporal: true, token: false, builds: false }],
    ['edge', { database: true, temporal: false, token: false, builds: false }],
    ['runner', { database: false, temporal: true, token: false, builds: true }],
  ])('the %s gets what it needs and no more', (role, wanted) => {
    const names = Object.keys(childEnvironment(config, role))
    expect({
      database: names.includes('PLINTH_DATABASE_URL'),
      temporal: names.includes('PLINTH_TEMPORAL_ADDRESS'),
      token: names.includes('PLINTH_OPERATOR_TOKEN'),
      builds: names.includes('PLINTH_BUILD_DIR'),
    }).toEqual(wanted)
    expect(names).toContain('PATH')
    expect(names).not.toContain('AWS_SECRET_ACCESS_KEY')
  })

  test.each(['api', 'worker', 'edge', 'runner'] as const)('the %s reads the same settings from it', (role) => {
    const read = loadConfig(childEnvironment(config, role))
    expect(read.secretKey).toEqual(role === 'runner' ? undefined : Buffer.alloc(32, 7))
    expect([read.urls, read.http.port, read.sockets, read.storage, read.dataDir]).toEqual([
      config.urls,
      config.http.port,
      config.sockets,
      config.storage,
      config.dataDir,
    ])
    if (role === 'runner') expect(read.build).toEqual(config.build)
  })
})

describe('the secret key', () => {
  test.each([
    '',
    'x',
    'not base64 at all, but of some length',
    Buffer.alloc(31).toString('base64'),
    Buffer.alloc(33).toString('base64'),
  ])('that is %j is refused with what to do, and never shown', (text) => {
    if (text === '') return expect(loadConfig({ PLINTH_SECRET_KEY: text }).secretKey).toBeUndefined()
    const refused = 'must be 32 bytes in base64, as `openssl rand -base64 32` makes them'
    expect(() => loadConfig({ PLINTH_SECRET_KEY: text })).toThrow(new ConfigError(`PLINTH_SECRET_KEY ${refused}`))
    expect(() => parseSecretKey(text, '/data/secret-key')).toThrow(
      new ConfigError(`the secret key in /data/secret-key ${refused}`),
    )
  })

  test('is made by the first start, for this user only, and stays', async () => {
    const file = join(dir, 'secret-key')
    const made = await openSecret(file, 'base64')
    expect(parseSecretKey(made, file)).toHaveLength(32)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(await openSecret(file, 'base64')).toBe(made)
  })
})

describe('the data directory', () => {
  test('a new one gets an id, which the next start finds again', async () => {
    const first = await claimDataDir(join(dir, 'data'))
    await first[Symbol.asyncDispose]()
    await using second = await claimDataDir(join(dir, 'data'))
    expect(second.id).toBe(first.id)
  })

  test('what it holds is not readable by others', async () => {
    await using _claimed = await claimDataDir(join(dir, 'data'))
    for (const folder of ['cas', 'caddy', 'logs', 'run', 'spool', 'temporal']) {
      expect([folder, (await stat(join(dir, 'data', folder))).mode & 0o077]).toEqual([folder, 0])
    }
  })

  test('a folder with other content is refused and left as it was', async () => {
    await writeFile(join(dir, 'thesis.txt'), 'mine')
    await expect(claimDataDir(dir)).rejects.toThrow(/not empty and not a data directory of Plinth/)
    expect(await readdir(dir)).toEqual(['thesis.txt'])
  })

  test('one of a later version is refused', async () => {
    await writeFile(join(dir, 'plinth.json'), '{"format":2,"id":"x"}')
    await expect(claimDataDir(dir)).rejects.toThrow(/another version of Plinth \(format 2/)
  })

  test('of many starts at once exactly one holds it', async () => {
    const claims = await Promise.allSettled(Array.from({ length: 8 }, () => claimDataDir(dir)))
    const held = claims.filter((claim) => claim.status === 'fulfilled')
    expect(held.length).toBe(1)
    for (const claim of held) await claim.value[Symbol.asyncDispose]()
  })

  test('the lock of a start that was killed does not hold', async () => {
    const first = await claimDataDir(dir)
    await first[Symbol.asyncDispose]()
    await writeFile(join(dir, 'launcher.lock'), JSON.stringify({ pid: process.pid, identity: 'of an earlier boot' }))
    await using second = await claimDataDir(dir)
    expect(second.id).toBe(first.id)
  })
})

describe('leftovers of a killed start', () => {
  test('a recorded process is ended', async () => {
    const records = await openProcessRecords(dir)
    const child = await startChild(sleeper(600))
    await records.add('sleeper', child.pid)
    expect(await records.endLeftovers()).toEqual(['sleeper'])
    expect(await child.exited).toBe('SIGTERM')
    expect(await readdir(dir)).toEqual([])
  })

  test('a process that got the pid of a recorded one is left alone', async () => {
    const records = await openProcessRecords(dir)
    await using child = await startChild(sleeper(600))
    await writeFile(join(dir, 'sleeper.json'), JSON.stringify({ pid: child.pid, identity: 'of another process' }))
    expect(await records.endLeftovers()).toEqual([])
    expect(await processIdentity(child.pid)).toBeTypeOf('string')
  })

  test('a record that was cut off is dropped', async () => {
    const records = await openProcessRecords(dir)
    await writeFile(join(dir, 'torn.json'), '{"pid":1')
    expect(await records.endLeftovers()).toEqual([])
    expect(await readdir(dir)).toEqual([])
  })
})

describe('a child', () => {
  test('that ends is started again, and that is said', async () => {
    const lines: string[] = []
    const records = await openProcessRecords(dir)
    const pids: number[] = []
    await using _service = await supervise(
      'sleeper',
      async () => {
        const child = await startChild(sleeper(600))
        pids.push(child.pid)
        return child
      },
      { records, report: (line) => lines.push(line), logDir: dir, signal: new AbortController().signal, isServing: () => false },
    )
    process.kill(pids[0] as number, 'SIGKILL')
    await waitUntil('the second child', () => lines.length === 2, soon)
    expect(lines).toEqual([
      `sleeper ended (SIGKILL); starting it again in 0.25 s (restart 1). Its log: ${dir}/sleeper.log`,
      'sleeper runs again',
    ])
    expect(pids.length).toBe(2)
  })

  test('that cannot be started again is tried until it can', async () => {
    const lines: string[] = []
    const records = await openProcessRecords(dir)
    let starts = 0
    await using _service = await supervise(
      'sleeper',
      async () => {
        starts += 1
        if (starts === 2) throw new Error('no memory')
        return startChild(sleeper(starts === 1 ? 0 : 600))
      },
      { records, report: (line) => lines.push(line), logDir: dir, signal: new AbortController().signal, isServing: () => false },
    )
    await waitUntil('the third start', () => lines.length === 3, soon)
    expect(lines.slice(1)).toEqual(['sleeper did not start: no memory', 'sleeper runs again'])
  })

  test.each([
    [true, ['sleeper did not start: no memory; trying again in 1 s'], 2],
    [false, [], 1],
  ])('whose first start fails is started again only when requests may have been answered: %s', async (isServing, said, tries) => {
    const lines: string[] = []
    const records = await openProcessRecords(dir)
    let starts = 0
    const supervising = supervise(
      'sleeper',
      async () => {
        starts += 1
        if (starts === 1) throw new Error('no memory')
        return startChild(sleeper(600))
      },
      {
        records,
        report: (line) => lines.push(line),
        logDir: dir,
        signal: new AbortController().signal,
        isServing: () => isServing,
      },
    )
    const outcome = await supervising.then(
      (service) => service[Symbol.asyncDispose]().then(() => 'it runs'),
      (error: Error) => error.message,
    )
    expect([outcome, lines, starts]).toEqual([isServing ? 'it runs' : 'no memory', said, tries])
  })

  test('whose first start fails again and again ends the start after four tries', { timeout: 30_000 }, async () => {
    const records = await openProcessRecords(dir)
    let starts = 0
    const fail = async () => {
      starts += 1
      throw new Error('no memory')
    }
    const options = { records, report: () => undefined, logDir: dir, signal: new AbortController().signal, isServing: () => true }
    await expect(supervise('sleeper', fail, options)).rejects.toThrow('no memory')
    expect(starts).toBe(4)
  })

  test('dies with its parent', async () => {
    const log = join(dir, 'orphan.log')
    const script = `import { startChild } from ${JSON.stringify(join(import.meta.dirname, '../../infra/local/child.ts'))}
      const child = await startChild({ command: ['sh', '-c', 'echo up; sleep 600'], env: { PATH: '/usr/bin:/bin' }, stopSignal: 'SIGTERM', stopTimeoutMs: 1000, logFile: ${JSON.stringify(log)} })
      process.stdout.write(String(child.pid))
      setInterval(() => {}, 1000)`
    const parent = spawn(process.execPath, ['--input-type=module-typescript', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [pid] = (await once(parent.stdout, 'data')) as [Buffer]
    // the kernel is asked by the child itself, just before it becomes the program
    await waitUntil('the child', async () => (await lastLines(log)) === 'up', soon)
    parent.kill('SIGKILL')
    await waitUntil('the end of the child', async () => (await processIdentity(Number(pid))) === undefined, soon)
  })

  test('that ignores its stop signal is killed, and what it left behind too', async () => {
    const log = join(dir, 'stubborn.log')
    const child = await startChild({
      ...sleeper(0),
      command: ['sh', '-c', 'trap "" TERM; sleep 601 & echo $!; wait; sleep 602'],
      logFile: log,
      stopTimeoutMs: 200,
    })
    await waitUntil('its first line', async () => (await lastLines(log)) !== '', soon)
    const grandchild = Number(await lastLines(log))
    await child[Symbol.asyncDispose]()
    expect(await child.exited).toBe('SIGKILL')
    await waitUntil('the end of the grandchild', async () => (await processIdentity(grandchild)) === undefined, soon)
  })

  test('has a log that stays small while it writes on', async () => {
    const log = join(dir, 'chatty.log')
    const child = await startChild({
      ...sleeper(0),
      command: ['sh', '-c', 'head -c 17000000 /dev/zero; while :; do echo x; sleep 0.02; done'],
      logFile: log,
    })
    await waitUntil('17 MB of log', async () => (await stat(log)).size > 17_000_000, soon)
    await trimLogs(dir)
    expect((await stat(`${log}.1`)).size).toBeGreaterThan(17_000_000)
    await waitUntil('a new line', async () => (await readFile(log, 'utf8')).startsWith('x\n'), soon)
    await child[Symbol.asyncDispose]()
    expect((await stat(log)).size).toBeLessThan(1_000_000)
  })
})

describe('ports', () => {
  const settingsOn = async (more: Record<string, string> = {}) =>
    loadConfig({
      PLINTH_DATA_DIR: dir,
      PLINTH_LISTEN: '127.0.0.1',
      PLINTH_HTTP_PORT: String(await freePort()),
      PLINTH_HTTPS_PORT: String(await freePort()),
      ...more,
    })
  const taken = async () => {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    return { port, [Symbol.dispose]: () => server.close() }
  }

  const portSettings = ['HTTP_PORT', 'HTTPS_PORT', 'TEMPORAL_PORT', 'TEMPORAL_UI_PORT', 'POSTGRES_PORT', 'CERTIFICATES_PORT']
  test.each(portSettings.map((name) => `PLINTH_${name}`))('a taken %s is named', async (name) => {
    using other = await taken()
    const config = await settingsOn({ [name]: String(other.port) })
    await expect(choosePorts(config, () => undefined)).rejects.toThrow(
      new ConfigError(`port ${other.port} on 127.0.0.1 is taken: stop the program that uses it, or set ${name} to another port`),
    )
  })

  test('a port of a server that is not started is not looked at', async () => {
    using other = await taken()
    const config = await settingsOn({ PLINTH_TEMPORAL_ADDRESS: 'elsewhere:7233', PLINTH_TEMPORAL_PORT: String(other.port) })
    await expect(choosePorts(config, () => undefined)).resolves.toMatchObject({})
  })
})

describe('tools', () => {
  const program = async (name: string, folder: string, prints: string) => {
    await mkdir(join(dir, folder), { recursive: true })
    const file = join(dir, folder, name)
    await writeFile(file, `#!/bin/sh\necho '${prints}'\n`)
    await chmod(file, 0o755)
    return file
  }
  const find = (name: 'temporal' | 'caddy' | 'bwrap', lines: string[] = []) =>
    findTool(name, { cacheDir: join(dir, 'cache'), path: join(dir, 'path'), report: (line) => lines.push(line) })

  test.each([
    ['temporal', 'temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)'],
    ['caddy', 'v2.11.1 h1:abc='],
    ['bwrap', 'bubblewrap 0.8.0'],
  ] as const)('%s on the PATH is taken when its version fits, and said', async (name, prints) => {
    const file = await program(name, 'path', prints)
    const lines: string[] = []
    expect(await find(name, lines)).toBe(file)
    expect(lines.join()).toContain(file)
  })

  test.each([
    ['temporal', 'temporal version 1.1.0 (Server 1.24.2, UI 2.30.3)'],
    ['caddy', '2.6.2'],
    ['caddy', 'unknown'],
  ] as const)('%s on the PATH that says "%s" is passed over for the cache', async (name, prints) => {
    await program(name, 'path', prints)
    const pinned = name === 'temporal' ? 'temporal-1.5.1' : 'caddy-2.11.9'
    const cached = await program(name, `cache/${pinned}-${process.platform}-${process.arch}`, 'anything')
    expect(await find(name)).toBe(cached)
  })

  test('a tool that cannot be had is a message with everything that was tried', async () => {
    await program('bwrap', 'path', 'bubblewrap 0.1.0')
    const missing = find('bwrap')
    await expect(missing).rejects.toThrow(ConfigError)
    await expect(missing).rejects.toThrow(
      /bubblewrap is missing[\s\S]*path\/bwrap is version 0\.1\.0, needed is 0\.5\.0[\s\S]*apt-get download bubblewrap: [\s\S]*Install bwrap 0\.5\.0 or newer/,
    )
    expect(await readdir(join(dir, 'cache'))).toEqual([])
  })

  test.each([
    ['2.11.1', '2.11.1', true],
    ['2.11.9', '2.11.1', true],
    ['2.11.10', '2.11.9', true],
    ['3.0.0', '2.11.1', true],
    ['2.6.2', '2.11.1', false],
    ['2.11.0', '2.11.1', false],
    ['0.11.0', '0.5.0', true],
  ])('%s is at least %s: %s', (version, minimum, expected) => expect(isAtLeast(version, minimum)).toBe(expected))
})

describe('warnings', () => {
  test.each([
    ['https://api.example.com', 'sites.example.com', /share the domain example\.com/],
    ['https://api.example.co.uk', 'example.co.uk.test', undefined],
    ['https://api.example.co.uk', 'other.co.uk', undefined],
    ['http://api.example.com', 'sites.example.com', undefined],
    ['http://localhost:8080', 'plinth.localhost', undefined],
  ])('%s with sites below %s', (base, domain, warning) => {
    const config = loadConfig({ PLINTH_DATA_DIR: dir, PLINTH_BASE_URL: base, PLINTH_PLATFORM_DOMAIN: domain })
    const lines = settingWarnings(config).join()
    if (warning) expect(lines).toMatch(warning)
    else expect(lines).toBe('')
  })

  test('wildcards without a public certificate are named with the settings that they need', () => {
    const settings = {
      PLINTH_DATA_DIR: dir,
      PLINTH_BASE_URL: 'https://host.example',
      PLINTH_PLATFORM_DOMAIN: 'sites.example.net',
      PLINTH_ACME_DIRECTORY: 'https://ca.example/dir',
    }
    expect(settingWarnings(loadConfig(settings)).join()).toMatch(
      /^\*\.sites\.example\.net and \*\.preview\.host\.example have no public certificate.* PLINTH_ACME_DNS_LISTEN and PLINTH_ACME_DNS_ZONE$/,
    )
    const dns = { PLINTH_ACME_DNS_LISTEN: '127.0.0.1:53', PLINTH_ACME_DNS_ZONE: 'acme.example' }
    expect(settingWarnings(loadConfig({ ...settings, ...dns }))).toEqual([])
  })

  test('a file of authorities that cannot be read is refused', () => {
    expect(() => loadConfig({ PLINTH_ACME_CA_FILE: join(dir, 'none.pem') })).toThrow(
      new ConfigError(`PLINTH_ACME_CA_FILE ${join(dir, 'none.pem')} cannot be read (ENOENT)`),
    )
  })

  test('builds without isolation are said loudly', () => {
    const config = loadConfig({ PLINTH_DATA_DIR: dir, PLINTH_BUILD_SANDBOX: 'unsafe' })
    expect(settingWarnings(config).join()).toContain('WITHOUT ISOLATION')
  })
})

describe.skipIf(process.getuid?.() !== 0)('what another user must reach', () => {
  test('lies in the data directory when other users can pass through to it, else below /var/lib', async () => {
    await chmod(dir, 0o711)
    expect(await reachableFolder(join(dir, 'data'))).toBe(join(dir, 'data'))
    await chmod(dir, 0o700)
    const place = await reachableFolder(join(dir, 'data'))
    expect(place).toMatch(/^\/var\/lib\/plinth\/[0-9a-f]{12}$/)
    await rm(place, { recursive: true })
  })

  test('of a deleted data directory is moved aside, so that a new one begins empty', async () => {
    const dataDir = join(dir, 'data')
    const place = await claimReachableFolder(dataDir, 'first', () => undefined)
    await writeFile(join(place, 'of-the-first'), '')
    expect(await claimReachableFolder(dataDir, 'first', () => undefined)).toBe(place)
    expect(await readdir(place)).toContain('of-the-first')
    const lines: string[] = []
    await claimReachableFolder(dataDir, 'second', (line) => lines.push(line))
    expect(await readdir(place)).toEqual(['data-dir.json'])
    expect(await readdir(`${place}.first`)).toContain('of-the-first')
    expect(lines.join()).toContain(`${place}.first`)
    for (const folder of [place, `${place}.first`]) await rm(folder, { recursive: true })
  })
})

describe('what a start prints at its end', () => {
  const config = loadConfig({ PLINTH_DATA_DIR: '/data' })

  test('has the lines of the operator contract in their order', () => {
    const demo = {
      key: 'svc_a_b',
      keyFile: '/data/demo-key',
      site: { id: 'the-id', url: 'http://plinth-demo.plinth.localhost:8080' },
    }
    const running = { ...config, temporal: { ...config.temporal, uiUrl: 'http://localhost:8233' } }
    expect(readyLines({ config: running, operatorTokenFile: '/data/operator-token', demo })).toEqual([
      'Plinth is ready',
      'API http://localhost:8080',
      'Docs http://localhost:8080/docs',
      'Site http://plinth-demo.plinth.localhost:8080',
      'Temporal UI http://localhost:8233',
      'Operator token /data/operator-token',
      'CA certificate /data/ca.crt',
      'Demo key svc_a_b',
      'Deploy a folder',
      `tar -C <folder> --exclude=./node_modules --exclude=./.git -cz . | curl -sS -H "Authorization: Bearer $(cat /data/demo-key)" -H 'Content-Type: application/gzip' --data-binary @- http://localhost:8080/api/v1/sites/the-id/deploys`,
    ])
  })

  test('with a database of the operator there is no demo, and the first key is made by a command', () => {
    const lines = readyLines({ config, operatorTokenFile: undefined, demo: undefined })
    expect(lines).toContain('First key npm run project:create')
    expect(lines.join('\n')).not.toMatch(/Demo|^Site/m)
  })
})
