import { chmod, copyFile, rm, writeFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { isCaddyUp, pushCaddyConfig } from '../caddy/client.ts'
import { bootstrapConfig, caddyConfig, caddyDir, rootCertificateFile } from '../caddy/config.ts'
import { internalNames } from '../caddy/names.ts'
import type { Config } from '../config.ts'
import { lastLines, type OnSpawn, startChild } from './child.ts'
import type { Running } from './supervisor.ts'
import { waitUntil } from './wait.ts'

/**
 * Starts Caddy with nothing but its admin socket, gives it the computed configuration and publishes the certificate of its own authority
 * as `ca.crt` in the data directory.
 * @throws Error with the last lines of its log
 */
export async function startCaddy(
  binary: string,
  config: Config,
  logDir: string,
  signal: AbortSignal,
  onSpawn?: OnSpawn,
): Promise<Running> {
  const logFile = join(logDir, 'caddy.log')
  const bootstrapFile = join(caddyDir(config), 'bootstrap.json')
  const { caddyAdmin } = config.sockets
  await writeFile(bootstrapFile, JSON.stringify(bootstrapConfig(config)))
  await rm(caddyAdmin, { force: true })
  const child = await startChild({
    command: [binary, 'run', '--config', bootstrapFile],
    // collecting garbage less often saves a tenth of its processor time; above the limit it is collected as often as needed
    env: { HOME: caddyDir(config), GOGC: '400', GOMEMLIMIT: '1GiB' },
    logFile,
    signal,
    onSpawn,
    stopSignal: 'SIGTERM',
    // longer than its grace period
    stopTimeoutMs: 6000,
  })
  try {
    await waitUntil('Caddy', () => isCaddyUp(caddyAdmin), { timeoutMs: 20_000, ended: child.exited })
    await pushCaddyConfig(caddyAdmin, caddyConfig(config))
    const secured = async () =>
      (await Promise.all(internalNames(config).map((name) => canShakeHands(config, name)))).every(Boolean)
    await waitUntil('the certificates of Caddy', secured, { timeoutMs: 20_000, ended: child.exited })
    await copyFile(rootCertificateFile(config), caFile(config))
    await chmod(caFile(config), 0o644)
  } catch (error) {
    await child[Symbol.asyncDispose]()
    throw new Error(`${(error as Error).message}\n${await lastLines(logFile)}`, { cause: error })
  }
  return child
}

/** Whether Caddy has the certificate of a name in memory: it makes them, or reads them again, after it has taken the configuration. */
async function canShakeHands({ http }: Config, name: string): Promise<boolean> {
  if (isIP(name)) return true
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect({
    host: http.listen[0]?.replace(/^\[(.*)\]$/, '$1') || '127.0.0.1',
    port: http.httpsPort,
    servername: name.replace('*', 'any'),
    // only whether there is one: its issuer is a file that may be written at this very moment
    rejectUnauthorized: false,
  })
  socket.setTimeout(2000, () => resolve(false))
  socket.on('secureConnect', () => resolve(true)).on('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

/** What clients trust for https from Caddy's own authority. */
export const caFile = (config: Pick<Config, 'dataDir'>) => join(config.dataDir, 'ca.crt')
