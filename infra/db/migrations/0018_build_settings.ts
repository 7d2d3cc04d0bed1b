import { type Kysely, sql } from 'kysely'

/** The build settings of sites, and the variables of their builds. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table sites
      add column install_command text,
      add column build_command text,
      add column output_dir text,
      add column node_version text`.execute(db)

  await sql`
    create table site_variables (
      site_id uuid not null references sites (id) on delete cascade,
      name text not null,
      value_sealed text not null,
      -- of the value, in UTF-8
      bytes integer not null,
      -- never shown again
      secret boolean not null,
      contexts text[] not null,
      updated_at timestamptz(3) not null,
      primary key (site_id, name),
      check (contexts <> '{}' and contexts <@ '{production,preview}')
    )`.execute(db)
}
