import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { Feed } from '../../infra/db/feed.ts'
import { newestOf, readAll, readHigher, type Table } from './versions.ts'

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

export interface CertificateSink extends Table {
  /** Applies certificates that may have changed, and ids of deleted rows. */
  apply(certificates: readonly StoredCertificate[], goneIds: readonly string[]): void
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
  async function readNamed(db: Db, ids: readonly string[]): Promise<void> {
    const found = await readCertificates(db, ids)
    const present = new Set(found.map(({ id }) => id))
    sink.apply(
      found,
      ids.filter((id) => !present.has(id)),
    )
  }
  return {
    channel,
    useIncarnation: (incarnation) => sink.useIncarnation(incarnation),
    async readAll(db) {
      const rows = await versions(db).execute()
      await readAll(sink, rows, batchSize, (ids) => readNamed(db, ids))
      return newestOf(rows)
    },
    async readSince(db, since) {
      const rows = await versions(db).where('changed_at', '>', since).execute()
      await readHigher(sink, rows, batchSize, (ids) => readNamed(db, ids))
      return newestOf(rows)
    },
    readNamed,
  }
}

const versions = (db: Db) =>
  db.selectFrom('certificates').select(['id', 'version', 'changed_at']).where('certificate', 'is not', null)

function readCertificates(db: Db, ids: readonly string[]): Promise<StoredCertificate[]> {
  return db
    .selectFrom('certificates')
    .select((eb) => ['id', 'name', 'version', eb.ref('certificate').$notNull().as('certificate')])
    .select((eb) => eb.ref('key_sealed').$notNull().as('key_sealed'))
    .where('id', 'in', ids)
    .where('certificate', 'is not', null)
    .execute()
}
