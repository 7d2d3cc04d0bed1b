// Runs inside the sandbox on the build's own Node, so it is plain JavaScript with nothing to import from the platform.
// There is no network but a unix socket, which npm cannot dial: this listens on loopback and passes the bytes on.
import { spawn } from 'node:child_process'
import { writeSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { constants } from 'node:os'

const { socket, commands, folder } = JSON.parse(process.argv[2] ?? '')
const report = (event) => writeSync(3, `${JSON.stringify(event)}\n`)

const relay = createServer((inside) => {
  const outside = connect(socket)
  for (const side of [inside, outside]) {
    side.on('error', () => {
      inside.destroy()
      outside.destroy()
    })
  }
  inside.pipe(outside).pipe(inside)
})
await new Promise((listening) => relay.listen(0, '127.0.0.1', listening))

const proxy = `http://127.0.0.1:${relay.address().port}`
const local = 'localhost,127.0.0.1,::1'
const env = {
  ...process.env,
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

report({ started: true })
let code = 0
for (const step of commands) {
  if (typeof step === 'string') {
    writeSync(1, `${step}\n`)
    continue
  }
  const [program, ...args] = step
  writeSync(1, `$ ${folder ? `cd ${folder.slice(0, -1)} && ` : ''}${[program, ...args].join(' ')}\n`)
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
      writeSync(1, `${program} cannot be started: ${error.message}\n`)
      ended(127)
    })
    child.once('exit', (status, signal) => {
      process.off('SIGTERM', forward)
      ended(signal ? 128 + constants.signals[signal] : status)
    })
  })
}
