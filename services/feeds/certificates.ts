import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { Feed } from '../../infra/db/feed.ts'

/** A certificate in the edge's memory. Its key is opened only when it is used. */
export interface StoredCertificate {
  readonly id: string
  /** Its one name; `*.` stands for one label. */
  readonly name: string
  /** PEM, the certificate first. */
  readonly certificate: string
  readonly key_sealed: string
  /** Grows with every certificate of the name. */
  readonly version: number
}

export interface CertificateSink {
  /** The known version of a row; undefined when the row is unknown. */
  versionOf(id: string): number | undefined
  /** Applies certificates that may have changed, and ids of deleted rows. */
  apply(certificates: readonly StoredCertificate[], goneIds: readonly string[]): void
  /** Takes the ids of all rows: all others have been deleted. */
  keepOnly(ids: ReadonlySet<string>): void
}

const channel = 'certificates'
/** Rows of one read: a chain with its key has about five kilobytes. */
const batchSize = 200

/** Notifies every edge at the commit that a certificate has changed. */
export async function notifyCertificate(db: Db, id: string): Promise<void> {
  await sql`select pg_notify(${channel}, ${id}::text)`.execute(db)
}

/** Reads only certificates in full whose version is higher than the known one. */
export const certificateFeed = (sink: CertificateSink): Feed => {
  async function readNew(db: Db, rows: readonly { id: string; version: number }[]): Promise<void> {
    const wanted = rows.filter(({ id, version }) => (sink.versionOf(id) ?? 0) < version).map(({ id }) => id)
    for (let i = 0; i < wanted.length; i += batchSize) sink.apply(await readCertificates(db, wanted.slice(i, i + batchSize)), [])
  }
  return {
    channel,
    async readAll(db) {
      const rows = await versions(db).execute()
      await readNew(db, rows)
      sink.keepOnly(new Set(rows.map(({ id }) => id)))
      return newestOf(rows)
    },
    async readSince(db, since) {
      const rows = await versions(db).where('changed_at', '>', since).execute()
      await readNew(db, rows)
      return newestOf(rows)
    },
    async readNamed(db, ids) {
      const found = await readCertificates(db, ids)
      const present = new Set(found.map(({ id }) => id))
      sink.apply(
        found,
        ids.filter((id) => !present.has(id)),
      )
    },
  }
}

const versions = (db: Db) =>
  db.selectFrom('certificates').select(['id', 'version', 'changed_at']).where('certificate', 'is not', null)

const newestOf = (rows: readonly { changed_at: Date }[]) =>
  rows.reduce((newest, { changed_at }) => Math.max(newest, changed_at.getTime()), 0)

function readCertificates(db: Db, ids: readonly string[]): Promise<StoredCertificate[]> {
  return db
    .selectFrom('certificates')
    .select((eb) => ['id', 'name', 'version', eb.ref('certificate').$notNull().as('certificate')])
    .select((eb) => eb.ref('key_sealed').$notNull().as('key_sealed'))
    .where('id', 'in', ids)
    .where('certificate', 'is not', null)
    .execute()
}
