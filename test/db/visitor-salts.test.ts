import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { moscowDay } from '../../core/traffic-days.ts'
import { openKeyring } from '../../infra/crypto/seal.ts'
import { openDatabase } from '../../infra/db/database.ts'
import { openTrafficStore } from '../../services/feeds/traffic-store.ts'
import { knownSalts, rememberSalts } from '../../services/feeds/visitor-salts.ts'
import { createDatabase } from '../database.ts'

const keyring = openKeyring(randomBytes(32))
const now = new Date('2026-11-23T12:00:00Z')
const [yesterday, today, tomorrow] = ['2026-11-22', '2026-11-23', '2026-11-24']

test('K02: all edges get the same salt of a day, another one for each day, and none is stored in clear', async () => {
  await using database = await createDatabase()
  await using one = openDatabase(database.url)
  await using two = openDatabase(database.url)
  const all = await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      knownSalts(n % 2 ? one.db : two.db, keyring, n % 3 ? [today, tomorrow] : [tomorrow, today]),
    ),
  )
  const seen = new Set(all.flatMap((salts) => [...salts].map(([day, salt]) => `${day} ${salt.toString('hex')}`)))
  expect(seen.size).toBe(2)
  expect(all[0]?.get(today)).toHaveLength(32)
  const stored = JSON.stringify(await one.db.selectFrom('visitor_salts').selectAll().execute())
  for (const salt of all[0]?.values() ?? []) expect(stored).not.toContain(salt.toString('hex'))
})

test('K02: a salt that a crash of PostgreSQL took is written again by an edge that knows it, and replaces no other', async () => {
  await using database = await createDatabase()
  await using opened = openDatabase(database.url)
  const salts = await knownSalts(opened.db, keyring, [today])
  // what a crash leaves of an unlogged table
  await sql`truncate visitor_salts`.execute(opened.db)
  await rememberSalts(opened.db, keyring, new Map([[yesterday, randomBytes(32)], ...salts]), now)
  expect(await knownSalts(opened.db, keyring, [today])).toEqual(salts)
  await rememberSalts(opened.db, keyring, new Map([[today, randomBytes(32)]]), now)
  expect(await knownSalts(opened.db, keyring, [today])).toEqual(salts)
  expect(await opened.db.selectFrom('visitor_salts').select('day').execute()).toEqual([{ day: today }])
})

test('K02: an edge whose PostgreSQL was away writes its salts again before it goes on', async () => {
  await using database = await createDatabase()
  const secretKey = randomBytes(32)
  const day = moscowDay(Date.now())
  await using store = openTrafficStore(database.url, secretKey)
  const salts = await store.agreeOnSalts(new Map(), [day])
  await database.forbidConnections(true)
  const apply = () => store.apply(randomUUID(), 1, [{ at: 0, sites: [], live: [] }])
  await expect(apply()).rejects.toThrow()
  await database.forbidConnections(false)
  await using opened = openDatabase(database.url)
  await sql`truncate visitor_salts`.execute(opened.db)
  await apply()
  expect(await knownSalts(opened.db, openKeyring(secretKey), [day])).toEqual(salts)
})

test('K02: an edge that looks at the salts writes those again that PostgreSQL lost, and takes over those that were replaced', async () => {
  await using database = await createDatabase()
  await using opened = openDatabase(database.url)
  const secretKey = randomBytes(32)
  await using store = openTrafficStore(database.url, secretKey)
  const day = moscowDay(Date.now())
  const salts = await store.agreeOnSalts(new Map(), [day])
  await sql`truncate visitor_salts`.execute(opened.db)
  expect(await store.agreeOnSalts(salts, [day])).toEqual(salts)
  expect(await knownSalts(opened.db, openKeyring(secretKey), [day])).toEqual(salts)
  await sql`truncate visitor_salts`.execute(opened.db)
  const replaced = await knownSalts(opened.db, openKeyring(secretKey), [day])
  expect(replaced).not.toEqual(salts)
  expect(await store.agreeOnSalts(salts, [day])).toEqual(replaced)
})

test('a salt that was sealed with an unknown key is replaced once', async () => {
  await using database = await createDatabase()
  await using opened = openDatabase(database.url)
  const lost = await knownSalts(opened.db, openKeyring(randomBytes(32)), [today])
  const all = await Promise.all(Array.from({ length: 4 }, () => knownSalts(opened.db, keyring, [today])))
  expect(new Set(all.map((salts) => salts.get(today)?.toString('hex'))).size).toBe(1)
  expect(all[0]).not.toEqual(lost)
})
