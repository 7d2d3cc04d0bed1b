import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type { World } from '../world.ts'

/** Has PostgreSQL refuse that a deploy of the site becomes ready, as it refuses a text with a NUL, until it is disposed. */
export async function refuseReady({ db }: Pick<World, 'db'>, siteId: string): Promise<AsyncDisposable> {
  const name = sql.id(`refuse_${randomBytes(6).toString('hex')}`)
  await sql`create function ${name}() returns trigger language plpgsql as
    $$ begin raise exception 'refused' using errcode = '22P05'; end $$`.execute(db)
  await sql`create trigger ${name} before update on deploys for each row
    when (new.status in ('ready', 'active') and new.site_id = ${sql.lit(siteId)}) execute function ${name}()`.execute(db)
  return {
    async [Symbol.asyncDispose]() {
      await sql`drop function ${name} cascade`.execute(db)
    },
  }
}
