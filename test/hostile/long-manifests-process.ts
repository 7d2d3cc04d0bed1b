import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { openTestEdge, routeOf } from '../edge/test-edge.ts'

// An edge in a process of its own, with sites of the most files and the longest paths that older versions published, and a small one beside
// them: `node long-manifests-process.ts <sites>` prints its port.

const files = 20_000
const filesAtOnce = 500
const folder = `${'x'.repeat(250)}/`.repeat(4)
const sha256 = createHash('sha256').update('page').digest('hex')

/** In parts, so that making it leaves no memory behind that the edge would not have taken. */
function* manifestOf(site: number) {
  const entry = (path: string) => JSON.stringify({ path, sha256, size: 4 })
  yield Buffer.from(`{"files":[${entry('index.html')}`)
  for (let i = 0; i < files; i += filesAtOnce) {
    const part = Array.from({ length: filesAtOnce }, (_, j) => `,${entry(`${folder}${site}-${String(i + j).padStart(6, '0')}`)}`)
    yield Buffer.from(part.join(''))
  }
  yield Buffer.from(']}')
}

await using edge = await openTestEdge()
await edge.publish('victim', { 'index.html': 'home' })
await edge.cas.put(Buffer.from('page'))
for (let site = 0; site < Number(process.argv[2]); site++) {
  const stored = await edge.cas.put(Readable.from(manifestOf(site), { objectMode: false }))
  edge.routes.apply([routeOf(`long-${site}`, stored.sha256)], [])
}
process.stdout.write(`${edge.port}\n`)
await once(process, 'SIGTERM')
