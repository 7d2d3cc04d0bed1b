import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { waitUntil } from '../../infra/local/wait.ts'
import { platformPorts } from '../ports.ts'
import { report } from './platform.ts'

// kill -9 of each part while a start is nearly done: the first request could be answered, and the demo site is made or looked at

// two starts, on a machine that may have other work
vi.setConfig({ testTimeout: 1_200_000 })

const parts = ['postgres', 'temporal', 'api', 'worker', 'runner', 'edge', 'caddy']

let dir: string
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-starts-'))
  await chmod(dir, 0o711)
  env = { ...process.env, PLINTH_LISTEN: '127.0.0.1', PLINTH_DNS_SERVERS: '127.0.0.1:9', ...(await platformPorts()).settings }
})
afterAll(() => rm(dir, { recursive: true, force: true }))

interface Launcher {
  readonly child: ChildProcess
  readonly lines: readonly string[]
  readonly exited: Promise<string>
}

function launch(dataDir: string): Launcher {
  const child = spawn(process.execPath, ['infra/local/main.ts'], {
    cwd: resolve(import.meta.dirname, '../..'),
    env: { ...env, PLINTH_DATA_DIR: dataDir },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: string[] = []
  for (const input of [child.stdout, child.stderr]) createInterface({ input }).on('line', (line) => lines.push(line))
  const exited = once(child, 'exit').then(() => `the launcher ended: ${lines.join('\n')}`)
  return { child, lines, exited }
}

async function kill(dataDir: string, part: string): Promise<void> {
  const record = JSON.parse(await readFile(join(dataDir, 'run', `${part}.json`), 'utf8')) as { pid: number }
  process.kill(record.pid, 'SIGKILL')
}

const apiAnswers = () =>
  fetch(`http://127.0.0.1:${env['PLINTH_HTTP_PORT']}/healthz`, { headers: { host: 'localhost' } }).then(
    ({ status }) => status === 200,
    () => false,
  )

/** The runner is the last of them. */
const hasStarted = (dataDir: string, part: string) =>
  access(join(dataDir, 'run', `${part}.json`)).then(
    () => true,
    () => false,
  )

const line = ({ lines }: Launcher, word: string) => lines.find((line) => line.startsWith(`${word} `))

/** Starts, kills a part at a moment, and waits until the start says that it is ready; answers the seconds from the kill on. */
async function startAndKill(dataDir: string, part: string, isTheMoment: (lines: readonly string[]) => Promise<boolean>) {
  const launcher = launch(dataDir)
  const { child, lines, exited } = launcher
  try {
    await waitUntil('the moment', () => isTheMoment(lines), { timeoutMs: 280_000, ended: exited })
    await kill(dataDir, part)
    const killedAt = performance.now()
    await waitUntil('npm start', () => lines.at(-1)?.includes('--data-binary') ?? false, { timeoutMs: 280_000, ended: exited })
    const seconds = (performance.now() - killedAt) / 1000
    await waitUntil('the api', apiAnswers, { timeoutMs: 30_000, ended: exited })
    return {
      seconds,
      key: line(launcher, 'Demo key'),
      site: line(launcher, 'Site'),
      isReady: !lines.join().includes('is not ready'),
    }
  } finally {
    child.kill('SIGTERM')
    await exited
  }
}

const inDemo = async (lines: readonly string[]) => lines.some((line) => line.startsWith('builds '))

test.each(parts)(
  'a start goes on when %s is killed while the demo site is made, and again while it is looked at',
  async (part) => {
    const dataDir = join(dir, part)
    const first = await startAndKill(dataDir, part, inDemo)
    expect(first).toMatchObject({ isReady: true, key: expect.any(String), site: expect.stringContaining('plinth-demo') })
    const second = await startAndKill(dataDir, part, inDemo)
    expect(second).toMatchObject({ isReady: true, key: first.key, site: first.site })
    report('22', `${part}: ready ${first.seconds.toFixed(1)} s and ${second.seconds.toFixed(1)} s after the kill`, 'ready')
  },
)

test.each(parts)('a start goes on when %s is killed as soon as the api answers', async (part) => {
  const dataDir = join(dir, `early-${part}`)
  const started = await startAndKill(dataDir, part, async () => (await apiAnswers()) && (await hasStarted(dataDir, part)))
  expect(started).toMatchObject({ isReady: true, key: expect.any(String), site: expect.stringContaining('plinth-demo') })
  report('22', `${part}, killed with the first answer: ready after ${started.seconds.toFixed(1)} s`, 'ready')
})
