import { chmod, copyFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isCaddyUp, pushCaddyConfig } from '../caddy/client.ts'
import { bootstrapConfig, caddyConfig, caddyDir, rootCertificateFile } from '../caddy/config.ts'
import type { Config } from '../config.ts'
import { lastLines, startChild } from './child.ts'
import type { Running } from './supervisor.ts'
import { waitUntil } from './wait.ts'

/**
 * Starts Caddy with nothing but its admin socket, gives it the computed configuration and publishes the certificate of its own authority
 * as `ca.crt` in the data directory.
 * @throws Error with the last lines of its log
 */
export async function startCaddy(binary: string, config: Config, logDir: string, signal: AbortSignal): Promise<Running> {
  const logFile = join(logDir, 'caddy.log')
  const bootstrapFile = join(caddyDir(config), 'bootstrap.json')
  const { caddyAdmin } = config.sockets
  await writeFile(bootstrapFile, JSON.stringify(bootstrapConfig(config)))
  await rm(caddyAdmin, { force: true })
  const child = await startChild({
    command: [binary, 'run', '--config', bootstrapFile],
    env: { HOME: caddyDir(config) },
    logFile,
    signal,
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 15_000,
  })
  try {
    await waitUntil('Caddy', () => isCaddyUp(caddyAdmin), { timeoutMs: 20_000, ended: child.exited })
    await pushCaddyConfig(caddyAdmin, caddyConfig(config))
    await copyFile(rootCertificateFile(config), caFile(config))
    await chmod(caFile(config), 0o644)
  } catch (error) {
    await child[Symbol.asyncDispose]()
    throw new Error(`${(error as Error).message}\n${await lastLines(logFile)}`, { cause: error })
  }
  return child
}

/** What clients trust for https from Caddy's own authority. */
export const caFile = (config: Pick<Config, 'dataDir'>) => join(config.dataDir, 'ca.crt')
