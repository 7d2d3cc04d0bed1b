import { readdir } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type MadeEntry, tarGz, zip } from '../infra/archives.ts'
import { hostileArchives } from '../infra/hostile-archives.ts'
import { makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

const MB = 1024 * 1024
// before there are connections: making them takes longer than an idle one is kept
const archives = hostileArchives.map((one) => ({ ...one, bytes: one.bytes() }))
let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ runner: true, edge: true })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const send = (siteId: string, bytes: Buffer) =>
  w.call(`POST /api/v1/sites/${siteId}/deploys`, { key: owner.key, bytes, type: 'application/octet-stream' })

test.each<[string, Buffer, RegExp]>([
  ['nothing', Buffer.alloc(0), /empty/],
  ['text', Buffer.from('hello'), /archive/],
  ['half a signature', Buffer.from([0x1f]), /archive/],
  ['a plain tar', Buffer.alloc(1024), /archive/],
  ['one byte more than 50 MB', Buffer.concat([Buffer.from([0x1f, 0x8b, 8]), Buffer.alloc(50 * MB - 2)]), /50 MB|large/],
])('D02: %s is refused with 400', async (_name, bytes, message) => {
  const site = await makeSite(w, owner)
  const { status, body } = await send(site.id, bytes)
  expect([status, body.message]).toEqual([400, expect.stringMatching(message)])
  expect((await w.call(`GET /api/v1/sites/${site.id}/deploys`, { key: owner.key })).body).toEqual([])
})

/** Answers what went otherwise than expected. */
async function surprisesOf(lane: typeof archives): Promise<string[]> {
  const site = await makeSite(w, owner)
  const surprises: string[] = []
  for (const { name, bytes, expected, atOnce, kept } of lane) {
    const { status, body } = await send(site.id, bytes)
    const deploy = status === 200 ? await w.ended(body.id, owner.key) : undefined
    const outcome = deploy
      ? `${deploy.status} ${deploy.error ?? deploy.skipped_paths.toSorted().join()}`
      : `${status} ${body.message}`
    const listed = expected instanceof RegExp ? undefined : `active ${expected.toSorted().join()}`
    const failed = expected instanceof RegExp && expected.test(outcome) && outcome.startsWith(atOnce ? '400 ' : 'failed ')
    const eitherWay = expected instanceof RegExp && kept !== undefined && /^(active|failed) /.test(outcome)
    if (outcome !== listed && !failed && !eitherWay) surprises.push(`${name}: ${outcome}`)
  }
  return surprises
}

test('D01 D02 V14: archives of every hostile kind are refused, fail with a clear text, or go live without what is hostile', async () => {
  const before = process.memoryUsage().rss
  const lanes = Array.from({ length: 4 }, (_, lane) => archives.filter((_one, i) => i % 4 === lane))
  expect((await Promise.all(lanes.map(surprisesOf))).flat()).toEqual([])
  // the threads that read the sources have heaps of their own
  expect(process.memoryUsage().rss - before).toBeLessThan(500 * MB)
  expect((await readdir(w.config.build.dir)).filter((entry) => entry.startsWith('run-'))).toEqual([])
}, 480_000)

test.each([
  ['tar.gz', tarGz],
  ['zip', zip],
])('V13 V14: of a %s the service files are listed and never served', async (_format, pack) => {
  const site = await makeSite(w, owner)
  const service = [
    '.env',
    '.env.local',
    '.git/HEAD',
    '.GIT/config',
    '__svc/x',
    '__SVC/y',
    'a/.npmrc',
    'a/node_modules/x.js',
    'b/.DS_Store',
  ]
  const entries: MadeEntry[] = [...service, 'index.html', '404.html', '.well-known/security.txt'].map((name) => ({
    name,
    data: name,
  }))
  const deploy = await w.ended((await send(site.id, pack(entries))).body.id, owner.key)
  expect(deploy).toMatchObject({ status: 'active', file_count: 3 })
  expect([...deploy.skipped_paths].sort()).toEqual([...service].sort())
  await expect.poll(async () => (await w.visit(site.subdomain, '/')).body).toBe('index.html')
  for (const path of service) expect([path, (await w.visit(site.subdomain, `/${path}`)).status]).toEqual([path, 404])
  expect((await w.visit(site.subdomain, '/.well-known/security.txt')).status).toBe(200)
})
