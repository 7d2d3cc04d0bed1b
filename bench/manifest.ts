import { hash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { Stack } from '../infra/local/stack.ts'
import { agent, type Call, caller, json, print, type Sent, waitActive, waitServed } from './client.ts'
import { withStack } from './stack.ts'

// How long manifest deploys take until the edge serves them, through the real processes and Caddy. Without a pause each redeploy competes for the
// processors with what follows the publication of the one before.
//   npm run bench manifest -- [--pause <milliseconds>]

const { values: options } = parseArgs({ options: { pause: { type: 'string', default: '0' } } })

const fileCount = 2000
const runs = 20
const warmUps = 3
const projectCount = 20
const deploysEach = 10
const atOnce = 8

const page = (title: string) => `<!doctype html><title>${title}</title>`

const bytes = (body: string): Sent => ({ type: 'application/octet-stream', body })

await withStack(async (stack) => {
  await redeployOneOfMany(stack)
  await deployFromMany(stack)
  agent.destroy()
})

/** (a) The same 2,000 files again and again, one of them changed: check, one PUT, manifest, until it is served. */
async function redeployOneOfMany(stack: Stack): Promise<void> {
  const { demo } = stack
  if (!demo?.site) throw new Error('there is no demo site')
  const call = caller(stack, demo.key)
  const host = new URL(demo.site.url).host
  const contents = new Map([['index.html', page('start')]])
  for (let i = 1; i < fileCount; i++) contents.set(`assets/${i % 40}/file-${i}.txt`, `the content of file ${i}\n`)
  const steps: Record<string, number[]> = { check: [], put: [], manifest: [], active: [], served: [] }
  for (let run = -warmUps; run < runs; run++) {
    contents.set('index.html', page(`run ${run}`))
    await pause(Number(options.pause))
    const startedAt = performance.now()
    const note = (step: string) => run >= 0 && steps[step]?.push(performance.now() - startedAt)
    const deploy = await sendManifest(call, demo.site.id, contents, note)
    const servedAt = waitServed(stack, host, page(`run ${run}`)).then(() => note('served'))
    await waitActive(call, deploy.id)
    note('active')
    await servedAt
  }
  print(`${fileCount} files, one changed; since the beginning`, steps)
}

/** (b) Small deploys of many projects, several at once; from the answer of the last step until it is served. */
async function deployFromMany(stack: Stack): Promise<void> {
  const operator = caller(stack, stack.config.operatorToken ?? '')
  const work: (() => Promise<void>)[] = []
  const served: number[] = []
  for (let p = 0; p < projectCount; p++) {
    const project = await operator(
      'POST /operator/v1/projects',
      json({ name: `p${p}`, owner_email: 'p@example.com', plan: 'pro' }),
    )
    const { key } = await operator(`POST /operator/v1/projects/${project.id}/keys`, json({ name: 'bench', scope: 'full' }))
    const call = caller(stack, key)
    const site = await call('POST /api/v1/sites', json({ name: `site ${p}`, subdomain: `bench-manifest-${p}` }))
    const host = new URL(site.url).host
    for (let d = 0; d < deploysEach; d++) {
      // the deploys of one site follow each other, so that each of them is served for a while
      work[d * projectCount + p] = async () => {
        const contents = new Map([
          ['index.html', page(`project ${p}, deploy ${d}`)],
          ['style.css', 'body { color: teal }'],
          ['notes.txt', `of deploy ${d}`],
        ])
        const deploy = await sendManifest(call, site.id, contents)
        const acceptedAt = performance.now()
        await waitServed(stack, host, contents.get('index.html') ?? '')
        served.push(performance.now() - acceptedAt)
        await waitActive(call, deploy.id)
      }
    }
  }
  const queue = work.values()
  const startedAt = performance.now()
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const one of queue) await one()
    }),
  )
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  print(`${work.length} deploys of 3 files from ${projectCount} projects, ${atOnce} at once, all active after ${seconds} s`, {
    'accept → served': served,
  })
}

async function sendManifest(
  call: Call,
  siteId: string,
  contents: ReadonlyMap<string, string>,
  note: (step: string) => void = () => undefined,
) {
  const files = [...contents].map(([path, content]) => ({ path, sha256: hash('sha256', content) }))
  const byHash = new Map(files.map(({ path, sha256 }) => [sha256, contents.get(path) ?? '']))
  const { missing } = (await call(`POST /api/v1/sites/${siteId}/deploys/check`, json({ files }))) as { missing: string[] }
  note('check')
  for (let i = 0; i < missing.length; i += atOnce) {
    const batch = missing.slice(i, i + atOnce)
    await Promise.all(batch.map((sha256) => call(`PUT /api/v1/blobs/${sha256}`, bytes(byHash.get(sha256) ?? ''))))
  }
  note('put')
  const deploy = await call(`POST /api/v1/sites/${siteId}/deploys/manifest`, json({ files }))
  note('manifest')
  return deploy
}
