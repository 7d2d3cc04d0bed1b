import { type Kysely, sql } from 'kysely'

/** In which language, and about which host, members get emails. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table members
      add column lang text not null default 'en' check (lang in ('en', 'ru')),
      -- at which the member has registered
      add column host text not null default ''`.execute(db)
}
