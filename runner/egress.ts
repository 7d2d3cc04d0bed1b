import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { chmod, chown, open, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { connect, isIP, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { isPublicAddress } from '../infra/net/public-address.ts'

export interface EgressPolicy {
  /** Lower-case names that builds reach wherever they resolve to: registries and their mirrors. */
  readonly namedHosts: ReadonlySet<string>
  /** All addresses of a name; replaced in tests. */
  readonly resolve: (host: string) => Promise<readonly string[]>
  /** The port that builds may reach: 443, except in tests. */
  readonly port: number
}

export const publicEgress = (namedHosts: readonly string[]): EgressPolicy => ({
  namedHosts: new Set(namedHosts.map((host) => host.toLowerCase())),
  resolve: async (host) => (await lookup(host, { all: true })).map(({ address }) => address),
  port: 443,
})

export type EgressVerdict =
  | { readonly allowed: true; readonly address: string }
  | { readonly allowed: false; readonly reason: string }

/**
 * Whether a build may connect to `authority`, the `host:port` of a CONNECT, and to which address: the one that was judged,
 * so that a second look-up cannot answer differently.
 */
export async function judgeEgress(authority: string, policy: EgressPolicy): Promise<EgressVerdict> {
  const refused = (reason: string) => ({ allowed: false, reason }) as const
  const [, bracketed, bare, portText] = /^(?:\[([0-9a-f:.]+)\]|([^\s:/@[\]]+)):(\d{1,5})$/i.exec(authority) ?? []
  const host = (bracketed ?? bare ?? '').toLowerCase().replace(/\.$/, '')
  if (host === '') return refused('not a host and port')
  if (Number(portText) !== policy.port) return refused(`builds reach port ${policy.port} only`)
  let addresses: readonly string[]
  try {
    addresses = isIP(host) ? [host] : await policy.resolve(host)
  } catch {
    return refused('the name does not resolve')
  }
  const [address] = addresses
  if (address === undefined) return refused('the name does not resolve')
  if (policy.namedHosts.has(host)) return { allowed: true, address }
  const inner = addresses.find((candidate) => !isPublicAddress(candidate))
  return inner === undefined ? { allowed: true, address } : refused('not at a public address')
}

export interface Egress extends AsyncDisposable {
  readonly socketPath: string
}

export interface EgressOptions {
  /** Where the socket is made. */
  readonly folder: string
  /** The user that may connect. */
  readonly uid: number | undefined
  readonly policy: EgressPolicy
  /** Both directions together. */
  readonly maxBytes: number
  /** One line of the build log. */
  readonly report: (line: string) => void
}

const connectTimeoutMs = 15_000
const idleTimeoutMs = 120_000
const maxConnections = 256
const reportedRefusals = 50

/** The only way out of a sandbox: an HTTP proxy on a unix socket that knows CONNECT and nothing else. One per build. */
export async function openEgress({ folder, uid, policy, maxBytes, report }: EgressOptions): Promise<Egress> {
  const sockets = new Set<Duplex>()
  const refusals = new Set<string>()
  let bytes = 0

  const server = createServer({ maxHeaderSize: 8192 }, (request, response) => {
    const target = request.url ?? ''
    refuse(target, 'plain http is not relayed, use https')
    response.writeHead(403, { 'content-type': 'text/plain', connection: 'close' })
    response.end('builds reach the network over https only\n')
  })
  server.maxConnections = maxConnections
  server.on('connection', (socket) => track(socket))
  server.on('connect', (request, client, head) => {
    void tunnel(request.url ?? '', client, head)
  })
  server.on('clientError', (_error, socket) => socket.destroy())

  const socketPath = join(folder, 'egress.sock')
  // through the descriptor, because a socket's path may have 107 bytes at most
  await using directory = await open(folder)
  server.listen(`/proc/self/fd/${directory.fd}/egress.sock`)
  await once(server, 'listening')
  await chmod(socketPath, 0o600)
  if (uid !== undefined) await chown(socketPath, uid, uid)

  return {
    socketPath,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((done) => server.close(done))
      for (const socket of sockets) socket.destroy()
      await closed
      // the path that it was made by is gone
      await rm(socketPath, { force: true })
    },
  }

  async function tunnel(authority: string, client: Duplex, head: Buffer): Promise<void> {
    const verdict = await judgeEgress(authority, policy)
    if (!verdict.allowed) {
      refuse(authority, verdict.reason)
      client.end(`HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\n\r\nblocked: ${verdict.reason}\n`)
      return
    }
    if (client.destroyed) return
    const remote = connect({ host: verdict.address, port: policy.port })
    track(remote)
    const fail = () => {
      if (remote.readyState === 'opening') client.end('HTTP/1.1 504 Gateway Timeout\r\n\r\n')
      remote.destroy()
    }
    const timer = setTimeout(fail, connectTimeoutMs)
    remote.setTimeout(idleTimeoutMs, fail)
    remote.once('close', () => clearTimeout(timer))
    remote.once('error', () => client.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'))
    remote.once('connect', () => {
      clearTimeout(timer)
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      if (head.length > 0) remote.write(head)
      splice(client, remote)
    })
  }

  function splice(client: Duplex, remote: Socket): void {
    for (const [from, to] of [
      [client, remote],
      [remote, client],
    ] as const) {
      from.on('data', (chunk: Buffer) => count(chunk.length))
      from.pipe(to)
      from.once('close', () => to.destroy())
    }
  }

  function count(more: number): void {
    if (bytes > maxBytes) return
    bytes += more
    if (bytes <= maxBytes) return
    report(`blocked: the build transferred more than ${maxBytes} bytes`)
    for (const socket of sockets) socket.destroy()
  }

  function track(socket: Duplex): void {
    if (bytes > maxBytes) socket.destroy()
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.once('close', () => sockets.delete(socket))
  }

  function refuse(target: string, reason: string): void {
    const line = `blocked: ${JSON.stringify(target.slice(0, 300)).slice(1, -1)} (${reason})`
    if (refusals.has(line) || refusals.size >= reportedRefusals) return
    refusals.add(line)
    report(line)
  }
}
