import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { freePort } from '../infra/local/ports.ts'
import { median } from './statistics.ts'

// What `npm start` weighs when nothing happens, and how long it takes until it is ready: one start in a new data directory, then warm ones
// in the same. PSS of every process that npm has started, and of npm itself: a page that several processes share counts as a part for each.
//   npm run bench idle -- [--rounds 3] [--settle 20, seconds of idling before memory is read]

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '3' }, settle: { type: 'string', default: '20' } },
})
const root = join(import.meta.dirname, '..')

/** In the order of the search: PostgreSQL has many processes, ours are identified by their main. */
const kinds: readonly [string, RegExp][] = [
  ['PostgreSQL', /postgres/],
  ['Temporal', /\/temporal /],
  ['Caddy', /\/caddy /],
  ['api', / \S*api\/main\.mjs/],
  ['edge', / \S*edge\/main\.mjs/],
  ['worker', / \S*workflows\/main\.mjs/],
  ['runner', / \S*runner\/main\.mjs/],
  ['launcher', /infra\/local\/start\.mjs/],
  ['npm', /^npm /],
]

const dir = await mkdtemp(join(tmpdir(), 'plinth-bench-'))
// the user of PostgreSQL has to pass through
await chmod(dir, 0o711)
try {
  await start()
  const readySeconds: number[] = []
  const readyCpuSeconds: number[] = []
  const memories: Map<string, number>[] = []
  for (let round = 0; round < Number(values.rounds); round++) {
    const { seconds, cpuSeconds, memory } = await start(Number(values.settle))
    readySeconds.push(seconds)
    readyCpuSeconds.push(cpuSeconds)
    memories.push(memory)
    const total = [...memory.values()].reduce((sum, mib) => sum + mib, 0)
    console.log(
      `round ${round + 1}: ready after ${seconds.toFixed(1)} s and ${cpuSeconds.toFixed(1)} s of processor time, ${total.toFixed(0)} MiB`,
    )
  }
  const names = [...new Set(memories.flatMap((memory) => [...memory.keys()]))]
  const rows = names.map((name) => [name, median(memories.map((memory) => memory.get(name) ?? 0))] as const)
  for (const [name, mib] of rows.toSorted((a, b) => b[1] - a[1]))
    console.log(`  ${name.padEnd(12)}${mib.toFixed(0).padStart(5)} MiB`)
  console.log(
    `  ${'in all'.padEnd(12)}${rows
      .reduce((sum, [, mib]) => sum + mib, 0)
      .toFixed(0)
      .padStart(5)} MiB`,
  )
  const [wall, cpu] = [median(readySeconds).toFixed(1), median(readyCpuSeconds).toFixed(1)]
  console.log(`ready after ${wall} s and ${cpu} s of processor time (medians of ${readySeconds.length} warm starts)`)
} finally {
  await rm(dir, { recursive: true, force: true })
}

/** Starts, waits until it is ready and has settled, reads its memory, and stops it. */
async function start(settleSeconds = 0): Promise<{ seconds: number; cpuSeconds: number; memory: Map<string, number> }> {
  const startedAt = performance.now()
  const ports = { PLINTH_HTTP_PORT: `${await freePort()}`, PLINTH_HTTPS_PORT: `${await freePort()}` }
  const npm = spawn('npm', ['start'], {
    cwd: root,
    env: { ...process.env, PLINTH_DATA_DIR: join(dir, 'data'), ...ports },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(npm, 'exit')
  const pid = npm.pid as number
  const printed: string[] = []
  let seconds: number | undefined
  for await (const line of createInterface(npm.stdout)) {
    printed.push(line)
    if (line !== 'Plinth is ready') continue
    seconds = (performance.now() - startedAt) / 1000
    break
  }
  if (seconds === undefined) throw new Error(`npm start ended:\n${printed.join('\n')}`)
  npm.stdout.resume()
  try {
    const cpuSeconds = await cpuSecondsOf(pid)
    await pause(settleSeconds * 1000)
    return { seconds, cpuSeconds, memory: await memoryOf(pid) }
  } finally {
    npm.kill('SIGTERM')
    await ended
  }
}

/** MiB of the process and everything below it, by what it is. */
async function memoryOf(root: number): Promise<Map<string, number>> {
  const memory = new Map<string, number>()
  for (const { pid } of await familyOf(root)) {
    const name = await nameOf(pid)
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
    const kib = Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1] ?? 0)
    memory.set(name, (memory.get(name) ?? 0) + kib / 1024)
  }
  return memory
}

/** Of the process, of everything below it, and of what has ended there. */
async function cpuSecondsOf(root: number): Promise<number> {
  const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))
  return (await familyOf(root)).reduce((sum, { ticks }) => sum + ticks, 0) / ticksPerSecond
}

interface Process {
  readonly pid: number
  readonly parent: number
  /** Its processor time, with that of its children that have ended. */
  readonly ticks: number
}

async function familyOf(root: number): Promise<Process[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const processes = await Promise.all(pids.map(readProcess))
  const family = processes.filter(({ pid }) => pid === root)
  for (const { pid } of family) family.push(...processes.filter(({ parent }) => parent === pid))
  return family
}

/** See proc_pid_stat(5): behind the name state and parent, and from the twelfth on utime, stime, cutime, cstime. */
async function readProcess(pid: string): Promise<Process> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const fields = (stat.split(') ').at(-1) ?? '').split(' ').map(Number)
  const ticks = fields.slice(11, 15).reduce((sum, ticks) => sum + ticks, 0)
  return { pid: Number(pid), parent: fields[1] ?? 0, ticks }
}

async function nameOf(pid: number): Promise<string> {
  const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ')
  return kinds.find(([, pattern]) => pattern.test(command))?.[0] ?? (command.split(' ')[0] || 'ended')
}
