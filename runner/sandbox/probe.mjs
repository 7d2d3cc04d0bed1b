// Runs inside the sandbox when the runner starts: says what a build could see and do, as a line of JSON for each probe.
import { spawn, spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'

const probes = { view, processes }
const [, , requests = '{}'] = process.argv
for (const [probe, request] of Object.entries(JSON.parse(requests))) await probes[probe](request)

/** What is visible and writable. */
function view({ hidden, readOnly }) {
  const status = readFileSync('/proc/self/status', 'utf8')
  const field = (name) => (new RegExp(`^${name}:(.*)$`, 'm').exec(status)?.[1] ?? '').trim()
  print({
    uid: process.getuid(),
    groups: field('Groups'),
    capabilities: field('CapPrm') + field('CapBnd'),
    noNewPrivileges: field('NoNewPrivs') === '1',
    filtered: field('Seccomp') === '2',
    interfaces: Object.keys(networkInterfaces()),
    environment: readFileSync('/proc/1/environ', 'utf8')
      .split('\0')
      .filter(Boolean)
      .map((line) => line.split('=', 1)[0]),
    processes: readdirSync('/proc').filter((name) => /^\d+$/.test(name)).length,
    visible: hidden.filter((path) => existsSync(path)),
    writable: readOnly.filter(isWritable),
    nestedNamespace: spawnSync('unshare', ['--user', 'true']).status === 0,
  })
}

/** How many of `count` processes can be started. */
async function processes({ count }) {
  const started = []
  for (let i = 0; i < count; i++) {
    const child = spawn('sleep', ['60'], { stdio: 'ignore' })
    child.on('error', () => undefined)
    if (child.pid !== undefined) started.push(child)
  }
  print({ started: started.length })
  await Promise.all(started.map((child) => new Promise((ended) => child.once('exit', ended) && child.kill('SIGKILL'))))
}

function isWritable(path) {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

function print(value) {
  process.stdout.write(`PROBE ${JSON.stringify(value)}\n`)
}
