import { constants, setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { threadId } from '../../infra/threads/thread-cpu.ts'
import { openTrafficStore } from '../../services/feeds/traffic-store.ts'
import { runCollector } from './collector.ts'
import { RingReader } from './ring.ts'
import type { ThreadData, ThreadMessage } from './traffic.ts'

// The thread that counts what the edge has answered: see traffic.ts.

const { ring, databaseUrl, secretKey, salts, ...data } = workerData as ThreadData
// visitors come first; on a machine that has nothing to spare it still gets a tenth of a processor, three times what full load needs
const id = threadId()
if (id !== undefined) setPriority(id, constants.priority.PRIORITY_BELOW_NORMAL)
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
