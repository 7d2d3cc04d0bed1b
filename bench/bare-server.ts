import { once } from 'node:events'
import { edgeLimits } from '../edge/edge.ts'
import { openServer } from '../infra/listen.ts'

// A Node server that only says "ok", to compare with. Prints its port.

await using server = await openServer((_req, res) => res.end('ok'), { port: 0 }, edgeLimits)
process.stdout.write(`${server.port}\n`)
await once(process, 'SIGTERM')
