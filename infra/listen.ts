import { once } from 'node:events'
import { chmod, mkdir, rm } from 'node:fs/promises'
import type { RequestListener, Server } from 'node:http'
import { type AddressInfo, connect, Server as NetServer, type Socket } from 'node:net'
import { dirname } from 'node:path'
import type { Duplex } from 'node:stream'
import { createServer } from './http.ts'

/** A unix socket, or a port of the loopback address (0: a free one). */
export type Listen = { readonly path: string } | { readonly port: number }

export interface ServerLimits {
  /** In which a whole request has to arrive. */
  readonly requestTimeoutMs: number
  /** After which a connection on which nothing moves is closed; without it, it may wait. */
  readonly stalledMs?: number
}

export interface OpenedServer extends AsyncDisposable {
  /** Undefined for a unix socket. */
  readonly port: number | undefined
}

/** A listener for a server that opens before those who answer are ready: requests wait until they are passed on, unless their sender has left. */
export function holdRequests(): { readonly listener: RequestListener; readonly passTo: (listener: RequestListener) => void } {
  const { promise, resolve } = Promise.withResolvers<RequestListener>()
  const listener: RequestListener = (request, response) =>
    void promise.then((answer) => {
      if (!response.destroyed) answer(request, response)
    })
  return { listener, passTo: resolve }
}

const drainMs = 8000
/**
 * How long kept connections may bring one more request after the server was asked to close. A proxy may have written into a connection that
 * looks idle here; closing it at once would fail that request, and a proxy does not repeat one that may change something.
 */
const lastRequestMs = 500

/**
 * Serves HTTP until disposed; then it takes no new connections, answers one more request on each that is there, lets running responses
 * end for up to eight seconds, and closes.
 * A unix socket can be reached by this user only; one that a killed process left is replaced.
 * @throws when another process serves the socket
 */
export async function openServer(listener: RequestListener, listen: Listen, limits: ServerLimits): Promise<OpenedServer> {
  const server = createServer(
    {
      headersTimeout: 10_000,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: 5000,
      // longer than the two minutes after which Caddy drops an idle connection, so that it never writes into a closed one
      keepAliveTimeout: 150_000,
    },
    listener,
  )
  if (limits.stalledMs !== undefined) server.timeout = limits.stalledMs
  server.on('clientError', refuse)
  // without a listener Node closes the connection, which a proxy in front reports as our failure
  server.on('connect', (_request, socket: Socket) => {
    // Node has taken its own listeners and time limits off
    socket.on('error', () => socket.destroy()).setTimeout(5000, () => socket.destroy())
    answerAndClose(socket, '405 Method Not Allowed', 'this server opens no tunnels', 'allow: GET, HEAD')
  })
  // a connection without a first request does not count as idle
  const unused = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    unused.add(socket)
    socket.once('close', () => unused.delete(socket))
  })
  let isClosing = false
  server.prependListener('request', ({ socket, headers }, response) => {
    unused.delete(socket)
    // an upgrade is answered as if it were none; on its connection Node's parser would leave the next bad request without an answer for 10 s
    if (isClosing || headers.upgrade !== undefined) response.setHeader('connection', 'close')
    // connections are kept without a header that says so, and Caddy sets the date itself
    else response.removeHeader('connection')
    response.sendDate = false
  })
  await listenOn(server, listen)

  return {
    port: 'path' in listen ? undefined : (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      isClosing = true
      // that of HTTP closes the idle connections as well
      NetServer.prototype.close.call(server)
      for (const socket of unused) socket.destroy()
      let idle: NodeJS.Timeout | undefined
      const lastRequests = setTimeout(() => {
        server.close()
        idle = setInterval(() => server.closeIdleConnections(), 50)
      }, lastRequestMs)
      const end = setTimeout(() => server.closeAllConnections(), drainMs)
      await closed
      clearTimeout(lastRequests)
      clearInterval(idle)
      clearTimeout(end)
    },
  }
}

async function listenOn(server: Server, listen: Listen): Promise<void> {
  if ('path' in listen) await freeSocket(listen.path)
  server.listen('path' in listen ? listen : { port: listen.port, host: '127.0.0.1' })
  await once(server, 'listening')
  if ('path' in listen) await chmod(listen.path, 0o600)
}

/** Makes the folder, and removes the socket that a killed process left. */
async function freeSocket(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const probe = connect(path)
  try {
    await once(probe, 'connect')
  } catch {
    await rm(path, { force: true })
    return
  } finally {
    probe.destroy()
  }
  throw new Error(`another process already serves ${path}`)
}

const refusals: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
}

/** What Node's parser does not let through to the listener is answered in the form of every other error. */
function refuse(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable) return void socket.destroy()
  const status = refusals[error.code ?? ''] ?? '400 Bad Request'
  answerAndClose(socket, status, `this is not a request that can be read: ${status.slice(4).toLowerCase()}`)
}

function answerAndClose(socket: Duplex, status: string, message: string, ...more: string[]): void {
  const body = JSON.stringify({ message })
  const headers = [
    'content-type: application/json; charset=utf-8',
    `content-length: ${body.length}`,
    'connection: close',
    ...more,
  ]
  socket.end(`HTTP/1.1 ${status}\r\n${headers.join('\r\n')}\r\n\r\n${body}`)
}
