import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { Packet, type Resource } from 'dns2'
import { freePort } from '../../infra/local/ports.ts'

export interface Query {
  readonly bytes: Buffer
  readonly packet: Packet
  readonly name: string
  readonly type: number
  readonly over: 'udp' | 'tcp'
}

/** What is sent for a query: whole messages, or what a handler does with the connection itself. */
export type Handler = (query: Query, connection: Socket | undefined) => readonly Buffer[] | Buffer | undefined

export interface TestDnsServer extends AsyncDisposable {
  readonly address: '127.0.0.1'
  readonly port: number
  /** Transports and names in the order they were asked. */
  readonly asked: string[]
  /** TCP connections that are open now. */
  readonly connections: () => number
}

/** A name server that sends what the test wants, over UDP and TCP. */
export async function startDnsServer(handle: Handler): Promise<TestDnsServer> {
  const asked: string[] = []
  const sockets = new Set<Socket>()
  const read = (bytes: Buffer, over: Query['over']): Query => {
    const packet = Packet.parse(bytes)
    const [question] = packet.questions
    asked.push(`${over} ${question?.name}`)
    return { bytes, packet, name: question?.name ?? '', type: question?.type ?? 0, over }
  }
  const tcp = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    socket.once('data', (data: Buffer) => {
      for (const message of list(handle(read(data.subarray(2), 'tcp'), socket))) {
        const length = Buffer.alloc(2)
        length.writeUInt16BE(message.length)
        socket.write(Buffer.concat([length, message]))
      }
    })
  })
  const port = await freePort()
  tcp.listen(port, '127.0.0.1')
  await once(tcp, 'listening')
  const udp = createSocket('udp4')
  udp.on('message', (data, sender) => {
    for (const message of list(handle(read(data, 'udp'), undefined))) udp.send(message, sender.port, sender.address)
  })
  udp.bind(port, '127.0.0.1')
  await once(udp, 'listening')
  return {
    address: '127.0.0.1',
    port,
    asked,
    connections: () => sockets.size,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      udp.close()
      tcp.close()
      await once(tcp, 'close')
    },
  }
}

const list = (sent: ReturnType<Handler>) => (sent === undefined ? [] : Buffer.isBuffer(sent) ? [sent] : sent)

export interface Reply {
  readonly answers?: readonly Partial<Resource>[]
  readonly rcode?: number
  readonly truncated?: boolean
  readonly id?: number
  readonly question?: { readonly name: string; readonly type: number } | null
}

/** An ordinary message for a query, with whatever is to be wrong about it. Names and types of records are those of the query. */
export function reply(
  { packet, name, type }: Query,
  { answers = [], rcode = 0, truncated = false, id, question }: Reply = {},
): Buffer {
  const message = new Packet()
  message.header = new Packet.Header({ id: id ?? packet.header.id, qr: 1, rd: 1, ra: 1, rcode, tc: truncated ? 1 : 0 })
  message.questions = question === null ? [] : [new Packet.Question(question?.name ?? name, question?.type ?? type, 1)]
  message.answers = answers.map((answer) => new Packet.Resource({ name, type, class: 1, ttl: 60, ...answer }))
  return message.toBuffer()
}
