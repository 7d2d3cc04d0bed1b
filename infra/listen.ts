import { once } from 'node:events'
import { chmod, mkdir, rm } from 'node:fs/promises'
import { createServer, type RequestListener, type ServerOptions } from 'node:http'
import { dirname } from 'node:path'
import type { Duplex } from 'node:stream'

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
  server.on('clientError', refuse)
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

const refusals: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
}

/** What Node's parser does not let through to the handler is answered in the form of every other error. */
function refuse(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable) return void socket.destroy()
  const status = refusals[error.code ?? ''] ?? '400 Bad Request'
  const body = JSON.stringify({ message: `this is not a request that can be read: ${status.slice(4).toLowerCase()}` })
  const headers = `content-type: application/json; charset=utf-8\r\ncontent-length: ${body.length}\r\nconnection: close`
  socket.end(`HTTP/1.1 ${status}\r\n${headers}\r\n\r\n${body}`)
}
