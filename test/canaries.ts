import { once } from 'node:events'
import { type AddressInfo, createServer, type ListenOptions } from 'node:net'

/** Servers that note who connects to them, beside services that must not be reached. */
export interface Canaries extends AsyncDisposable {
  /** The names of those that were connected to. */
  readonly hits: readonly string[]
  /** The ports that they listen on, at least one. */
  readonly ports: readonly number[]
  forget(): void
}

/**
 * Listens at the hosts on the ports that are free, on one port of each host that the system chooses, and at the named places.
 * Tests that run at the same time share the machine, so a port that is taken has another listener.
 */
export async function openCanaries(
  hosts: readonly string[],
  wanted: readonly number[],
  places: Readonly<Record<string, ListenOptions>> = {},
): Promise<Canaries> {
  await using stack = new AsyncDisposableStack()
  let hits: { readonly name: string }[] = []

  async function listen(name: string, where: ListenOptions): Promise<AddressInfo | string | null> {
    const server = createServer((socket) => {
      const hit = { name }
      hits.push(hit)
      socket.once('data', (bytes) => {
        // a test beside this one asks port 80 of this machine for the proof of a certificate
        if (bytes.toString('latin1').startsWith('GET /.well-known/acme-challenge/')) hits = hits.filter((other) => other !== hit)
        socket.destroy()
      })
      socket.on('error', () => undefined).setTimeout(500, () => socket.destroy())
    })
    await once(server.listen(where), 'listening')
    stack.defer(() => new Promise((done) => void server.close(() => done())))
    return server.address()
  }

  const ports: number[] = []
  for (const host of hosts) {
    for (const port of [...wanted, 0]) {
      const address = await listen(`${host} port ${port}`, { host, port }).catch(() => undefined)
      if (address && typeof address === 'object') ports.push(address.port)
    }
  }
  if (ports.length === 0) throw new Error('no port could be listened on')
  for (const [name, place] of Object.entries(places)) await listen(name, place)

  const opened = stack.move()
  return {
    get hits() {
      return hits.map(({ name }) => name)
    },
    ports,
    forget() {
      hits = []
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}
