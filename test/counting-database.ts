import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { createDatabase, type TestDatabase } from './database.ts'

export interface CountingDatabase extends TestDatabase {
  /** How often statements whose text matches have been executed over the url. */
  executions(text: RegExp): number
}

/** A migrated database behind a proxy that counts what its clients execute. */
export async function createCountingDatabase(): Promise<CountingDatabase> {
  await using stack = new AsyncDisposableStack()
  const database = stack.use(await createDatabase())
  const target = new URL(database.url)
  const executions = new Map<string, number>()
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    const count = openCounter((text) => executions.set(text, (executions.get(text) ?? 0) + 1))
    client.on('data', count)
    client.pipe(upstream).pipe(client)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket
        .on('error', () => undefined)
        .on('close', () => {
          sockets.delete(socket)
          client.destroy()
          upstream.destroy()
        })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stack.defer(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const url = new URL(database.url)
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const owned = stack.move()
  return {
    url: url.href,
    forbidConnections: (forbidden) => database.forbidConnections(forbidden),
    executions: (text) => [...executions].reduce((sum, [one, count]) => sum + (text.test(one) ? count : 0), 0),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const [query, parse, bind] = Buffer.from('QPB')
const textAt = (bytes: Buffer, from: number) => bytes.toString('utf8', from, bytes.indexOf(0, from))

/** Reads the messages of a client: a type of one byte, except for the first message, and a length that counts itself. */
function openCounter(executed: (text: string) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0)
  let isFirst = true
  const prepared = new Map<string, string>()
  const read = (type: number | undefined, body: Buffer) => {
    const name = type === query ? '' : textAt(body, 0)
    const second = Buffer.byteLength(name) + 1
    if (type === query) executed(textAt(body, 0))
    if (type === parse) prepared.set(name, textAt(body, second))
    // the name of the portal comes before that of the statement
    if (type === bind) executed(prepared.get(textAt(body, second)) ?? '')
  }
  return (chunk) => {
    rest = Buffer.concat([rest, chunk])
    for (;;) {
      const typeBytes = isFirst ? 0 : 1
      if (rest.length < typeBytes + 4) return
      const end = typeBytes + rest.readInt32BE(typeBytes)
      if (rest.length < end) return
      if (!isFirst) read(rest[0], rest.subarray(5, end))
      isFirst = false
      rest = rest.subarray(end)
    }
  }
}
