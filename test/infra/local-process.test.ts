import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { loadConfig } from '../../infra/config.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import { processIdentity } from '../../infra/process-identity.ts'
import { platformPorts } from '../ports.ts'

// several starts of everything, on a machine that may have other work
vi.setConfig({ testTimeout: 240_000 })

const main = join(import.meta.dirname, '../../infra/local/main.ts')
const roles = ['api', 'worker', 'runner', 'edge', 'caddy', 'temporal', 'postgres']

interface Launcher {
  readonly process: ChildProcess
  readonly output: () => string
  readonly exited: Promise<number | null>
}

let dir: string
let settings: Record<string, string>
const launchers: Launcher[] = []

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-launcher-'))
  // as root PostgreSQL runs as another user, who has to pass through
  await chmod(dir, 0o711)
  settings = {
    PLINTH_DATA_DIR: join(dir, 'data'),
    ...(await platformPorts()).settings,
    PLINTH_LISTEN: '127.0.0.1',
  }
})
afterAll(async () => {
  for (const { process, exited } of launchers) {
    process.kill('SIGTERM')
    await exited
  }
  await rm(dir, { recursive: true, force: true })
})

function launch(own: Record<string, string> = {}): Launcher {
  const child = spawn(process.execPath, [main], {
    env: { ...process.env, ...settings, ...own },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.on('data', (chunk) => (output += chunk))
  child.stderr.on('data', (chunk) => (output += chunk))
  const launcher = { process: child, output: () => output, exited: once(child, 'close').then(([code]) => code as number | null) }
  launchers.push(launcher)
  return launcher
}

async function ready(launcher: Launcher): Promise<string> {
  const ended = launcher.exited.then((code) => `exit code ${code}: ${launcher.output()}`)
  await waitUntil('npm start', () => launcher.output().includes('--data-binary'), { timeoutMs: 100_000, ended })
  return launcher.output()
}

const recordOf = async (role: string) =>
  JSON.parse(await readFile(join(settings['PLINTH_DATA_DIR'] as string, 'run', `${role}.json`), 'utf8')) as {
    pid: number
    identity: string
  }
const runs = async ({ pid, identity }: { pid: number; identity: string }) => (await processIdentity(pid)) === identity
const demoPage = () =>
  fetch(`http://127.0.0.1:${settings['PLINTH_HTTP_PORT']}/healthz`).then(
    ({ status }) => status,
    () => 0,
  )

test('a taken public port ends the start with a message', async () => {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const launcher = launch({ PLINTH_HTTP_PORT: String(port) })
  expect(await launcher.exited).toBe(1)
  expect(launcher.output()).toBe(
    `port ${port} on 127.0.0.1 is taken: stop the program that uses it, or set PLINTH_HTTP_PORT to another port\n`,
  )
  server.close()
})

test('a variable that is no setting is named, and ignored', async () => {
  const folder = await mkdtemp(join(dir, 'unknown-'))
  await writeFile(join(folder, 'thesis.txt'), 'mine')
  const launcher = launch({ PLINTH_DATA_DIR: folder, PLINTH_HTTPPORT: '80' })
  expect(await launcher.exited).toBe(1)
  expect(launcher.output()).toMatch(/^PLINTH_HTTPPORT is not a setting of this version and is ignored\n/)
})

test('a folder with other content ends the start with a message', async () => {
  const folder = await mkdtemp(join(dir, 'foreign-'))
  await writeFile(join(folder, 'thesis.txt'), 'mine')
  const launcher = launch({ PLINTH_DATA_DIR: folder })
  expect(await launcher.exited).toBe(1)
  expect(launcher.output()).toContain(`PLINTH_DATA_DIR ${folder} is not empty`)
})

test('a wrong setting ends the start with its name', async () => {
  const launcher = launch({ PLINTH_BUILD_TIMEOUT: 'ten' })
  expect(await launcher.exited).toBe(1)
  expect(launcher.output()).toBe('PLINTH_BUILD_TIMEOUT must be a duration such as 500ms, 10s, 5m, 24h or 7d\n')
})

test('a start that is stopped while it starts leaves nothing', async () => {
  const launcher = launch()
  await waitUntil('the first step', () => / s\n/.test(launcher.output()), { timeoutMs: 60_000 })
  launcher.process.kill('SIGTERM')
  expect(await launcher.exited).toBe(0)
  for (const role of roles) await expect(recordOf(role)).rejects.toThrow(/ENOENT/)
})

test('a start whose terminal is gone goes on, and leaves nothing when it is stopped', async () => {
  const launcher = launch()
  await waitUntil('the first step', () => / s\n/.test(launcher.output()), { timeoutMs: 60_000 })
  launcher.process.stdout?.destroy()
  launcher.process.stderr?.destroy()
  await waitUntil(
    'the api',
    () =>
      recordOf('api').then(
        () => true,
        () => false,
      ),
    { timeoutMs: 100_000, ended: launcher.exited.then(String) },
  )
  launcher.process.kill('SIGHUP')
  expect(await launcher.exited).toBe(0)
  for (const role of roles) await expect(recordOf(role)).rejects.toThrow(/ENOENT/)
})

test('a start is alone on its data directory, starts crashed processes again, and survives its own death', async () => {
  const first = launch()
  await ready(first)
  expect(await demoPage()).toBe(200)

  const second = launch()
  expect(await second.exited).toBe(1)
  expect(second.output()).toContain('another start')

  for (const role of ['api', 'caddy', 'postgres']) {
    const before = await recordOf(role)
    process.kill(before.pid, 'SIGKILL')
    await waitUntil(`the new ${role}`, () => first.output().includes(`${role} runs again`), { timeoutMs: 60_000 })
    expect(first.output()).toContain(`${role} ended (SIGKILL); starting it again`)
    await waitUntil('the answer of the api', async () => (await demoPage()) === 200, { timeoutMs: 60_000 })
  }

  const before = await Promise.all(roles.map(recordOf))
  expect((await Promise.all(before.map(runs))).every(Boolean)).toBe(true)
  first.process.kill('SIGKILL')
  await first.exited
  const noneRuns = async () => !(await Promise.all(before.map(runs))).some(Boolean)
  await waitUntil('the end of what the launcher had started', noneRuns, { timeoutMs: 60_000 })

  const third = launch()
  const output = await ready(third)
  // the same key: the database of the first start is there
  expect(/^Demo key (.*)$/m.exec(output)?.[1]).toBe(/^Demo key (.*)$/m.exec(first.output())?.[1])

  const after = await Promise.all(roles.map(recordOf))
  third.process.kill('SIGTERM')
  expect(await third.exited).toBe(0)
  expect((await Promise.all(after.map(runs))).some(Boolean)).toBe(false)
  await expect(stat(loadConfig(settings).sockets.dir)).rejects.toThrow(/ENOENT/)
})

test('a stop ends a process that hangs, within twenty seconds', async () => {
  const launcher = launch()
  await ready(launcher)
  const all = await Promise.all(roles.map(recordOf))
  // stands for whatever keeps it from answering SIGTERM
  process.kill(all[0]?.pid as number, 'SIGSTOP')
  const startedAt = performance.now()
  launcher.process.kill('SIGTERM')
  expect(await launcher.exited).toBe(0)
  expect(performance.now() - startedAt).toBeLessThan(20_000)
  expect((await Promise.all(all.map(runs))).some(Boolean)).toBe(false)
})
