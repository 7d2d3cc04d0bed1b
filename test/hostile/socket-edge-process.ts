import { once } from 'node:events'
import { openTestEdge } from '../edge/test-edge.ts'

// An edge in a process of its own, with a site of a page, `/`, and an image of 200 KiB, `/image.png`:
// `node socket-edge-process.ts <socket>` prints a line when it serves the socket.

await using edge = await openTestEdge({ listen: { path: process.argv[2] ?? '' } })
await edge.publish('site', { 'index.html': 'home', 'image.png': Buffer.alloc(200 * 1024, 'image') })
process.stdout.write('0\n')
await once(process, 'SIGTERM')
