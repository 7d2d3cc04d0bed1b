import { once } from 'node:events'
import { mkdir, rm } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { dirname } from 'node:path'

/** A unix socket, or a port of the loopback address (0: a free one). */
export type Listen = { readonly path: string } | { readonly port: number }

export interface OpenedServer extends AsyncDisposable {
  /** Undefined for a unix socket. */
  readonly port: number | undefined
}

const drainMs = 10_000

/**
 * Serves until disposed; then it takes no new connections, lets running responses end for up to ten seconds, and closes.
 * @throws when another process serves the socket
 */
export async function openServer(listener: RequestListener, listen: Listen): Promise<OpenedServer> {
  const server = createServer(
    {
      headersTimeout: 10_000,
      requestTimeout: 60_000,
      connectionsCheckingInterval: 5000,
      // longer than the two minutes after which Caddy drops an idle connection, so that it never writes into a closed one
      keepAliveTimeout: 150_000,
    },
    listener,
  )
  // a client that reads nothing for a minute holds an open file
  server.timeout = 60_000
  // a connection without a first request does not count as idle
  const unused = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    unused.add(socket)
    socket.once('close', () => unused.delete(socket))
  })
  server.on('request', ({ socket }) => unused.delete(socket))
  if ('path' in listen) await freeSocket(listen.path)
  server.listen('path' in listen ? listen : { port: listen.port, host: '127.0.0.1' })
  await once(server, 'listening')

  return {
    port: 'path' in listen ? undefined : (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of unused) socket.destroy()
      const idle = setInterval(() => server.closeIdleConnections(), 50)
      const end = setTimeout(() => server.closeAllConnections(), drainMs)
      await closed
      clearInterval(idle)
      clearTimeout(end)
    },
  }
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
