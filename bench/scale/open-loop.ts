import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'

export interface OpenLoop {
  readonly socketPath: string
  /** Each is a whole request, in the order of sending. */
  readonly requests: readonly Buffer[]
  /** Requests a second. */
  readonly rate: number
}

const connections = 64
const headEnd = Buffer.from('\r\n\r\n')

/**
 * Sends requests at a fixed rate over kept connections, whether or not earlier ones are answered. Answers the milliseconds of each from the
 * instant at which it was due, so that a server which stands still cannot hide the requests that wait. It takes a processor for itself,
 * because timers would be a millisecond late.
 * @throws when an answer is not 200
 */
export async function openLoop({ socketPath, requests, rate }: OpenLoop): Promise<Float64Array> {
  const tookMs = new Float64Array(requests.length)
  const idle: Connection[] = []
  const waiting: number[] = []
  const state = { answered: 0, failures: [] as Error[] }
  const beganAt = performance.now() + 10
  const dueAt = (index: number) => beganAt + (index * 1000) / rate
  const send = (index: number, connection: Connection) => {
    connection.send(requests[index] as Buffer, (error) => {
      tookMs[index] = performance.now() - dueAt(index)
      state.answered += 1
      if (error) state.failures.push(error)
      const next = waiting.shift()
      if (next === undefined) idle.push(connection)
      else send(next, connection)
    })
  }
  using opened = new DisposableStack()
  for (let i = 0; i < connections; i++) idle.push(opened.use(await openConnection(socketPath)))
  let next = 0
  while (state.answered < requests.length && state.failures.length === 0) {
    for (const now = performance.now(); next < requests.length && dueAt(next) <= now; next++) {
      const connection = idle.pop()
      if (connection) send(next, connection)
      else waiting.push(next)
    }
    await turn()
  }
  for (const error of state.failures) throw error
  return tookMs
}

interface Connection extends Disposable {
  /** Sends one request, and calls back when its answer is complete. */
  send(request: Buffer, answered: (error?: Error) => void): void
}

/** HTTP/1.1 with as little work as possible: every answer has a Content-Length. */
async function openConnection(socketPath: string): Promise<Connection> {
  const socket: Socket = connect(socketPath)
  await once(socket, 'connect')
  let done: ((error?: Error) => void) | undefined
  let received: Buffer | undefined
  /** Bytes of the answer that are still to come; undefined before its headers are complete. */
  let missing: number | undefined
  const end = (error?: Error) => {
    const answered = done
    done = undefined
    received = undefined
    missing = undefined
    answered?.(error)
  }
  socket.on('error', end).on('close', () => end(new Error('the server closed a connection')))
  socket.on('data', (chunk: Buffer) => {
    if (missing === undefined) {
      received = received ? Buffer.concat([received, chunk]) : chunk
      const at = received.indexOf(headEnd)
      if (at === -1) return
      const head = received.toString('latin1', 0, at)
      const length = /\r\nContent-Length: (\d+)/i.exec(head)?.[1]
      if (!head.startsWith('HTTP/1.1 200 ') || length === undefined) return end(new Error(`answered ${head}`))
      missing = at + headEnd.length + Number(length) - received.length
    } else missing -= chunk.length
    if (missing === 0) end()
  })
  return {
    send(request, answered) {
      done = answered
      socket.write(request)
    },
    [Symbol.dispose]: () => void socket.destroy(),
  }
}
