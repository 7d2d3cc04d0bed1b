import { lookup, Resolver } from 'node:dns/promises'
import { connect, isIP, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createServer } from '../../infra/http.ts'
import { isPublicAddress } from '../../infra/net/public-address.ts'
import { untilRefusal } from '../../infra/net/refusal-time.ts'

export interface EgressPolicy {
  /** Lower-case names that builds reach wherever they resolve to: registries and their mirrors. */
  readonly namedHosts: ReadonlySet<string>
  /** Resolves a name; replaced in tests. */
  readonly resolve: (host: string, named: boolean) => Promise<readonly string[]>
  /** The port that builds may reach: 443, except in tests. */
  readonly port: number
}

export const publicEgress = (namedHosts: readonly string[]): EgressPolicy => ({
  namedHosts: new Set(namedHosts.map((host) => host.toLowerCase())),
  resolve: (host, named) => (named ? resolveBySystem(host) : resolveByDns(host)),
  port: 443,
})

/** Resolves a name as the operator's machine does, including its hosts file. */
const resolveBySystem = async (host: string) => (await lookup(host, { all: true })).map(({ address }) => address)

const dnsTimeoutMs = 2000

/** Resolves without the thread pool that handles the files of all builds: look-ups without an answer would block it. */
async function resolveByDns(host: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: dnsTimeoutMs, tries: 2 })
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
  return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
}

export type EgressVerdict =
  | { readonly allowed: true; readonly addresses: readonly [string, ...string[]] }
  | { readonly allowed: false; readonly reason: string }

/**
 * Whether a build may connect to `authority`, the `host:port` of a CONNECT, and to which addresses: those that were checked,
 * so that a second look-up cannot return others.
 */
export async function judgeEgress(authority: string, policy: EgressPolicy): Promise<EgressVerdict> {
  const refused = (reason: string) => ({ allowed: false, reason }) as const
  const [, bracketed, bare, portText] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+)):(\d{1,5})$/i.exec(authority) ?? []
  const host = (bracketed ?? bare ?? '').toLowerCase().replace(/\.$/, '')
  if (host === '') return refused('not a host and port')
  if (Number(portText) !== policy.port) return refused(`builds reach port ${policy.port} only`)
  const named = policy.namedHosts.has(host)
  const isAddress = isIP(host) > 0
  const [first, ...others] = isAddress ? [host] : await policy.resolve(host, named).catch(() => [])
  if (first !== undefined && (named || [first, ...others].every(isPublicAddress)))
    return { allowed: true, addresses: [first, ...others] }
  // the same for an unknown name, so that builds do not learn which names the network of the platform has
  return refused(isAddress ? 'not at a public address' : 'the name has no public address')
}

export interface Egress extends AsyncDisposable {
  /** Takes over a listening socket. A socket stays in the network that it was made in, so this one may lie inside a sandbox. */
  readonly accept: (entrance: Server) => void
}

export interface EgressOptions {
  readonly policy: EgressPolicy
  /** The bytes of both directions together. */
  readonly maxBytes: number
  /** One line of the build log. */
  readonly report: (line: string) => void
  /** How long a connection may take to send its request; 10 seconds, except in tests. */
  readonly requestTimeoutMs?: number
}

const connectTimeoutMs = 15_000
const idleTimeoutMs = 120_000
const maxConnections = 256
const reportedRefusals = 50

/** The only way out of a sandbox: an HTTP proxy that supports only CONNECT. Each build has its own. */
export function openEgress(options: EgressOptions): Egress {
  const { policy, maxBytes, report, requestTimeoutMs = 10_000 } = options
  const transfer = createTransfer(maxBytes, report)
  const refuse = createRefusals(report)
  let closing = false

  const timeouts = {
    headersTimeout: requestTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: requestTimeoutMs / 5,
  }
  const server = createServer({ ...timeouts, maxHeaderSize: 8192 }, (request, response) => {
    const target = request.url ?? ''
    refuse(target, 'plain http is not relayed, use https')
    response.writeHead(403, { 'content-type': 'text/plain', connection: 'close' })
    response.end('builds reach the network over https only\n')
  })
  server.maxConnections = maxConnections
  server.on('connection', (socket) => transfer.track(socket))
  server.on('connect', (request, client, head) => {
    void tunnel(request.url ?? '', client, head)
  })
  server.on('clientError', (_error, socket) => socket.destroy())

  return {
    accept(entrance) {
      // a sandbox that has ended at once may hand its socket over too late
      if (closing) entrance.close()
      else server.listen(entrance)
    },
    async [Symbol.asyncDispose]() {
      closing = true
      const closed = new Promise((done) => server.close(done))
      transfer.end()
      await closed
    },
  }

  async function tunnel(authority: string, client: Duplex, head: Buffer): Promise<void> {
    const startedAtMs = performance.now()
    const verdict = await judgeEgress(authority, policy)
    if (!verdict.allowed) {
      await untilRefusal(startedAtMs)
      refuse(authority, verdict.reason)
      client.end(`HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\n\r\nblocked: ${verdict.reason}\n`)
      return
    }
    if (client.destroyed) return
    const remote = dial(verdict.addresses, policy.port)
    transfer.track(remote)
    client.once('close', () => remote.destroy())
    const abandon = () => remote.destroy()
    const timer = setTimeout(abandon, connectTimeoutMs)
    const noAnswer = () => client.end('HTTP/1.1 502 Bad Gateway\r\n\r\n')
    remote.setTimeout(idleTimeoutMs, abandon)
    remote.once('close', () => clearTimeout(timer)).once('close', noAnswer)
    remote.once('connect', () => {
      clearTimeout(timer)
      remote.off('close', noAnswer)
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      client.unshift(head)
      for (const side of [client, remote]) side.on('data', (chunk: Buffer) => transfer.count(chunk.length))
      client.pipe(remote).pipe(client)
      // not destroyed: the last bytes may still be on their way to the build
      remote.once('close', () => client.end())
    })
  }
}

/** Connects to the first of the checked addresses that answers; the name is not looked up again. */
function dial(addresses: readonly string[], port: number): Socket {
  const judged = addresses.map((address) => ({ address, family: isIP(address) }))
  return connect({ host: 'judged', port, lookup: (_host, _options, done) => done(null, judged) })
}

/** The sockets of a build, all of which are ended when it has transferred more than it may. */
function createTransfer(maxBytes: number, report: (line: string) => void) {
  const sockets = new Set<Duplex>()
  let bytes = 0

  function end(): void {
    for (const socket of sockets) socket.destroy()
  }

  return {
    track(socket: Duplex): void {
      if (bytes > maxBytes) socket.destroy()
      sockets.add(socket)
      socket.on('error', () => socket.destroy())
      socket.once('close', () => sockets.delete(socket))
    },
    count(more: number): void {
      if (bytes > maxBytes) return
      bytes += more
      if (bytes <= maxBytes) return
      report(`blocked: the build transferred more than ${maxBytes} bytes`)
      end()
    },
    end,
  }
}

/** Reports each refusal once, up to a limit. */
function createRefusals(report: (line: string) => void) {
  const refusals = new Set<string>()
  return (target: string, reason: string): void => {
    const line = `blocked: ${JSON.stringify(target.slice(0, 300)).slice(1, -1)} (${reason})`
    if (refusals.has(line) || refusals.size >= reportedRefusals) return
    refusals.add(line)
    report(line)
  }
}
