import { createHash } from 'node:crypto'
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { backgroundEncodings, type Encoding, encodings, maxBackgroundBytes } from '../../core/encodings.ts'
import { sweepGraceMs } from '../../core/limits.ts'
import { sweepObjects } from '../../services/storage/sweep.ts'
import { openQueues } from '../../workflows/open.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import { ask } from '../edge/test-edge.ts'
import { deployFiles, makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'

// everything else on the machine comes before the process that compresses: beside four busy loops it gets a hundredth of a processor
const soon = { timeout: 300_000, interval: 20 }
vi.setConfig({ testTimeout: 330_000, hookTimeout: 330_000 })

let w: World
let owner: TestProject
let temporal: Client
let connection: Connection
beforeAll(async () => {
  w = await world({ edge: true })
  owner = await w.project('enterprise')
  connection = await Connection.connect({ address: w.temporal.address })
  temporal = new Client({ connection, namespace: w.temporal.namespace })
})
afterAll(async () => {
  await connection?.close()
  await w?.[Symbol.asyncDispose]()
})

const hashOf = (content: string | Buffer) => createHash('sha256').update(content).digest('hex')
const handleOf = (project: TestProject) => temporal.workflow.getHandle(`compress:${project.id}`)
const decoders = { br: brotliDecompressSync, zstd: zstdDecompressSync, gzip: gunzipSync }

/** A text that repeats itself at a distance that is too long for gzip: what the other two save is certain. */
function textOf(seed: string, bytes: number): string {
  const hashes = Array.from({ length: 625 }, (_, i) => hashOf(`${seed} ${i}`)).join('')
  return hashes.repeat(Math.ceil(bytes / hashes.length)).slice(0, bytes)
}
const noise = (bytes: number) =>
  Buffer.concat(Array.from({ length: Math.ceil(bytes / 32) }, (_, i) => createHash('sha256').update(`${bytes} ${i}`).digest()))

const liveDeploy = (siteId: string, on = w) =>
  on.db
    .selectFrom('deploys')
    .innerJoin('sites', 'sites.active_deploy_id', 'deploys.id')
    .select(['deploys.id', 'deploys.compression_due_at'])
    .where('sites.id', '=', siteId)
    .executeTakeFirstOrThrow()
const compressed = (siteId: string, on = w) =>
  vi.waitFor(async () => expect((await liveDeploy(siteId, on)).compression_due_at).toBeNull(), soon)
async function variantsOf(content: string | Buffer): Promise<Encoding[]> {
  const found: Encoding[] = []
  for (const encoding of encodings) {
    const object = await w.cas.open(hashOf(content), encoding)
    await object?.close()
    if (object) found.push(encoding)
  }
  return found
}

describe('after publishing', () => {
  const html = textOf('page', 100_000)
  const files = {
    'index.html': html,
    'logo.png': noise(20_000),
    'tiny.css': 'a { color: red }\n'.repeat(40),
    'random.txt': noise(20_000).toString('base64url').slice(0, 20_000),
    'large.json': textOf('large', maxBackgroundBytes + 1),
  }
  let site: any
  beforeAll(async () => {
    site = await makeSite(w, owner)
    const sent = Object.entries(files).map(([path, content]) =>
      Buffer.isBuffer(content) ? { path, content: content.toString('base64'), encoding: 'base64' } : { path, content },
    )
    await deployFiles(w, owner, site.id, sent)
    await compressed(site.id)
  })

  test('V17: a text has a brotli and a zstd variant that decode to it, beside the gzip variant, and brotli is the smallest', async () => {
    expect(await variantsOf(html)).toEqual(['br', 'zstd', 'gzip'])
    const sizes: number[] = []
    for (const encoding of backgroundEncodings) {
      const bytes = (await (await w.cas.open(hashOf(html), encoding))?.bytes()) ?? Buffer.alloc(0)
      sizes.push(bytes.length)
      expect(decoders[encoding](bytes).toString()).toBe(html)
    }
    const gzip = await w.cas.open(hashOf(html), 'gzip')
    await gzip?.close()
    expect(sizes).toEqual(sizes.toSorted((a, b) => a - b))
    expect(sizes[1]).toBeLessThanOrEqual((gzip?.size ?? 0) * 0.95)
  })

  test.each([
    ['a binary', files['logo.png'], []],
    ['a tiny text', files['tiny.css'], ['gzip']],
    ['a text of which gzip leaves as little', files['random.txt'], ['gzip']],
    ['a text above the limit', files['large.json'], ['gzip']],
  ])('V17: %s has none', async (_what, content, expected) => {
    expect(await variantsOf(content)).toEqual(expected)
  })

  test.each([
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip, zstd', 'zstd'],
    ['gzip', 'gzip'],
  ] as const)('V17: the edge sends it to visitors: %s is answered with %s, and its ETag with 304', async (accept, encoding) => {
    const { platformDomain, preview } = w.config.urls
    const host = `${site.subdomain}.${platformDomain}`
    const visit = (more = {}) =>
      ask(Number(new URL(preview).port), '/', { host, headers: { 'accept-encoding': accept, ...more } })
    // notifications of routes arrive a moment later
    await expect.poll(async () => (await visit()).headers['content-encoding'], soon).toBe(encoding)
    const { headers, body } = await visit()
    expect(decoders[encoding](body).toString()).toBe(html)
    expect([headers.etag, headers.vary]).toEqual([`"${hashOf(html)}-${encoding}"`, 'Accept-Encoding'])
    const again = await visit({ 'if-none-match': headers.etag })
    expect([again.status, again.headers.etag]).toEqual([304, headers.etag])
  })

  test('the workflow tells operators what it has done, and its history replays', async () => {
    const handle = handleOf(owner)
    expect(await handle.result()).toMatch(/^✅ 2 files of 118 KB compressed to \d+ KB$/)
    expect((await handle.describe()).memo?.['outcome']).toMatch(/^✅/)
    await replay(await handle.fetchHistory())
    record(w.temporal, handle.workflowId, 'compress-files')
  })

  test('a project pays no storage for variants', async () => {
    const rows = await w.db.selectFrom('blobs').select('size').where('project_id', '=', owner.id).execute()
    const { usage } = (await w.call(`GET /operator/v1/projects/${owner.id}`, { key: operatorToken })).body
    expect(usage.storage_bytes).toBe(rows.reduce((sum, { size }) => sum + size, 0))
  })

  test('the next deploy compresses changed files alone', async () => {
    const put = vi.spyOn(w.cas, 'putVariant')
    const changed = textOf('changed', 100_000)
    await deployFiles(w, owner, site.id, [
      { path: 'index.html', content: html },
      { path: 'new.html', content: changed },
    ])
    await compressed(site.id)
    expect(put.mock.calls.map(([sha256, encoding]) => [sha256, encoding])).toEqual(
      backgroundEncodings.map((encoding) => [hashOf(changed), encoding]),
    )
    put.mockRestore()
  })

  test('a project does not learn from the variants whether another one stores the file', async () => {
    const stranger = await w.project('enterprise')
    const put = vi.spyOn(w.cas, 'putVariant')
    const other = await makeSite(w, stranger)
    await deployFiles(w, stranger, other.id, [{ path: 'index.html', content: html }])
    await compressed(other.id)
    expect(put.mock.calls.map(([sha256]) => sha256)).toEqual([hashOf(html), hashOf(html)])
    put.mockRestore()
  })

  test('a deploy that is too small for variants starts nothing', async () => {
    const project = await w.project()
    const small = await makeSite(w, project)
    await deployFiles(w, project, small.id, [{ path: 'index.html', content: 'small' }])
    expect((await liveDeploy(small.id)).compression_due_at).toBeNull()
    await expect(handleOf(project).describe()).rejects.toThrow(/not found/)
  })

  test('E10: variants are swept with their blob', async () => {
    const content = textOf('swept', 100_000)
    const gone = await makeSite(w, owner)
    const deploy = await deployFiles(w, owner, gone.id, [{ path: 'index.html', content }])
    await compressed(gone.id)
    await deployFiles(w, owner, gone.id, [{ path: 'index.html', content: 'next' }])
    expect((await w.call(`DELETE /api/v1/deploys/${deploy.id}`, { key: owner.key })).status).toBe(200)
    expect(await variantsOf(content)).toEqual(['br', 'zstd', 'gzip'])
    const before = new Date(Date.now() + 2 * sweepGraceMs)
    await sweepObjects(w, { before, progress: () => undefined, maxShare: 1 })
    expect(await variantsOf(content)).toEqual([])
    expect(await variantsOf(html)).toEqual(['br', 'zstd', 'gzip'])
  })
})

describe('without a worker that compresses', () => {
  const options = { stalledAfterMs: -60_000, dueWithinMs: 0, checkIntervalMs: 1000, retryPauseMs: 1000 }
  let away: World
  let project: TestProject
  const bundle = Promise.resolve({ code: inject('workflowBundle') })
  const startCompressing = () => openQueues({ services: away, temporal: away.temporal, bundle, queues: ['compress'] })
  beforeAll(async () => {
    away = await world({ worker: false, ownTemporal: true })
    project = await away.project('enterprise')
  })
  afterAll(() => away?.[Symbol.asyncDispose]())

  test('a deploy is live at once; a worker that ends in the middle loses a batch, and the next one does the rest', async () => {
    await using _control = await openQueues({ services: away, temporal: away.temporal, bundle, queues: ['control'] })
    const site = await makeSite(away, project)
    const texts = Array.from({ length: 4 }, (_, i) => textOf(`part ${i}`, 530_000))
    const files = texts.map((content, i) => ({ path: i === 0 ? 'index.html' : `${i}.html`, content }))
    expect((await deployFiles(away, project, site.id, files)).status).toBe('active')
    const done = async () => {
      const rows = await away.db.selectFrom('blobs').select('sha256').where('compressed', '=', true).execute()
      return rows.map((row) => row.sha256)
    }
    const put = vi.spyOn(away.cas, 'putVariant')
    const first = await startCompressing()
    await expect.poll(async () => (await done()).length, soon).toBeGreaterThan(0)
    await first[Symbol.asyncDispose]()
    const before = await done()
    expect(before.length).toBeLessThan(texts.length)
    expect((await liveDeploy(site.id, away)).compression_due_at).not.toBeNull()

    await using _second = await startCompressing()
    await compressed(site.id, away)

    const stored = put.mock.calls.map(([sha256]) => sha256)
    for (const sha256 of before) expect(stored.filter((one) => one === sha256).length).toBeLessThanOrEqual(2)
  })

  test('work whose start was lost with the store of Temporal is found by the reconciler', async () => {
    await using _control = await openQueues({ services: away, temporal: away.temporal, bundle, queues: ['control'] })
    const site = await makeSite(away, project)
    await deployFiles(away, project, site.id, [{ path: 'index.html', content: textOf('lost', 5000) }])
    await expect.poll(async () => (await away.db.selectFrom('workflow_starts').select('id').execute()).length, soon).toBe(0)
    await away.killTemporal()
    await away.startTemporal({ forget: true })
    await using _queues = await openQueues({ services: away, temporal: away.temporal, bundle, queues: ['control', 'compress'] })
    const restarted = await reconcile(away, away.workflows, away.clock(), options)
    expect(restarted).toContain(`compress:${project.id}`)
    await compressed(site.id, away)
  })
})

describeHistories(/^compress-.*\.json$/, ['compress-files'])
