import { createHash } from 'node:crypto'
import { chmod, cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { Client, Connection } from '@temporalio/client'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { backgroundEncodings } from '../../core/encodings.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { openCopies } from '../../infra/cas/open.ts'
import { encodeBytes } from '../../infra/compression/encode-bytes.ts'
import { verifyPrefix } from '../../services/storage/scrub.ts'
import { registry } from '../../workflows/registry.ts'
import { startSchedules } from '../../workflows/schedules.ts'
import { deployFiles, makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'

let w: World
let owner: TestProject
let temporal: Client
let connection: Connection
let copies: string
beforeAll(async () => {
  copies = await mkdtemp(join(tmpdir(), 'plinth-copies-'))
  w = await world({ edge: true, env: { PLINTH_STORAGE_COPIES: `${join(copies, 'not-mounted')},${join(copies, 'backup')}` } })
  owner = await w.project('enterprise')
  connection = await Connection.connect({ address: w.temporal.address })
  temporal = new Client({ connection, namespace: w.temporal.namespace })
})
afterAll(async () => {
  await connection?.close()
  await w?.[Symbol.asyncDispose]()
  await rm(copies, { recursive: true, force: true })
})

const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')
const pathOf = (sha256: string, suffix = '') => join(w.dir, 'cas', 'objects', sha256.slice(0, 2), sha256.slice(2) + suffix)
const silent = pino({ level: 'silent' })

/** Flips one bit in the middle of a file, as a disk does. */
async function damage(path: string): Promise<void> {
  const bytes = await readFile(path)
  const at = Math.floor(bytes.length / 2)
  bytes[at] = (bytes[at] ?? 0) ^ 1
  await chmod(path, 0o644)
  await writeFile(path, bytes)
}

let runs = 0
async function scrub(prefixes = 256) {
  runs += 1
  const workflowId = `${registry.scrubStorage.schedule.workflow_id}-${runs}`
  const handle = await temporal.workflow.start('scrubStorage', { workflowId, taskQueue: 'control', args: [{ prefixes }] })
  return { handle, text: (await handle.result()) as string }
}
const storage = async () => (await w.call('GET /operator/v1/storage', { key: operatorToken })).body
const metric = async (name: string) => {
  const { body } = await w.call('GET /metrics', { key: operatorToken })
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(body)?.[1])
}
const random = (i: number) => createHash('sha512').update(`seed ${i}`).digest('hex')

describe('check 25: five flipped bits', () => {
  const files = [
    { path: 'index.html', content: '<!doctype html><title>scrubbed</title>' },
    ...[1, 2, 3, 4, 5, 6].map((i) => ({ path: `${i}.bin`, content: random(i) })),
  ]
  const flipped = files.slice(1, 6)
  let site: any
  let deploy: any
  beforeAll(async () => {
    site = await makeSite(w, owner)
    deploy = await deployFiles(w, owner, site.id, files)
    for (const { content } of flipped) await damage(pathOf(hashOf(content)))
  })

  test('are all found, and the workflow says so; its history replays', async () => {
    const { handle, text } = await scrub()
    expect(text).toMatch(/^✅ verified \d+ objects \(\d+ KB\), ⚠️ 5 damaged: see GET \/operator\/v1\/storage$/)
    expect((await handle.describe()).memo).toEqual({ outcome: text })
    await replay(await handle.fetchHistory())
  }, 120_000)

  test('operators see them with the deploys that need them, and in the metrics', async () => {
    const { damaged, damaged_objects, verified_share, objects } = await storage()
    expect([damaged_objects, verified_share]).toEqual([5, 1])
    expect(objects).toBeGreaterThanOrEqual(3)
    expect(damaged.map((one: any) => one.sha256).sort()).toEqual(flipped.map(({ content }) => hashOf(content)).sort())
    const first = damaged.find((one: any) => one.sha256 === hashOf(flipped[0]?.content ?? ''))
    expect(first.uses).toEqual([{ project_id: owner.id, site_id: site.id, deploy_id: deploy.id, path: '1.bin', live: true }])
    expect(await metric('plinth_storage_damaged_objects')).toBe(5)
    expect(await metric('plinth_storage_unverified_share')).toBe(0)
    expect(await metric('plinth_storage_verified_bytes')).toBeGreaterThan(0)
  })

  test('nobody gets their bytes: the edge asks to try again, and serves the others', async () => {
    for (const { path } of flipped) expect((await w.visit(site.subdomain, `/${path}`)).status).toBe(503)
    expect((await w.visit(site.subdomain, '/6.bin')).body).toBe(random(6))
    expect((await readdir(join(w.dir, 'cas', 'quarantine'))).length).toBe(5)
  })

  test('a check names them as missing, and a manifest that needs them is refused', async () => {
    const list = { files: files.map(({ path, content }) => ({ path, sha256: hashOf(content) })) }
    const post = (step: string) => w.call(`POST /api/v1/sites/${site.id}/deploys/${step}`, { key: owner.key, json: list })
    expect((await post('check')).body.missing.sort()).toEqual(flipped.map(({ content }) => hashOf(content)).sort())
    expect((await post('manifest')).status).toBe(400)
  })

  test('an upload of the same bytes repairs, and so does a deploy of the same file', async () => {
    const [one, ...others] = flipped.map(({ content }) => content) as [string, ...string[]]
    const put = { key: owner.key, bytes: Buffer.from(one), type: 'application/octet-stream' }
    expect((await w.call(`PUT /api/v1/blobs/${hashOf(one)}`, put)).status).toBe(200)
    expect(await metric('plinth_storage_damaged_objects')).toBe(4)
    const other = await makeSite(w, owner)
    await deployFiles(w, owner, other.id, [
      { path: 'index.html', content: 'x' },
      ...others.map((content, i) => ({ path: `${i}`, content })),
    ])
    const { damaged_objects, damaged } = await storage()
    expect(damaged_objects).toBe(0)
    expect(damaged.every((row: any) => row.repaired_at !== null)).toBe(true)
    await expect.poll(async () => (await w.visit(site.subdomain, '/1.bin')).body).toBe(one)
  })
})

describe('repairs without anybody', () => {
  const text = 'text that shrinks '.repeat(200)
  const verify = (content = text, copies: readonly Pick<Cas, 'open'>[] = []) =>
    verifyPrefix({ ...w, log: silent, clock: () => new Date(), copies }, hashOf(content).slice(0, 2), () => undefined)

  test('a damaged object comes back from its gzip variant, and a damaged variant from its object', async () => {
    const site = await makeSite(w, owner)
    await deployFiles(w, owner, site.id, [{ path: 'index.html', content: text }])
    await damage(pathOf(hashOf(text)))
    expect(await verify()).toMatchObject({ damaged: 0, repaired: 1 })
    expect(await readFile(pathOf(hashOf(text)), 'utf8')).toBe(text)
    await damage(pathOf(hashOf(text), '.gz'))
    expect(await verify()).toMatchObject({ damaged: 0, repaired: 0 })
    expect(await readFile(pathOf(hashOf(text), '.gz'))).toEqual(gzipSync(text))
  })

  test('damaged brotli and zstd variants are made again, and each of them brings back the object', async () => {
    const content = 'brotli and zstd '.repeat(300)
    const suffixes = { br: '.br', zstd: '.zst' }
    const site = await makeSite(w, owner)
    await deployFiles(w, owner, site.id, [{ path: 'index.html', content }])
    await rm(pathOf(hashOf(content), '.gz'))
    for (const encoding of backgroundEncodings) {
      const [object, variant] = [pathOf(hashOf(content)), pathOf(hashOf(content), suffixes[encoding])]
      const bytes = await encodeBytes[encoding](Buffer.from(content))
      await w.cas.putVariant(hashOf(content), encoding, bytes)
      await damage(variant)
      expect(await verify(content)).toMatchObject({ damaged: 0, repaired: 0 })
      expect(await readFile(variant)).toEqual(bytes)
      await damage(object)
      expect(await verify(content)).toMatchObject({ damaged: 0, repaired: 1 })
      expect(await readFile(object, 'utf8')).toBe(content)
      await w.cas.removeVariant(hashOf(content), encoding)
      await rm(pathOf(hashOf(content), '.gz'), { force: true })
    }
  })

  test('a damaged object that is moved aside takes its variants along, and they are made again with the object', async () => {
    const content = `${random(300)} variants `.repeat(100)
    const site = await makeSite(w, owner)
    const files = [{ path: 'index.html', content }]
    await deployFiles(w, owner, site.id, files)
    const isCompressed = async () =>
      (await w.db.selectFrom('blobs').select('compressed').where('sha256', '=', hashOf(content)).executeTakeFirstOrThrow())
        .compressed
    await expect.poll(isCompressed).toBe(true)
    for (const suffix of ['', '.gz', '.br', '.zst']) await damage(pathOf(hashOf(content), suffix)).catch(() => undefined)
    expect(await verify(content)).toMatchObject({ damaged: 1 })
    expect([await isCompressed(), await w.cas.open(hashOf(content), 'br')]).toEqual([false, undefined])
    await deployFiles(w, owner, site.id, files)
    await expect.poll(isCompressed).toBe(true)
    const variant = await w.cas.open(hashOf(content), 'br')
    await variant?.close()
    expect(variant).toBeDefined()
  }, 120_000)

  test('a damaged object comes back from a copy of the storage, and stays aside when the copy is damaged too', async () => {
    const [content, lost] = [random(100), random(101)]
    const site = await makeSite(w, owner)
    await deployFiles(w, owner, site.id, [
      { path: 'index.html', content },
      { path: 'lost.bin', content: lost },
    ])
    await cp(join(w.dir, 'cas'), join(copies, 'backup'), { recursive: true })
    for (const damaged of [content, lost]) await damage(pathOf(hashOf(damaged)))
    const copyOfLost = pathOf(hashOf(lost)).replace(join(w.dir, 'cas'), join(copies, 'backup'))
    await damage(copyOfLost)
    const parts = [content, lost].map((damaged) => hashOf(damaged).slice(0, 2))
    await w.db
      .updateTable('verified_prefixes')
      .set({ verified_at: new Date(0) })
      .where('prefix', 'in', parts)
      .execute()
    const { text: outcome } = await scrub(parts.length)
    expect(outcome).toMatch(/1 damaged and repaired, ⚠️ 1 damaged: see/)
    expect(await readFile(pathOf(hashOf(content)), 'utf8')).toBe(content)
    expect((await w.visit(site.subdomain, '/lost.bin')).status).toBe(503)

    await writeFile(copyOfLost, lost)
    expect(await verify(lost, openCopies(w.config.storage.copies))).toMatchObject({ damaged: 0, repaired: 1 })
    expect((await w.visit(site.subdomain, '/lost.bin')).body).toBe(lost)
  }, 120_000)

  test('an object that was put back by hand counts as whole at the next look', async () => {
    const content = random(200)
    const site = await makeSite(w, owner)
    await deployFiles(w, owner, site.id, [{ path: 'index.html', content }])
    await damage(pathOf(hashOf(content)))
    expect(await verify(content)).toMatchObject({ damaged: 1 })
    await writeFile(pathOf(hashOf(content)), content)
    expect(await verify(content)).toMatchObject({ damaged: 0 })
    expect((await storage()).damaged_objects).toBe(0)
  })
})

test('a usual run reads the two parts that were not read for the longest time, as recorded', async () => {
  const handle = await temporal.workflow.start('scrubStorage', { workflowId: 'scrub-usual', taskQueue: 'control', args: [{}] })
  const before = (await storage()).oldest_verification
  expect(await handle.result()).toMatch(/^✅ verified \d+ object/)
  expect((await storage()).oldest_verification >= before).toBe(true)
  await replay(await handle.fetchHistory())
  record(w.temporal, 'scrub-usual', 'scrub-storage')
})

test('the schedule runs it every hour', async () => {
  await using _schedules = startSchedules(w.temporal, silent)
  const schedule = temporal.schedule.getHandle(registry.scrubStorage.schedule.schedule_id)
  const isThere = () => schedule.describe().catch(() => undefined)
  await expect.poll(isThere).toBeDefined()
  expect(await schedule.describe()).toMatchObject({ spec: { intervals: [{ every: 3_600_000 }] }, policies: { overlap: 'SKIP' } })
})

describeHistories(/^scrub-.*\.json$/, ['scrub-storage'])
