import { once } from 'node:events'
import { connect, type TLSSocket } from 'node:tls'

/** HTTP/2 as bytes, because a client library keeps the rules that an attacker breaks (RFC 9113, RFC 7541). */

const types = { headers: 1, reset: 3, settings: 4, goAway: 7, continuation: 9 } as const
const endStream = 1
const endHeaders = 4

function frame(type: keyof typeof types, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = types[type]
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** GET of a path shorter than 127 bytes, without the end of its headers when more are to follow. */
export function getFrame(stream: number, host: string, path: string, isComplete = true): Buffer {
  const literal = (index: number, value: string) => Buffer.concat([Buffer.from([index, value.length]), Buffer.from(value)])
  // the method GET, the scheme https, the path and the authority; the last two are not to be remembered
  const block = Buffer.concat([Buffer.from([0x82, 0x87]), literal(0x04, path), literal(0x01, host)])
  return frame('headers', endStream | (isComplete ? endHeaders : 0), stream, block)
}

/** Cancels a stream. */
export const resetFrame = (stream: number) => frame('reset', 0, stream, Buffer.from([0, 0, 0, 8]))

/** More headers of a request, all with new names, and never the last ones. */
export function moreHeaders(stream: number, count: number): Buffer {
  const headers = Array.from({ length: count }, (_, i) => {
    const name = `x-${i}`
    const value = 'v'.repeat(100)
    return Buffer.concat([Buffer.from([0, name.length]), Buffer.from(name), Buffer.from([value.length]), Buffer.from(value)])
  })
  return frame('continuation', 0, stream, Buffer.concat(headers))
}

export interface Connection extends Disposable {
  readonly socket: TLSSocket
  readonly isClosed: () => boolean
  /** Frames of a type that have come. */
  readonly received: (type: number) => number
  /** Waits until the bytes are taken, or the connection is closed. */
  write(bytes: Buffer): Promise<void>
}

/** @param windowBytes how much of each answer the server may send before it is asked for more */
export async function openHttp2(port: number, host: string, windowBytes = 65_535): Promise<Connection> {
  const socket = connect({ host: '127.0.0.1', port, servername: host, rejectUnauthorized: false, ALPNProtocols: ['h2'] })
  let isClosed = false
  const counts = new Map<number, number>()
  let rest = Buffer.alloc(0)
  socket.on('error', () => undefined).on('close', () => (isClosed = true))
  socket.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
      const type = rest[3] ?? 0
      counts.set(type, (counts.get(type) ?? 0) + 1)
      rest = rest.subarray(9 + rest.readUIntBE(0, 3))
    }
  })
  await once(socket, 'secureConnect')
  const settings = Buffer.alloc(6)
  settings.writeUInt16BE(4, 0)
  settings.writeUInt32BE(windowBytes, 2)
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame('settings', 0, 0, settings)]))
  return {
    socket,
    isClosed: () => isClosed,
    received: (type) => counts.get(type) ?? 0,
    async write(bytes) {
      if (isClosed || socket.write(bytes)) return
      await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => undefined)
    },
    [Symbol.dispose]: () => void socket.destroy(),
  }
}
