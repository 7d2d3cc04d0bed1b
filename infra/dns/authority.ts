import { createSocket, type RemoteInfo } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer, isIPv6, type Socket } from 'node:net'
import { Packet, type Resource } from 'dns2'
import { challengePrefix } from '../../core/domains.ts'
import { ConfigError } from '../config.ts'
import { type Message, RCODE, readMessage, TYPE, withLength } from './message.ts'
import type { ServerAddress } from './servers.ts'

/** The values of a challenge's TXT records, by its full name in lower case; undefined or empty when there are none. */
export type FindTxt = (name: string) => readonly string[] | undefined | Promise<readonly string[] | undefined>

export interface AuthorityOptions {
  readonly listen: ServerAddress
  /** The zone that is delegated to this server, such as `acme.example.com`. */
  readonly zone: string
  /** The name of this server in NS and SOA records; the zone's own name when absent. */
  readonly host?: string
  /** Called for every query of a `_acme-challenge` name. It must answer from memory, or strangers could overload the database. */
  readonly findTxt: FindTxt
}

export interface Authority extends AsyncDisposable {
  readonly port: number
}

/** Limits the zone, because the name of a challenge is as long as the zone and a domain together. */
const maxZoneLength = 100
const zoneName = /^(?:[a-z0-9_-]{1,63}\.)+[a-z0-9_-]{1,63}$/i
const maxQueryBytes = 512
const maxUdpBytes = 512
const maxConnections = 128
const connectionMs = 10_000
/** Resolvers may not cache records for long: a challenge appears and goes within seconds. */
const ttlSeconds = 1

/**
 * Serves the TXT records of ACME challenges over UDP and TCP. Other names of the zone are absent, other zones are refused.
 * @throws ConfigError when the zone is no valid name, or too long for names of challenges
 */
export async function openAuthority({ listen, zone, host = zone, findTxt }: AuthorityOptions): Promise<Authority> {
  if (zone.length > maxZoneLength || !zoneName.test(zone)) {
    throw new ConfigError(`PLINTH_ACME_DNS_ZONE ${zone} must be a domain name of at most ${maxZoneLength} characters`)
  }
  const reply = (bytes: Buffer) => answer(bytes, { zone: zone.toLowerCase(), host, findTxt })
  const sockets = new Set<Socket>()
  const tcp = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
    void serveConnection(socket, reply)
  })
  tcp.maxConnections = maxConnections
  tcp.listen(listen.port, listen.address)
  await once(tcp, 'listening')
  const { port } = tcp.address() as AddressInfo

  let isClosed = false
  const udp = createSocket(isIPv6(listen.address) ? 'udp6' : 'udp4')
  const answerDatagram = async (bytes: Buffer, sender: RemoteInfo) => {
    const message = await reply(bytes)
    if (message && !isClosed) udp.send(fitUdp(message), sender.port, sender.address, () => undefined)
  }
  udp.on('message', (bytes, sender) => void answerDatagram(bytes, sender))
  try {
    udp.bind(port, listen.address)
    await once(udp, 'listening')
  } catch (error) {
    tcp.close()
    throw error
  }
  udp.on('error', () => undefined)
  return {
    port,
    async [Symbol.asyncDispose]() {
      isClosed = true
      const closed = [once(udp, 'close'), once(tcp, 'close')]
      udp.close()
      tcp.close()
      for (const socket of sockets) socket.destroy()
      await Promise.all(closed)
    },
  }
}

/** Answers the queries of a connection in order, until the client closes it or its time is over. */
async function serveConnection(socket: Socket, reply: (bytes: Buffer) => Promise<Packet | undefined>): Promise<void> {
  const timer = setTimeout(() => socket.destroy(), connectionMs)
  let held = Buffer.alloc(0)
  try {
    for await (const chunk of socket) {
      held = Buffer.concat([held, chunk as Buffer])
      while (held.length >= 2) {
        const end = 2 + held.readUInt16BE(0)
        if (end > 2 + maxQueryBytes) return
        if (held.length < end) break
        const message = await reply(held.subarray(2, end))
        if (!message) return
        socket.write(withLength(message.toBuffer()))
        held = held.subarray(end)
      }
    }
    socket.end()
  } catch {
    // the client has gone away
  } finally {
    clearTimeout(timer)
    socket.destroySoon()
  }
}

/** Undefined when nothing is sent: for replies, and for bytes that are no message. */
async function answer(
  bytes: Buffer,
  { zone, host, findTxt }: { readonly zone: string; readonly host: string; readonly findTxt: FindTxt },
): Promise<Packet | undefined> {
  const query = bytes.length <= maxQueryBytes ? readMessage(bytes) : undefined
  if (!query || query.isReply) return undefined
  const { question } = query
  if (query.opcode !== 0) return response(query, RCODE.NOTIMP)
  if (!question) return response(query, RCODE.FORMERR)
  const name = question.name.toLowerCase()
  if (question.class !== Packet.CLASS.IN) return response(query, RCODE.REFUSED)
  if (name !== zone && !name.endsWith(`.${zone}`)) return response(query, RCODE.REFUSED)
  const soa = soaRecord(zone, host)
  if (name === zone && question.type === TYPE.SOA) return response(query, RCODE.NOERROR, [soa])
  if (name === zone && question.type === TYPE.NS) return response(query, RCODE.NOERROR, [record(zone, TYPE.NS, { ns: host })])
  // only leaves are denied: a resolver that asks for one label after the other would stop at a denied parent (RFC 8020)
  if (!name.startsWith(`${challengePrefix}.`)) return response(query, RCODE.NOERROR, [], [soa])
  try {
    const values = (await findTxt(name)) ?? []
    if (values.length === 0) return response(query, name === zone ? RCODE.NOERROR : RCODE.NXDOMAIN, [], [soa])
    if (question.type !== TYPE.TXT) return response(query, RCODE.NOERROR, [], [soa])
    return response(
      query,
      RCODE.NOERROR,
      values.map((value) => record(question.name, TYPE.TXT, { data: chunked(value) })),
    )
  } catch {
    return response(query, RCODE.SERVFAIL)
  }
}

function response(
  { id, question, recursionDesired }: Message,
  rcode: number,
  answers: Resource[] = [],
  authorities: Resource[] = [],
) {
  const packet = new Packet()
  const isOurs = rcode === RCODE.NOERROR || rcode === RCODE.NXDOMAIN
  packet.header = new Packet.Header({ id, qr: 1, aa: isOurs ? 1 : 0, rd: recursionDesired ? 1 : 0, rcode })
  packet.questions = question ? [new Packet.Question(question.name, question.type, question.class)] : []
  packet.answers = answers
  packet.authorities = authorities
  return packet
}

const record = (name: string, type: number, values: Partial<Resource>) =>
  new Packet.Resource({ name, type, class: Packet.CLASS.IN, ttl: ttlSeconds, ...values })

const soaRecord = (zone: string, host: string) =>
  record(zone, TYPE.SOA, {
    primary: host,
    admin: `hostmaster.${zone}`,
    serial: 1,
    refresh: 3600,
    retry: 600,
    expiration: 86_400,
    minimum: ttlSeconds,
  })

/** Character strings have at most 255 bytes (RFC 1035, 3.3). */
const chunked = (value: string) => value.match(/.{1,255}/gs) ?? ['']

/** A message that does not fit loses its records and is marked as truncated, so that the client retries over TCP. */
function fitUdp(message: Packet): Buffer {
  const bytes = message.toBuffer()
  if (bytes.length <= maxUdpBytes) return bytes
  message.header.tc = 1
  message.answers = []
  message.authorities = []
  return message.toBuffer()
}
