import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import sirv from 'sirv'

// sirv, which serves the build output of Vite and SvelteKit, with the files of a folder. Prints its port.
//   node bench/edge/sirv-server.ts <folder>

const files = sirv(process.argv[2] ?? '', { etag: true, maxAge: 31_536_000, immutable: true })
const server = createServer((request, response) => files(request, response)).listen(0, '127.0.0.1')
await once(server, 'listening')
process.stdout.write(`${(server.address() as AddressInfo).port}\n`)
await once(process, 'SIGTERM')
server.closeAllConnections()
server.close()
