import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { apiOnSocket } from '../infra/local/api-client.ts'
import { withStack } from './stack.ts'
import { quantile } from './statistics.ts'

// How long from sending ten small files until the edge serves them, through the real processes and Caddy. Without a pause each deploy competes
// for the processors with what follows the publication of the one before: its retention, and the end of its workflow.
//   npm run bench deploy-files -- [--pause <milliseconds>]

const { values } = parseArgs({ options: { pause: { type: 'string', default: '0' } } })
const runs = 50
const warmUps = 5

await withStack(async (stack) => {
  const { config, demo } = stack
  if (!demo?.site) throw new Error('there is no demo site')
  const call = apiOnSocket(config.sockets.api)
  const host = new URL(demo.site.url).host

  const servedText = async (): Promise<string> => {
    const outgoing = request({ host: '127.0.0.1', port: config.http.port, path: '/', headers: { host } }).end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    return await text(response)
  }

  const accepted: number[] = []
  const served: number[] = []
  for (let run = -warmUps; run < runs; run++) {
    await pause(Number(values.pause))
    const page = `<!doctype html><title>run ${run}</title>`
    const others = Array.from({ length: 9 }, (_, i) => ({ path: `file-${i}.txt`, content: `file ${i} of run ${run}\n` }))
    const startedAt = performance.now()
    const { status, body } = await call(`POST /api/v1/sites/${demo.site.id}/deploy-files`, demo.key, {
      files: [{ path: 'index.html', content: page }, ...others],
    })
    if (status !== 200) throw new Error(JSON.stringify(body))
    const acceptedMs = performance.now() - startedAt
    while ((await servedText()) !== page) await pause(2)
    if (run < 0) continue
    accepted.push(acceptedMs)
    served.push(performance.now() - startedAt)
  }
  print('accepted', accepted)
  print('served', served)
})

function print(what: string, samples: number[]): void {
  const at = (share: number) => quantile(samples, share).toFixed(0).padStart(5)
  process.stdout.write(`${what.padEnd(9)} p50 ${at(0.5)} ms   p95 ${at(0.95)} ms   max ${at(1)} ms   of ${samples.length}\n`)
}
