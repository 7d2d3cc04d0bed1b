import { once } from 'node:events'
import { chmod, mkdir, rm } from 'node:fs/promises'
import { createServer, type RequestListener, type ServerOptions } from 'node:http'
import { dirname } from 'node:path'

/** Longer than Caddy keeps an idle connection, so that Caddy never writes to one that is being closed. */
const keepAliveTimeout = 150_000

/**
 * Serves HTTP on a unix socket that only this user can reach. A socket left by a killed process is replaced.
 * Closing stops taking connections and waits for the requests in flight.
 * @param requestTimeoutMs in which a whole request has to arrive
 */
export async function listenOnSocket(handler: RequestListener, path: string, requestTimeoutMs: number): Promise<AsyncDisposable> {
  const options: ServerOptions = { headersTimeout: 10_000, requestTimeout: requestTimeoutMs, keepAliveTimeout, keepAlive: true }
  const server = createServer(options, handler)
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await rm(path, { force: true })
  server.listen(path)
  await once(server, 'listening')
  await chmod(path, 0o600)
  return {
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}
