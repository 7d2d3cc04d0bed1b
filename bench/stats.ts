import { createHash, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { sql } from 'kysely'
import { type SiteTraffic, type TopTraffic, topKinds } from '../core/traffic.ts'
import { addDays } from '../core/traffic-days.ts'
import { openKeyring } from '../infra/crypto/seal.ts'
import { type Db, openDatabase } from '../infra/db/database.ts'
import { migrate } from '../infra/db/migrate.ts'
import { startPostgres } from '../infra/local/postgres.ts'
import { rollUpTraffic } from '../services/feeds/roll-up-traffic.ts'
import { applyBatches } from '../services/feeds/traffic.ts'
import { readStatsDays } from '../services/stats/days.ts'
import { readTops } from '../services/stats/tops.ts'
import { median, quantile } from './statistics.ts'

// What the statistics of one day take in PostgreSQL, in rows and bytes, before and after the roll-up: a million hits of 1,000 sites, then a million
// hits of one more site, each visitor with about five views. Then how long the queries for 365 days of a site take whose lists of tops are full
// on every day.
//   npm run bench stats -- [--hits 1000000] [--queries 200]

const options = { hits: { type: 'string', default: '1000000' }, queries: { type: 'string', default: '200' } } as const
const { values } = parseArgs({ options })
const hits = Number(values.hits)
const queries = Number(values.queries)
const siteCount = 1000
/** What about 1,000 requests a second give in the time of one segment. */
const hitsOfBatch = 250
const batchesOfCall = 16
const viewsOfVisitor = 5
const pagesOfSite = 200
const day = '2026-03-02'
const noon = new Date('2026-03-02T09:00:00Z')
const tables = ['traffic_days', 'traffic_tops', 'traffic_seen'] as const

const keyOf = (...parts: (string | number)[]) => createHash('sha256').update(parts.join(' ')).digest('hex').slice(0, 24)
/** Few pages have most of the hits. */
const somePage = () => `/articles/${Math.floor(pagesOfSite * Math.random() ** 3)}`

/** One hit of a visitor who was sent by a search engine. */
function addHit(sites: Map<string, SiteTraffic>, site_id: string, visitor: number): void {
  const top = (kind: TopTraffic['kind'], value: string) => ({
    kind,
    value,
    hits: 1,
    visitors: [keyOf(visitor, kind, value, site_id)],
  })
  const known = sites.get(site_id)
  const sum = (name: 'views' | 'bytes' | 'human_views' | 'human_bytes', more: number) => (known?.[name] ?? 0) + more
  sites.set(site_id, {
    site_id,
    day,
    views: sum('views', 1),
    bytes: sum('bytes', 20_000),
    human_views: sum('human_views', 1),
    human_bytes: sum('human_bytes', 20_000),
    visitors: [...(known?.visitors ?? []), keyOf(visitor, site_id)],
    human_visitors: [...(known?.human_visitors ?? []), keyOf(visitor, 'human', site_id)],
    tops: [
      ...(known?.tops ?? []),
      top('page', somePage()),
      top('source', `${visitor % 30}.search.example`),
      top('device', visitor % 2 ? 'phone' : 'desktop'),
    ],
  })
}

/** Applies the hits as one edge does, and returns how long each call took. */
async function apply(db: Db, siteIds: readonly string[]): Promise<number[]> {
  const stream = randomUUID()
  const times: number[] = []
  for (let call = 0; call < hits / hitsOfBatch / batchesOfCall; call++) {
    const batches = Array.from({ length: batchesOfCall }, () => {
      const sites = new Map<string, SiteTraffic>()
      for (let n = 0; n < hitsOfBatch; n++) {
        const visitor = Math.floor((Math.random() * hits) / viewsOfVisitor)
        addHit(sites, siteIds[visitor % siteIds.length] ?? '', visitor)
      }
      return { at: noon.getTime(), sites: [...sites.values()], live: [] }
    })
    const startedAt = performance.now()
    await applyBatches(db, stream, 1 + call * batchesOfCall, batches, noon)
    times.push(performance.now() - startedAt)
  }
  return times
}

async function reportSizes(db: Db, when: string): Promise<void> {
  for (const table of tables) {
    const { rows } = await sql<{ rows: number; bytes: number }>`
      select (select count(*) from ${sql.table(table)}) as rows, pg_total_relation_size(${table}) as bytes`.execute(db)
    const [{ rows: count, bytes } = { rows: 0, bytes: 0 }] = rows
    console.log(`${when} | ${table} | ${count.toLocaleString('en')} rows, ${megabytes(bytes)}`)
  }
}

const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`
const reportTimes = (what: string, times: readonly number[]) =>
  console.log(`${what} | p50 ${median(times).toFixed(1)} ms, p99 ${quantile(times, 0.99).toFixed(1)} ms`)

async function makeSites(db: Db, count: number): Promise<string[]> {
  const project = { name: 'bench', owner_email: 'owner@example.com', plan: 'enterprise' } as const
  const { id: project_id } = await db.insertInto('projects').values(project).returning('id').executeTakeFirstOrThrow()
  const sites = Array.from({ length: count }, () => ({ project_id, name: 'S', subdomain: `s-${randomUUID()}` }))
  return (await db.insertInto('sites').values(sites).returning('id').execute()).map(({ id }) => id)
}

async function rollUp(db: Db): Promise<void> {
  const keyring = openKeyring(Buffer.alloc(32, 1))
  const startedAt = performance.now()
  await rollUpTraffic({ db, keyring, clock: () => new Date(noon.getTime() + 24 * 3_600_000) })
  console.log(`roll-up | ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
  for (const table of tables) await sql`vacuum ${sql.table(table)}`.execute(db)
}

/** A site with as many values of each kind as 365 days keep, and their remainder; half of those of a day are the same every day. */
async function fillYear(db: Db, site_id: string, from: string): Promise<void> {
  await sql`
    insert into traffic_days (site_id, day, views, kept_values)
    select ${site_id}, ${from}::date + n, 1000, case when n < 330 then 30 else 100 end from generate_series(0, 364) n`.execute(db)
  await sql`
    insert into traffic_tops (site_id, day, kind, value, hits, visitors)
    select ${site_id}, ${from}::date + n, kind,
      case when rank = 101 then '(other)' when rank % 2 = 0 then '/articles/of-every-day/' || rank else '/articles/of-one-day/' || rank || '/' || n end,
      1000 / rank, 500 / rank
    from generate_series(0, 364) n, generate_series(1, 101) rank, unnest(${topKinds}::text[]) kind
    where rank = 101 or rank <= case when n < 330 then 30 else 100 end`.execute(db)
  await sql`analyze traffic_tops`.execute(db)
}

async function timeQueries(query: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  for (let n = 0; n < queries; n++) {
    const startedAt = performance.now()
    await query()
    times.push(performance.now() - startedAt)
  }
  return times
}

const dir = await mkdtemp(join(tmpdir(), 'plinth-bench-stats-'))
try {
  await using server = await startPostgres({ dir: join(dir, 'postgres'), log: () => undefined })
  await using opened = openDatabase(server.url)
  const { db } = opened
  await migrate(db)
  const sites = await makeSites(db, siteCount)
  reportTimes(`applying ${hitsOfBatch * batchesOfCall} hits of ${siteCount} sites`, await apply(db, sites))
  await reportSizes(db, `${hits.toLocaleString('en')} hits of ${siteCount} sites`)
  await rollUp(db)
  await reportSizes(db, 'after the roll-up')

  await sql`truncate traffic_days, traffic_tops, traffic_seen`.execute(db)
  const [busy = ''] = await makeSites(db, 1)
  reportTimes(`applying ${hitsOfBatch * batchesOfCall} hits of one site`, await apply(db, [busy]))
  await reportSizes(db, `${hits.toLocaleString('en')} hits of one site`)
  await rollUp(db)
  const { rows } = await sql<{ rows: number; bytes: number }>`
    select count(*) as rows, sum(bytes) as bytes from (
      select pg_column_size(t) as bytes from traffic_days t union all select pg_column_size(t) from traffic_tops t) one`.execute(
    db,
  )
  console.log(`after the roll-up, the rows themselves | ${rows[0]?.rows} rows, ${rows[0]?.bytes} bytes`)

  const [full = ''] = await makeSites(db, 1)
  const period = { from: '2025-03-03', to: addDays('2025-03-03', 364) }
  await fillYear(db, full, period.from)
  reportTimes('365 days', await timeQueries(() => readStatsDays(db, full, period)))
  reportTimes('tops of 365 days', await timeQueries(() => readTops(db, full, period)))
} finally {
  await rm(dir, { recursive: true, force: true, maxRetries: 10 })
}
