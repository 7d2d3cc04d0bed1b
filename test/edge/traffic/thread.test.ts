import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { getPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { moscowDay } from '../../../core/traffic-days.ts'
import { writeChecked } from '../../../edge/checked-json.ts'
import { hitFlags } from '../../../edge/traffic/hit.ts'
import { createRing, droppedHits, RingWriter } from '../../../edge/traffic/ring.ts'
import { openTraffic, startThread, type ThreadData, type ThreadMessage } from '../../../edge/traffic/traffic.ts'
import { openKeyring } from '../../../infra/crypto/seal.ts'
import { type Db, openDatabase } from '../../../infra/db/database.ts'
import { knownSalts } from '../../../services/feeds/visitor-salts.ts'
import { readDroppedHits } from '../../../services/stats/dropped.ts'
import { createDatabase, type TestDatabase } from '../../database.ts'
import { chrome, type HitPart, hitOf } from './hits.ts'

let database: TestDatabase
let opened: ReturnType<typeof openDatabase>
let db: Db
const dirs: string[] = []
beforeAll(async () => {
  database = await createDatabase()
  opened = openDatabase(database.url)
  db = opened.db
})
afterAll(async () => {
  await opened[Symbol.asyncDispose]()
  await database[Symbol.asyncDispose]()
  for (const dir of dirs) await rm(dir, { recursive: true, force: true })
})

let serial = 0
async function makeSite(): Promise<string> {
  const owner = { name: 'p', owner_email: 'o@p.test', plan: 'free' } as const
  const project = await db.insertInto('projects').values(owner).returning('id').executeTakeFirstOrThrow()
  const site = { project_id: project.id, name: 's', subdomain: `traffic-${serial++}` }
  return (await db.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()).id
}

async function makeDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'plinth-traffic-'))
  dirs.push(dir)
  return dir
}

/** A ring with threads that count what is in it. */
async function openCounting(more: Partial<ThreadData> = {}) {
  const ring = createRing()
  const writer = new RingWriter(ring)
  const streamId = `01890000-0000-7000-8000-${String(serial++).padStart(12, '0')}`
  const secretKey = Buffer.alloc(32, 1)
  const dir = more.dir ?? (await makeDir())
  const data: ThreadData = { ring, dir, streamId, databaseUrl: database.url, secretKey, salts: new Map(), ...more }
  const site = await makeSite()
  const reports: string[] = []
  let salts: ReadonlyMap<string, Uint8Array> = new Map()
  const start = () => {
    const thread = startThread(data)
    thread.on('message', (message: ThreadMessage) => {
      if ('report' in message) reports.push(message.report)
      else salts = message.salts
    })
    return thread
  }
  return {
    dir,
    streamId,
    ring,
    site,
    reports,
    salts: () => salts,
    start,
    add: (hit: HitPart = {}) => {
      const isAdded = writer.append(hitOf({ siteId: site, atMs: Date.now(), ...hit }))
      writer.publish()
      return isAdded
    },
    total: () => totalOf(site),
  }
}

async function totalOf(site: string) {
  const rows = await db.selectFrom('traffic_days').selectAll().where('site_id', '=', site).execute()
  const sum = (name: 'views' | 'visitors' | 'bytes' | 'human_views' | 'human_visitors') =>
    rows.reduce((total, row) => total + row[name], 0)
  return {
    views: sum('views'),
    visitors: sum('visitors'),
    bytes: sum('bytes'),
    human_views: sum('human_views'),
    human_visitors: sum('human_visitors'),
  }
}

async function stop(thread: Worker): Promise<void> {
  const exited = once(thread, 'exit')
  thread.postMessage('stop')
  await exited
}

const segmentsIn = async (dir: string, streamId: string) =>
  (await readdir(join(dir, streamId))).filter((name) => name.endsWith('.json')).sort()
const until = <T>(check: () => Promise<T>) => vi.waitFor(check, { timeout: 60_000, interval: 20 })

test('K02: hits are counted while the edge runs, and the segments are removed', async () => {
  const counting = await openCounting()
  const thread = counting.start()
  // on a busy machine it would begin with a salt of its own, and count a visitor again when PostgreSQL gives it another one
  await until(async () => expect(counting.salts()).not.toEqual(new Map()))
  counting.add()
  counting.add({ target: '/two', address: '192.0.2.2' })
  counting.add({ userAgent: 'curl/8.5.0' })
  await until(async () =>
    expect(await counting.total()).toEqual({ views: 3, visitors: 3, bytes: 300, human_views: 2, human_visitors: 2 }),
  )
  await until(async () => expect(await segmentsIn(counting.dir, counting.streamId)).toEqual([]))
  counting.add()
  await until(async () => expect(await counting.total()).toMatchObject({ views: 4, visitors: 3 }))
  await stop(thread)
})

test.runIf(process.platform === 'linux')('the thread yields to those who answer visitors', async () => {
  const counting = await openCounting()
  const thread = counting.start()
  const priorities = async () => {
    const tasks = await readdir('/proc/self/task')
    const stats = await Promise.all(tasks.map((task) => readFile(`/proc/self/task/${task}/stat`, 'utf8').catch(() => '')))
    // the nice value is the 17th field behind the name
    return stats.map((stat) => Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]))
  }
  const own = getPriority()
  await until(async () => expect(await priorities()).toContain(10))
  expect(getPriority()).toBe(own)
  await stop(thread)
})

test('K02: a stop at once loses nothing', async () => {
  const counting = await openCounting()
  const thread = counting.start()
  for (let n = 0; n < 5000; n++) counting.add({ target: `/${n % 10}` })
  await stop(thread)
  expect(await counting.total()).toMatchObject({ views: 5000, visitors: 1 })
})

test('K02: hits are counted exactly once although the thread is killed at any moment', async () => {
  const counting = await openCounting()
  let written = 0
  for (let round = 0; round < 12; round++) {
    const thread = counting.start()
    const end = performance.now() + 150 + Math.random() * 500
    while (performance.now() < end) {
      if (counting.add({ address: `192.0.2.${written % 50}` })) written += 1
      await pause(1)
    }
    await thread.terminate()
  }
  await stop(counting.start())
  expect(await counting.total()).toMatchObject({ views: written, visitors: 50, bytes: written * 100 })
  expect(droppedHits(counting.ring)).toBe(0)
}, 120_000)

test('K02: a thread that dies is started again and counts on', async () => {
  const [dir, site] = [await makeDir(), await makeSite()]
  const lines: string[] = []
  const log = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) })
  const threads: Worker[] = []
  const keep = (thread: Worker) => void threads.push(thread)
  process.on('worker', keep)
  const options = { dir, databaseUrl: database.url, secretKey: Buffer.alloc(32, 1), log }
  const request = (url: string) =>
    ({
      url,
      method: 'GET',
      socket: {},
      headers: { host: 'h.test', 'user-agent': chrome, 'accept-language': 'ru', 'x-forwarded-for': '192.0.2.9' },
    }) as any
  {
    await using traffic = openTraffic(options)
    traffic.record(site, request('/one'), 200, 'text/html; charset=utf-8', 50)
    await until(async () => expect(await totalOf(site)).toMatchObject({ views: 1 }))
    await threads[0]?.terminate()
    traffic.record(site, request('/two'), 200, 'text/html; charset=utf-8', 50)
    await until(async () => expect(await totalOf(site)).toMatchObject({ views: 2, visitors: 1, human_views: 2, bytes: 100 }))
    traffic.record(site, request('/three'), 200, 'text/html; charset=utf-8', 50)
  }
  expect(await totalOf(site)).toMatchObject({ views: 3 })
  process.off('worker', keep)
  expect(lines.join('')).toContain('it is started again')
})

test('K02: segments wait while PostgreSQL is away, and the next edge applies them', async () => {
  const counting = await openCounting()
  await database.forbidConnections(true)
  try {
    const thread = counting.start()
    for (let n = 1; n <= 3; n++) {
      counting.add({ target: `/${n}` })
      await until(async () => expect(await segmentsIn(counting.dir, counting.streamId)).toHaveLength(n))
    }
    await vi.waitFor(() => expect(counting.reports).toContain('hits of sites wait on disk, because they could not be stored'), {
      timeout: 60_000,
    })
    await stop(thread)
  } finally {
    await database.forbidConnections(false)
  }
  const next = await openCounting({ dir: counting.dir })
  const thread = next.start()
  next.add()
  await until(async () => expect(await next.total()).toMatchObject({ views: 1 }))
  expect(await counting.total()).toMatchObject({ views: 3, visitors: 1 })
  await until(async () => expect(await readdir(counting.dir)).toEqual([next.streamId]))
  await stop(thread)
})

test('K02: visitors who came while PostgreSQL was away at the start count once', async () => {
  const counting = await openCounting()
  await db.deleteFrom('visitor_salts').execute()
  await database.forbidConnections(true)
  let thread: Worker
  try {
    thread = counting.start()
    counting.add()
    await until(async () => expect(await segmentsIn(counting.dir, counting.streamId)).toHaveLength(1))
  } finally {
    await database.forbidConnections(false)
  }
  await until(async () => expect(await counting.total()).toMatchObject({ views: 1 }))
  counting.add()
  await until(async () => expect(await counting.total()).toMatchObject({ views: 2, visitors: 1 }))
  await stop(thread)
})

test('K02: a salt that was replaced in PostgreSQL is soon used by all edges, also by one that has nothing to store', async () => {
  const [one, two] = [await openCounting({ saltsEveryMs: 50 }), await openCounting({ saltsEveryMs: 50 })]
  const [first, second] = [one.start(), two.start()]
  const day = moscowDay(Date.now())
  const keyring = openKeyring(Buffer.alloc(32, 1))
  one.add()
  await until(async () => expect(await one.total()).toMatchObject({ views: 1, visitors: 1 }))
  await until(async () => expect(two.salts().get(day)).toBeDefined())
  await db.deleteFrom('visitor_salts').execute()
  // an edge may be faster, and then the salt stays as it is
  const kept = (await knownSalts(db, keyring, [day])).get(day)
  await db.updateTable('visitor_salts').set({ sealed_salt: 'of another key' }).execute()
  const replaced = (await knownSalts(db, keyring, [day])).get(day)
  expect(replaced).not.toEqual(kept)
  for (const { salts } of [one, two]) await until(async () => expect(Buffer.from(salts().get(day) ?? [])).toEqual(replaced))
  for (const { add } of [one, two]) add({ siteId: one.site })
  await until(async () => expect(await one.total()).toMatchObject({ views: 3, visitors: 2 }))
  await Promise.all([stop(first), stop(second)])
})

test('K02: beyond their bound on disk new hits are dropped and counted, and old ones stay', async () => {
  const counting = await openCounting({ maxWaitingBytes: 1 })
  await database.forbidConnections(true)
  try {
    const thread = counting.start()
    counting.add({ target: '/old' })
    await until(async () => expect(await segmentsIn(counting.dir, counting.streamId)).toHaveLength(1))
    for (let n = 0; n < 7; n++) counting.add({ target: '/new' })
    await until(async () => expect(droppedHits(counting.ring)).toBe(7))
    await stop(thread)
  } finally {
    await database.forbidConnections(false)
  }
  await stop(counting.start())
  const pages = await db
    .selectFrom('traffic_tops')
    .select('value')
    .where('kind', '=', 'page')
    .where('site_id', '=', counting.site)
    .execute()
  expect(pages).toEqual([{ value: '/old' }])
  // the next segment says how many
  const thread = counting.start()
  counting.add({ target: '/next' })
  await until(async () => expect(await readDroppedHits(db)).toBe(7))
  await stop(thread)
})

test.each([
  ['a torn segment', (text: string) => text.slice(0, text.length / 2)],
  ['a changed segment', (text: string) => text.replace('"views":1', '"views":9')],
  ['a segment that PostgreSQL refuses', () => refused],
])('K02: %s is set aside, and those around it are counted', async (_name, damage) => {
  const counting = await openCounting()
  await database.forbidConnections(true)
  try {
    const thread = counting.start()
    for (let n = 1; n <= 3; n++) {
      counting.add({ target: `/${n}` })
      await until(async () => expect(await segmentsIn(counting.dir, counting.streamId)).toHaveLength(n))
    }
    await stop(thread)
  } finally {
    await database.forbidConnections(false)
  }
  const file = join(counting.dir, counting.streamId, '000000000002.json')
  await writeFile(file, damage(await readFile(file, 'utf8')))
  const next = await openCounting({ dir: counting.dir })
  await stop(next.start())
  expect(await counting.total()).toMatchObject({ views: 2 })
  expect(await readdir(counting.dir)).toEqual([`${counting.streamId}-2.bad`, next.streamId].sort())
  expect(next.reports).toEqual(['hits of sites are lost: a segment was set aside'])
})

const refused = writeChecked('plinth-traffic-1', {
  ring_end: 0,
  batch: {
    at: 1,
    live: [],
    sites: [
      {
        site_id: 'nobody',
        day: '2026-03-01',
        views: 1,
        bytes: 1,
        human_views: 1,
        human_bytes: 1,
        visitors: [],
        human_visitors: [],
        tops: [],
      },
    ],
  },
})

test('K02: no address and no User-Agent is in a segment or in PostgreSQL', async () => {
  const counting = await openCounting()
  const thread = counting.start()
  counting.add({ address: '203.0.113.77', userAgent: 'Mozilla/5.0 secret-agent' })
  await until(async () => expect(await counting.total()).toMatchObject({ views: 1 }))
  await stop(thread)
  for (const table of [
    'traffic_days',
    'traffic_tops',
    'traffic_seen',
    'live_visitors',
    'live_paths',
    'traffic_streams',
  ] as const) {
    const rows = JSON.stringify(await db.selectFrom(table).selectAll().execute())
    expect(rows).not.toMatch(/203\.0\.113\.77|secret-agent/)
  }
})

test('K04: a flood of distinct pages, referrers and programs does not stop the thread', async () => {
  const counting = await openCounting()
  const thread = counting.start()
  for (let n = 0; n < 5000; n++) {
    const flags = hitFlags.page | hitFlags.acceptsLanguage
    counting.add({
      flags,
      target: `/${n}`,
      referer: `https://r${n}.test/`,
      userAgent: `program ${n}`,
      address: `192.0.2.${n % 9}`,
    })
  }
  await until(async () => expect(await counting.total()).toMatchObject({ views: 5000 }))
  await stop(thread)
})
