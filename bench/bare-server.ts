import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import mime from 'mime'
import { edgeLimits } from '../edge/edge.ts'
import { openServer } from '../infra/listen.ts'

// A bare Node server to compare with. It only says "ok", or answers the files of a folder from memory. Prints its port.
//   node bench/bare-server.ts [<folder> <socket to listen on as well>]

const [, , folder, socket] = process.argv
const answer: RequestListener = folder === undefined ? (_req, res) => res.end('ok') : fileAnswers(folder)

await using opened = new AsyncDisposableStack()
if (socket !== undefined) opened.use(await openServer(answer, { path: socket }, edgeLimits))
const { port } = opened.use(await openServer(answer, { port: 0 }, edgeLimits))
process.stdout.write(`${port}\n`)
await once(process, 'SIGTERM')

function fileAnswers(folder: string): RequestListener {
  const files = new Map<string, { readonly bytes: Buffer; readonly headers: Record<string, string | number> }>()
  return (request, response) => {
    const path = request.url === '/' ? '/index.html' : (request.url ?? '')
    let file = files.get(path)
    if (!file) {
      const bytes = readFileSync(join(folder, path))
      file = { bytes, headers: { 'content-type': mime.getType(path) ?? '', 'content-length': bytes.length } }
      files.set(path, file)
    }
    response.writeHead(200, file.headers).end(file.bytes)
  }
}
