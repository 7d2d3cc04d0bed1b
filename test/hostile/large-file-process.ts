import { once } from 'node:events'
import { Readable } from 'node:stream'
import { storeManifest } from '../../infra/cas/manifests.ts'
import { openTestEdge, routeOf } from '../edge/test-edge.ts'

// An edge in a process of its own, with a site that has one file of 50 MB, `/large.bin`, and a small one beside it. It prints its port.

const MB = 1_000_000

/** In parts, so that making it leaves no memory behind that the edge would not have taken. */
function* content() {
  for (let i = 0; i < 50; i++) yield Buffer.alloc(MB, i)
}

await using edge = await openTestEdge()
await edge.publish('victim', { 'index.html': 'home' })
const large = await edge.cas.put(Readable.from(content(), { objectMode: false }))
const manifest = await storeManifest({ add: edge.cas.put }, [{ path: 'large.bin', ...large }])
edge.routes.apply([routeOf('large', manifest)], [])
process.stdout.write(`${edge.port}\n`)
await once(process, 'SIGTERM')
