import { type Kysely, sql } from 'kysely'

/** Files that visitors who post a form may download, and the page that offers them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table delivery_files (
      id uuid primary key default uuidv7(),
      site_id uuid not null references sites (id),
      project_id uuid not null,
      name text not null,
      label text,
      -- from the bytes, never from the name
      content_type text not null,
      sha256 text not null,
      size bigint not null,
      downloads bigint not null default 0,
      created_at timestamptz(3) not null,
      -- each row counts as one of the deploys that contain the blob
      foreign key (project_id, sha256) references blobs (project_id, sha256)
    )`.execute(db)
  await sql`create index delivery_files_site on delivery_files (site_id, id)`.execute(db)
  await sql`create index delivery_files_blob on delivery_files (project_id, sha256)`.execute(db)

  await sql`
    create table delivery_pages (
      site_id uuid primary key references sites (id),
      project_id uuid not null,
      link_ttl_days integer not null default 7 check (link_ttl_days between 1 and 60),
      page_title text,
      upsell_text text,
      -- a small image, which counts like a file
      logo_sha256 text,
      logo_size bigint,
      page_logo_framed boolean not null default false,
      page_logo_rounded boolean not null default false,
      check ((page_title is null) = (upsell_text is null)),
      check ((logo_sha256 is null) = (logo_size is null)),
      foreign key (project_id, logo_sha256) references blobs (project_id, sha256)
    )`.execute(db)
  await sql`create index delivery_pages_blob on delivery_pages (project_id, logo_sha256)`.execute(db)
}
