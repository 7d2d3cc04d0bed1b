// Runs inside the sandbox on the build's own Node, so it is plain JavaScript with nothing to import from the platform.
// There is no network but loopback: this listens there and gives the listening socket to the runner, which accepts outside what
// connects inside.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { createServer } from 'node:net'
import { constants } from 'node:os'

const { commands, folder } = JSON.parse(process.argv[2] ?? '')
/** O_CLOEXEC, as /proc says it. */
const closeOnExec = 0o2000000
const report = (event) => writeSync(3, `${JSON.stringify(event)}\n`)

const entrance = createServer().listen(0, '127.0.0.1')
await once(entrance, 'listening')
const proxy = `http://127.0.0.1:${entrance.address().port}`
process.send('entrance', entrance)
// the runner closes the channel; nothing that a build starts may find it open
await once(process, 'disconnect')
entrance.close()

const local = 'localhost,127.0.0.1,::1'
const { PLINTH_PACKED: packed = '', ...given } = process.env
const env = {
  ...given,
  ...unpack(packed),
  HTTP_PROXY: proxy,
  HTTPS_PROXY: proxy,
  NO_PROXY: local,
  http_proxy: proxy,
  https_proxy: proxy,
  no_proxy: local,
  npm_config_proxy: proxy,
  npm_config_https_proxy: proxy,
  npm_config_noproxy: local,
  YARN_HTTP_PROXY: proxy,
  YARN_HTTPS_PROXY: proxy,
}

// descriptors that the runner was started with reach this process, and would go on to every command
for (const fd of readdirSync('/proc/self/fd').map(Number)) if (fd > 2 && isInherited(fd)) closeSync(fd)

report({ started: true })
let code = 0
for (const step of commands) {
  if (typeof step === 'string') {
    writeSync(1, `${step}\n`)
    continue
  }
  const [program, ...args] = step
  writeSync(
    1,
    `$ ${folder ? `cd ${folder.slice(0, -1)} && ` : ''}${program === 'sh' ? args.at(-1) : [program, ...args].join(' ')}\n`,
  )
  code = await run(program, args)
  if (code !== 0) break
}
report({ code })
process.exit(code)

function run(program, args) {
  return new Promise((ended) => {
    const child = spawn(program, args, { stdio: 'inherit', env, cwd: folder || undefined })
    const forward = (signal) => child.kill(signal)
    process.once('SIGTERM', forward)
    child.once('error', (error) => {
      const reason = folder && !existsSync(folder) ? `the folder ${folder.slice(0, -1)} is gone, or shut` : error.message
      writeSync(1, `${program} cannot be started: ${reason}\n`)
      ended(127)
    })
    child.once('exit', (status, signal) => {
      process.off('SIGTERM', forward)
      ended(signal ? 128 + constants.signals[signal] : status)
    })
  })
}

/** The variables that `packVariables` has packed. */
function unpack(packed) {
  const entries = Buffer.from(packed, 'base64').toString().split('\0').filter(Boolean)
  return Object.fromEntries(entries.map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)]))
}

/** Node closes its own at every start of a program. */
function isInherited(fd) {
  try {
    const [, flags = ''] = /^flags:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) ?? []
    return (Number.parseInt(flags, 8) & closeOnExec) === 0
  } catch {
    // it was the listing's own
    return false
  }
}
