import { once } from 'node:events'
import { Readable } from 'node:stream'
import { storeManifest } from '../../infra/cas/manifests.ts'
import { openTestEdge, routeOf } from '../edge/test-edge.ts'

// An edge in a process of its own, with the site `popular` of so many files of 8 MiB, `/<number>.bin`: `node popular-files-process.ts <files>`
// prints its port.

const MiB = 1024 * 1024

/** In parts, so that making it leaves no memory behind that the edge would not have taken. */
function* content(file: number) {
  for (let i = 0; i < 8; i++) yield Buffer.alloc(MiB, `${file}/${i} `)
}

await using edge = await openTestEdge()
const files = []
for (let file = 0; file < Number(process.argv[2]); file++) {
  const stored = await edge.cas.put(Readable.from(content(file), { objectMode: false }))
  files.push({ path: `${file}.bin`, ...stored })
}
edge.routes.apply([routeOf('popular', await storeManifest({ add: edge.cas.put }, files))], [])
process.stdout.write(`${edge.port}\n`)
await once(process, 'SIGTERM')
