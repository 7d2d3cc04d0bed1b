import { sql } from 'kysely'
import { maskedNetwork } from '../../core/client-network.ts'
import { anybody } from '../../infra/crypto/visits.ts'
import type { Db } from '../../infra/db/database.ts'

// The networks from which visitors have entered a closed site: what comes from them has budgets that strangers cannot use up. They are kept as the
// login log shows them, without the last part of the address.

/** Networks that are kept of a person, and of everybody who has entered with a password. */
const maxNetworksOfPerson = 50
const maxNetworksOfSite = 1000

/** Somebody who has entered a site, or wants to. */
interface Entering {
  readonly site_id: string
  /** As in visits. */
  readonly subject: string
  /** The network of the client's address. */
  readonly network: string
}

/** Notes from where a site was entered; of a subject the newest networks are kept. */
export async function noteNetwork(db: Db, { site_id, subject, network }: Entering, entered_at: Date): Promise<void> {
  await db
    .insertInto('access_networks')
    .values({ site_id, subject, network: maskedNetwork(network), entered_at })
    .onConflict((conflict) => conflict.columns(['site_id', 'subject', 'network']).doUpdateSet({ entered_at }))
    .execute()
  const kept = subject === anybody ? maxNetworksOfSite : maxNetworksOfPerson
  await sql`
    delete from access_networks where ctid = any (array(
      select ctid from access_networks where site_id = ${site_id} and subject = ${subject}
      order by entered_at desc offset ${kept} for update skip locked))`.execute(db)
}

export async function isKnownNetwork(db: Db, { site_id, subject, network }: Entering): Promise<boolean> {
  const known = await db
    .selectFrom('access_networks')
    .select('network')
    .where('site_id', '=', site_id)
    .where('subject', '=', subject)
    .where('network', '=', maskedNetwork(network))
    .executeTakeFirst()
  return known !== undefined
}
