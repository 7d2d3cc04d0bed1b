import { sql } from 'kysely'
import { type LoginResult, maskedEmail, maxForeignAttemptsKept, maxLoginsKept } from '../../core/access-login.ts'
import { maskedNetwork } from '../../core/client-network.ts'
import type { Db } from '../../infra/db/database.ts'

/** A login, or a try, at an instant. */
export interface LoginRecord {
  readonly site_id: string
  /** Null for an address that is not listed. */
  readonly access_email_id: string | null
  readonly email: string
  readonly device: string
  /** The network of the client's address. */
  readonly network: string
  readonly result: LoginResult
  readonly at: Date
}

/** Writes a row of the login log. Of each listed address, and of all others of a site together, only the newest rows are kept. */
export async function recordLogin(db: Db, { email, network, ...login }: LoginRecord): Promise<void> {
  const { site_id, access_email_id } = login
  await db
    .insertInto('access_logins')
    .values({ ...login, email_masked: maskedEmail(email), ip_masked: maskedNetwork(network) })
    .execute()
  const [condition, kept] =
    access_email_id === null
      ? [sql`site_id = ${site_id} and access_email_id is null`, maxForeignAttemptsKept]
      : [sql`access_email_id = ${access_email_id}`, maxLoginsKept]
  await sql`
    delete from access_logins where id = any (array(
      select id from access_logins where ${condition} order by at desc, id desc offset ${kept} for update skip locked))`.execute(
    db,
  )
}
