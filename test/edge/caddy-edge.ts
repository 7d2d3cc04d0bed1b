import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Config, loadConfig } from '../../infra/config.ts'
import { startCaddy } from '../../infra/local/caddy-process.ts'
import { freePort } from '../../infra/local/ports.ts'
import { findTool } from '../../infra/local/tools.ts'
import { platformDomain } from './test-edge.ts'

/** A real Caddy, configured as for `npm start`. Whatever listens on `config.sockets.edge` is the edge behind it. */
export async function openCaddy() {
  await using stack = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'plinth-caddy-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  const port = await freePort()
  const loaded = loadConfig({
    PLINTH_DATA_DIR: dir,
    PLINTH_HTTP_PORT: String(port),
    PLINTH_HTTPS_PORT: String(await freePort()),
    PLINTH_BASE_URL: `http://platform.test:${port}`,
    PLINTH_PLATFORM_DOMAIN: platformDomain,
    PLINTH_SECRET_KEY: Buffer.alloc(32, 'key').toString('base64'),
    PLINTH_CERTIFICATES_PORT: String(await freePort()),
  })
  const config: Config = { ...loaded, http: { ...loaded.http, listen: ['127.0.0.1'] } }
  await mkdir(config.sockets.dir, { recursive: true, mode: 0o700 })
  stack.defer(() => rm(config.sockets.dir, { recursive: true, force: true }))
  await mkdir(join(dir, 'caddy'))
  const binary = await findTool('caddy', { cacheDir: loadConfig().cacheDir, report: () => undefined })
  const caddy = stack.use(await startCaddy(binary, config, join(dir, 'logs'), new AbortController().signal))
  const owned = stack.move()
  return { config, port, pid: caddy.pid, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

/** Sends bytes as they are and answers the first status line that comes back; empty when the connection is closed without one. */
export function firstLine(port: number, bytes: string): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk.toString('latin1')
    if (answer.includes('\r\n')) resolve(answer.slice(0, answer.indexOf('\r\n')))
  })
  socket.on('close', () => resolve(answer)).on('error', () => resolve(answer))
  socket.write(Buffer.from(bytes, 'latin1'))
  return promise.finally(() => socket.destroy())
}
