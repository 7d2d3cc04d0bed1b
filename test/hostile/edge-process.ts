import { join } from 'node:path'
import type { Worker } from 'node:worker_threads'
import { type EdgeOptions, openEdge } from '../../edge/edge.ts'
import { openCas } from '../../infra/cas/open.ts'
import type { Listen } from '../../infra/listen.ts'
import { createLogger } from '../../infra/log.ts'

// An edge as a process of its own, which can be stopped and killed. Sends the port on which it listens, unless it was given a socket. It counts its traffic when it is given a
// secret key in base64; SIGUSR2 then ends the thread that counts, as a failure of it would.

const [, , urls = '', storage = '', snapshotDir = '', key] = process.argv
const counting = (secretKey: Buffer) => ({
  trafficDir: join(snapshotDir, 'traffic'),
  certificates: { secretKey, listen: { port: 0 }, isPlatformHost: () => false, isLocalAuthority: false },
})
let counter: Worker | undefined
process.on('worker', (thread: Worker) => (counter = thread))
process.on('SIGUSR2', () => void counter?.terminate())
const edge = await openEdge({
  listen: { port: 0 },
  ...(JSON.parse(urls) as Pick<EdgeOptions, 'platformDomain' | 'baseUrl' | 'previewUrl' | 'databaseUrl'> & { listen?: Listen }),
  cas: await openCas(storage),
  snapshotDir,
  ...(key === undefined ? {} : counting(Buffer.from(key, 'base64'))),
  log: createLogger('edge', 'silent'),
})
process.once('SIGTERM', () => void edge[Symbol.asyncDispose]())
process.send?.(edge.port ?? 0)
process.disconnect()
