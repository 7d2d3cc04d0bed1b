import { parentPort, workerData } from 'node:worker_threads'
import { openTrafficStore } from '../../services/feeds/traffic-store.ts'
import { runCollector } from './collector.ts'
import { RingReader } from './ring.ts'
import type { ThreadData, ThreadMessage } from './traffic.ts'

// The thread that counts what the edge has answered: see traffic.ts.

const { ring, databaseUrl, secretKey, salts, ...data } = workerData as ThreadData
const stop = new AbortController()
const send = (message: ThreadMessage) => parentPort?.postMessage(message)

parentPort?.once('message', () => stop.abort())
{
  await using store = openTrafficStore(databaseUrl, secretKey)
  await runCollector(
    {
      ...data,
      ring: new RingReader(ring),
      store,
      salts: new Map([...salts].map(([day, salt]) => [day, Buffer.from(salt)])),
      onSalts: (salts) => send({ salts }),
      report: (message, { err, ...fields }) => send({ report: message, fields, cause: err instanceof Error ? err.message : '' }),
    },
    stop.signal,
  )
}
// a wait for the next hit may still be pending
process.exit()
