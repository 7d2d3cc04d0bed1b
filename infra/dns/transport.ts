import { createSocket } from 'node:dgram'
import { connect, isIPv6 } from 'node:net'
import { withLength } from './message.ts'
import type { ServerAddress } from './servers.ts'

/** A server gave no usable answer; the message says why. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
}

/** Returns undefined for a message that is not the answer; the wait continues then. */
export type Accept<T> = (message: Buffer) => T | undefined

/** How many messages may be ignored before the server counts as hostile. */
const maxIgnored = 32

/**
 * Sends one datagram and waits for a message that `accept` accepts. The socket is connected, so the kernel drops other senders.
 * @throws NoAnswer
 */
export function askUdp<T>(server: ServerAddress, query: Buffer, timeoutMs: number, accept: Accept<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const socket = createSocket(isIPv6(server.address) ? 'udp6' : 'udp4')
  const timer = setTimeout(() => reject(new NoAnswer('did not answer in time')), timeoutMs)
  const fail = (error: Error) => reject(unreachable(error))
  let ignored = 0
  socket.on('error', fail)
  socket.on('message', (message) => {
    const accepted = accept(message)
    if (accepted !== undefined) resolve(accepted)
    else if (++ignored > maxIgnored) reject(new NoAnswer('sent only messages that are no answer'))
  })
  socket.connect(server.port, server.address, () => socket.send(query, (error) => error && fail(error)))
  return promise.finally(() => {
    clearTimeout(timer)
    socket.close()
  })
}

/**
 * Queries over a connection of its own, which is always closed afterwards.
 * @throws NoAnswer
 */
export function askTcp<T>(server: ServerAddress, query: Buffer, timeoutMs: number, accept: Accept<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const socket = connect({ host: server.address, port: server.port })
  const timer = setTimeout(() => reject(new NoAnswer('did not answer in time over TCP')), timeoutMs)
  const chunks: Buffer[] = []
  let received = 0
  socket.on('error', (error) => reject(unreachable(error)))
  socket.on('close', () => reject(new NoAnswer('closed the connection without an answer')))
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    received += chunk.length
    if (received < 2) return
    if (chunks[0] === undefined || chunks[0].length < 2) chunks.splice(0, chunks.length, Buffer.concat(chunks))
    const end = 2 + (chunks[0]?.readUInt16BE(0) ?? 0)
    if (received < end) return
    const accepted = accept(Buffer.concat(chunks).subarray(2, end))
    if (accepted !== undefined) resolve(accepted)
    else reject(new NoAnswer('sent a message over TCP that is no answer'))
  })
  socket.write(withLength(query))
  return promise.finally(() => {
    clearTimeout(timer)
    socket.destroy()
  })
}

const unreachable = (error: NodeJS.ErrnoException) => new NoAnswer(`cannot be reached (${error.code ?? error.message})`)
