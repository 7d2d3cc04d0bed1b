import type { Db } from '../../infra/db/database.ts'

/** @param name the full name in queries to our own name server, in lower case */
export async function insertDnsChallenge(db: Db, name: string, value: string, now: Date): Promise<void> {
  await db
    .insertInto('dns_challenges')
    .values({ name, value, created_at: now })
    .onConflict((conflict) => conflict.columns(['name', 'value']).doUpdateSet({ created_at: now }))
    .execute()
}

export async function deleteDnsChallenge(db: Db, name: string, value: string): Promise<void> {
  await db.deleteFrom('dns_challenges').where('name', '=', name).where('value', '=', value).execute()
}

/** Deletes challenges that a crash left open. Returns their number. */
export async function deleteOldDnsChallenges(db: Db, before: Date): Promise<number> {
  const { numDeletedRows } = await db.deleteFrom('dns_challenges').where('created_at', '<', before).executeTakeFirst()
  return Number(numDeletedRows)
}

/** Lists all open challenges, one for each running order. */
export function listDnsChallenges(db: Db): Promise<{ name: string; value: string }[]> {
  return db.selectFrom('dns_challenges').select(['name', 'value']).execute()
}
