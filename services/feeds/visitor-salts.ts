import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { moscowDay } from '../../core/traffic-days.ts'
import { type Keyring, openIfPossible, seal } from '../../infra/crypto/seal.ts'
import { type Db, databaseTime } from '../../infra/db/database.ts'

const saltBytes = 32
const hex = /^[0-9a-f]{64}$/

const sealSalt = (keyring: Keyring, day: string, salt: Buffer) => seal(keyring, salt.toString('hex'), placeOf(day))
const placeOf = (day: string) => ({ table: 'visitor_salts', id: day, column: 'sealed_salt' })

function openSalt(keyring: Keyring, { day, sealed_salt }: { readonly day: string; readonly sealed_salt: string }) {
  const text = openIfPossible(keyring, sealed_salt, placeOf(day))
  return text !== undefined && hex.test(text) ? Buffer.from(text, 'hex') : undefined
}

/**
 * The salts of days, 32 bytes each; all edges get the same. Those that are missing are made. One that was sealed with an unknown key is
 * replaced, because it is lost: the visitors of its day may count twice.
 * @param days dates in Moscow, of today and tomorrow
 */
export async function knownSalts(db: Db, keyring: Keyring, days: readonly string[]): Promise<ReadonlyMap<string, Buffer>> {
  const found = await readSalts(db, keyring, days)
  const missing = days.filter((day) => !found.has(day))
  if (missing.length === 0) return found
  const lost = await listLost(db, keyring, missing)
  await writeSalts(db, keyring, new Map(missing.map((day) => [day, randomBytes(saltBytes)])), lost)
  return await readSalts(db, keyring, days)
}

/**
 * The salts of days, as all edges use them. A salt that PostgreSQL lost is written again, and only one that nobody knows is made.
 * @param known what this edge uses
 */
export async function agreedSalts(
  db: Db,
  keyring: Keyring,
  known: ReadonlyMap<string, Buffer>,
  days: readonly string[],
): Promise<ReadonlyMap<string, Buffer>> {
  const found = await readSalts(db, keyring, days)
  if (days.every((day) => found.has(day))) return found
  await rememberSalts(db, keyring, known)
  return await knownSalts(db, keyring, days)
}

/**
 * Writes salts again that a crash of PostgreSQL has emptied the table of. A salt that is there stays as it is. The salts of past days are not
 * written.
 */
export async function rememberSalts(db: Db, keyring: Keyring, salts: ReadonlyMap<string, Buffer>, now?: Date): Promise<void> {
  const today = moscowDay((now ?? (await databaseTime(db))).getTime())
  const current = [...salts].filter(([day, salt]) => day >= today && salt.length === saltBytes)
  if (current.length > 0) await writeSalts(db, keyring, new Map(current))
}

const selectSalts = (db: Db, days: readonly string[]) =>
  db.selectFrom('visitor_salts').selectAll().where('day', 'in', days).execute()

async function readSalts(db: Db, keyring: Keyring, days: readonly string[]): Promise<Map<string, Buffer>> {
  const rows = days.length === 0 ? [] : await selectSalts(db, days)
  return new Map(
    rows.flatMap((row) => {
      const salt = openSalt(keyring, row)
      return salt ? [[row.day, salt] as const] : []
    }),
  )
}

/** The sealed texts of the days that cannot be opened. */
async function listLost(db: Db, keyring: Keyring, days: readonly string[]): Promise<string[]> {
  const rows = await selectSalts(db, days)
  return rows.filter((row) => openSalt(keyring, row) === undefined).map((row) => row.sealed_salt)
}

/** @param replaceable the sealed texts that may be overwritten */
async function writeSalts(
  db: Db,
  keyring: Keyring,
  salts: ReadonlyMap<string, Buffer>,
  replaceable: readonly string[] = [],
): Promise<void> {
  const rows = [...salts].map(([day, salt]) => ({ day, sealed_salt: sealSalt(keyring, day, salt) }))
  await sql`
    insert into visitor_salts (day, sealed_salt)
    select * from unnest(${rows.map((row) => row.day)}::date[], ${rows.map((row) => row.sealed_salt)}::text[]) as one (day, sealed_salt)
    order by day
    on conflict (day) do update set sealed_salt = excluded.sealed_salt
    where visitor_salts.sealed_salt = any (${replaceable}::text[])`.execute(db)
}
