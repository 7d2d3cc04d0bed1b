import { openEdge } from '../../edge/edge.ts'
import { openCas } from '../../infra/cas/open.ts'
import { createLogger } from '../../infra/log.ts'

// An edge as a process of its own, which can be stopped and killed. Sends the port on which it listens.

const [, , urls = '', storage = '', snapshotDir = ''] = process.argv
const edge = await openEdge({
  ...(JSON.parse(urls) as { platformDomain: string; baseUrl: string; previewUrl: string; databaseUrl: string }),
  cas: await openCas(storage),
  snapshotDir,
  listen: { port: 0 },
  log: createLogger('edge', 'silent'),
})
process.once('SIGTERM', () => void edge[Symbol.asyncDispose]())
process.send?.(edge.port)
process.disconnect()
