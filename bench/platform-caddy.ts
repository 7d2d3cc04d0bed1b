import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Config, loadConfig } from '../infra/config.ts'
import { startCaddy } from '../infra/local/caddy-process.ts'
import { freePort } from '../infra/local/ports.ts'
import type { Running } from '../infra/local/supervisor.ts'
import { findTool } from '../infra/local/tools.ts'

/** The Caddy that this machine's `npm start` would use. */
export const findCaddy = () => findTool('caddy', { cacheDir: loadConfig().cacheDir, report: () => undefined })

export const secretKey = Buffer.alloc(32, 'bench')

/** A configuration for a Caddy on ports of its own, with its state in a folder. */
export async function platformConfig(dataDir: string, settings: Readonly<Record<string, string>>): Promise<Config> {
  return loadConfig({
    PLINTH_DATA_DIR: dataDir,
    PLINTH_HTTP_PORT: `${await freePort()}`,
    PLINTH_HTTPS_PORT: `${await freePort()}`,
    PLINTH_LISTEN: '127.0.0.1',
    PLINTH_SECRET_KEY: secretKey.toString('base64'),
    PLINTH_CERTIFICATES_PORT: `${await freePort()}`,
    ...settings,
  })
}

/** Caddy, configured as for `npm start`. Whatever listens on `config.sockets.edge` is the edge behind it. */
export async function startPlatformCaddy(stack: AsyncDisposableStack, config: Config): Promise<Running> {
  await mkdir(config.sockets.dir, { recursive: true, mode: 0o700 })
  stack.defer(() => rm(config.sockets.dir, { recursive: true, force: true }))
  await mkdir(join(config.dataDir, 'caddy'), { recursive: true })
  const logDir = join(config.dataDir, 'logs')
  return stack.use(await startCaddy(await findCaddy(), config, logDir, new AbortController().signal))
}
