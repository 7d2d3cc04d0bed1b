import { randomUUIDv7 } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { moscowDay } from '../../../core/traffic-days.ts'
import { createRing, RingWriter } from '../../../edge/traffic/ring.ts'
import { startThread } from '../../../edge/traffic/traffic.ts'
import { openKeyring } from '../../../infra/crypto/seal.ts'
import { type Db, openDatabase } from '../../../infra/db/database.ts'
import { copyServer } from '../../../infra/local/backup-server.ts'
import { reachableFolder } from '../../../infra/local/place.ts'
import { startPostgres } from '../../../infra/local/postgres.ts'
import { prepareDatabase } from '../../../infra/local/prepare-database.ts'
import { rollUpTraffic } from '../../../services/feeds/roll-up-traffic.ts'
import { knownSalts } from '../../../services/feeds/visitor-salts.ts'
import { hitOf } from './hits.ts'

// What an edge, the database and its backups know about a visitor, on the day of the visit and after it. A server of its own, whose files are read.

const secretKey = Buffer.alloc(32, 7)
const keyring = openKeyring(secretKey)
const address = '203.0.113.77'
const userAgent = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 secret-agent'
const hourMs = 3_600_000

const stack = new AsyncDisposableStack()
let dir: string
let server: { readonly dir: string; readonly url: string }
let db: Db
/** What must not be found, by name. */
const secrets = new Map<string, Buffer>([
  ['address', Buffer.from(address)],
  ['User-Agent', Buffer.from('secret-agent')],
])
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-privacy-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  // the user of PostgreSQL has to pass through
  await chmod(dir, 0o711)
  await usingServer(async () => {
    await prepareDatabase(server.url)
    await count(await makeSite())
    await learnSecrets()
  })
  // a stop writes everything to the files, also the tables that are not logged
  const started = stack.use(await startServer())
  server = started
  db = started.db
})
afterAll(() => stack.disposeAsync())

async function startServer() {
  await using opening = new AsyncDisposableStack()
  const { url } = opening.use(await startPostgres({ dir: join(dir, 'postgres'), log: () => undefined }))
  const opened = opening.use(openDatabase(url))
  const started = opening.move()
  const place = join(await reachableFolder(dir), 'postgres')
  return { dir: place, url, db: opened.db, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

async function usingServer(use: () => Promise<void>): Promise<void> {
  await using started = await startServer()
  server = started
  db = started.db
  await use()
}

async function makeSite(): Promise<string> {
  const owner = { name: 'p', owner_email: 'o@p.test', plan: 'free' } as const
  const project = await db.insertInto('projects').values(owner).returning('id').executeTakeFirstOrThrow()
  const site = { project_id: project.id, name: 's', subdomain: 'private' }
  return (await db.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()).id
}

/** Counts two views of one visitor as an edge does. */
async function count(siteId: string): Promise<void> {
  const ring = createRing()
  const traffic = { dir: join(dir, 'traffic'), streamId: randomUUIDv7(), databaseUrl: server.url, secretKey, salts: new Map() }
  const thread = startThread({ ring, ...traffic })
  const writer = new RingWriter(ring)
  for (const target of ['/', '/two']) writer.append(hitOf({ siteId, target, address, userAgent, atMs: Date.now() }))
  writer.publish()
  const views = async () => (await db.selectFrom('traffic_days').select(['views', 'visitors']).execute())[0]
  await vi.waitFor(async () => expect(await views()).toEqual({ views: 2, visitors: 1 }), { timeout: 60_000, interval: 50 })
  const exited = once(thread, 'exit')
  thread.postMessage('stop')
  await exited
}

async function learnSecrets(): Promise<void> {
  const { visitor } = await db.selectFrom('live_visitors').select('visitor').executeTakeFirstOrThrow()
  const day = moscowDay(Date.now())
  const { sealed_salt } = await db.selectFrom('visitor_salts').selectAll().where('day', '=', day).executeTakeFirstOrThrow()
  secrets.set('visitor', visitor)
  secrets.set('sealed salt', Buffer.from(sealed_salt))
  secrets.set('salt', (await knownSalts(db, keyring, [day])).get(day) ?? Buffer.alloc(0))
}

/** The names of the secrets that are in the bytes, as they are or in hex. */
const foundIn = (bytes: Buffer, names: Iterable<string> = secrets.keys()) =>
  [...names].filter((name) => {
    const secret = secrets.get(name) ?? Buffer.alloc(0)
    return bytes.includes(secret) || bytes.includes(secret.toString('hex'))
  })

async function foundBelow(folder: string): Promise<string[]> {
  const files = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
  expect(files.length).toBeGreaterThan(0)
  const found: string[] = []
  for (const { parentPath, name } of files) {
    const path = join(parentPath, name)
    for (const secret of foundIn(await readFile(path))) found.push(`${secret} in ${path.slice(folder.length)}`)
  }
  return found
}

/** Every row of every table, as a dump has them. */
async function allRows(): Promise<Buffer> {
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables where table_schema not in ('pg_catalog', 'information_schema')`.execute(
    db,
  )
  expect(tables.map(({ name }) => name)).toEqual(expect.arrayContaining(['traffic_days', 'live_visitors', 'visitor_salts']))
  const all = tables.map(({ name }) => sql`select ${name}::text || to_jsonb(one)::text as row from ${sql.table(name)} one`)
  const { rows } = await sql<{ row: string }>`${sql.join(all, sql` union all `)}`.execute(db)
  return Buffer.from(rows.map(({ row }) => row).join('\n'))
}

test('K02: on the day itself the database has a salt and visitors, but no address and no User-Agent', async () => {
  expect([...secrets.keys()]).toEqual(['address', 'User-Agent', 'visitor', 'sealed salt', 'salt'])
  expect(foundIn(await allRows())).toEqual(['visitor', 'sealed salt'])
})

test('K02: no backup has a salt or a visitor, so that an address cannot be found with it', async () => {
  await db.executeQuery(sql`checkpoint`.compile(db))
  // the search finds them where they are
  expect((await foundBelow(server.dir)).map((found) => found.split(' in ')[0])).toEqual(
    expect.arrayContaining(['visitor', 'sealed salt']),
  )
  const backup = join(dir, 'backup')
  await copyServer(server, backup, () => Promise.resolve())
  expect(await readdir(backup)).toContain('backup_label')
  expect(await foundBelow(backup)).toEqual([])
})

test('K02: after the day neither a table nor a file of the database has the address, the visitor or the salt', async () => {
  const keys = (await db.selectFrom('traffic_seen').select('key').execute()).map(({ key }) => key)
  expect(keys).toHaveLength(6)
  await rollUpTraffic({ db, keyring, clock: () => new Date(Date.now() + 27 * hourMs) })
  const rows = await allRows()
  expect(foundIn(rows)).toEqual([])
  expect(keys.filter((key) => rows.includes(key.toString('hex')))).toEqual([])
  expect(await db.selectFrom('traffic_days').select(['views', 'visitors']).execute()).toEqual([{ views: 2, visitors: 1 }])
  // rows that were deleted stay in the files until PostgreSQL cleans up
  await sql`vacuum full live_visitors`.execute(db)
  await sql`vacuum full visitor_salts`.execute(db)
  await db.executeQuery(sql`checkpoint`.compile(db))
  expect(await foundBelow(server.dir)).toEqual([])
})

test('K02: the folder of the edge has nothing of a visitor once everything is applied', async () => {
  const left = (await readdir(join(dir, 'traffic'), { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
  expect(left).toEqual([])
})
