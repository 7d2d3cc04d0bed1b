import { sql } from 'kysely'
import type { Db } from '../infra/db/database.ts'

// A project with as much in its lists as they can hold, or so much that an answer which is not bounded shows it.

/** The rows of each list. */
const rows = 300

export interface Filled {
  readonly project_id: string
  readonly site_id: string
  readonly webhook_id: string
  /** The hash of a stored manifest with this number of files, for the live deploy. */
  readonly manifest?: { readonly sha256: string; readonly files: number }
}

/** Posts of 599 bytes on disk that are 100 KB in JSON. */
export async function fillSubmissions(db: Db, { project_id, site_id }: Pick<Filled, 'project_id' | 'site_id'>, count = 120) {
  await sql`
    insert into form_submissions (project_id, site_id, status, charged, data, user_agent, created_at)
    select ${project_id}, ${site_id}, 'verified', true, jsonb_build_object('message', repeat('"', 50000), 'n', n), 'a browser', now()
    from generate_series(1, ${count}::int) n`.execute(db)
  await sql`
    insert into site_forms (project_id, site_id, verified) values (${project_id}, ${site_id}, ${count})
    on conflict (site_id) do update set verified = site_forms.verified + ${count}`.execute(db)
}

/** Many deploys, each with as many paths that were left out as a request may have, the last one live. */
export async function fillDeploys(db: Db, { project_id, site_id, manifest }: Filled): Promise<string> {
  const { rows: made } = await sql<{ id: string }>`
    insert into deploys (project_id, site_id, seq, status, source_kind, activate, is_preview, skipped_paths, manifest_sha256, file_count)
    select ${project_id}, ${site_id}, 1000 + n, 'superseded', 'manifest', true, false,
      array(select '.git/' || repeat('p', 200) || i from generate_series(1, 2000) i), ${manifest?.sha256 ?? null}, ${manifest?.files ?? 0}
    from generate_series(1, ${rows / 5}::int) n returning id`.execute(db)
  const last = made.at(-1)?.id ?? ''
  await sql`update deploys set status = 'active' where id = ${last}`.execute(db)
  await sql`update sites set active_deploy_id = ${last}, last_deploy_seq = 5000 where id = ${site_id}`.execute(db)
  return last
}

/** Fills the other lists. */
export async function fillLists(db: Db, { project_id, site_id, webhook_id }: Filled): Promise<void> {
  const many = sql`generate_series(1, ${rows}::int) n`
  const text = (length: number) => sql`repeat('ы', ${length}::int)`
  for (const trashed of [false, true]) {
    await sql`
      insert into sites (project_id, name, subdomain, description, deletion_scheduled_at)
      select ${project_id}, 'site', 'filled-' || ${trashed ? 'trash' : 'live'} || '-' || md5(${site_id} || n), ${text(2000)},
        ${trashed ? sql`now() + interval '1 day'` : sql`null`}
      from ${many}`.execute(db)
  }
  await sql`
    insert into domains (project_id, site_id, domain, verification_token, created_at)
    select ${project_id}, ${site_id}, 'n' || n || '-' || md5(${site_id}) || '.example.com', 'token', now() from ${many}`.execute(
    db,
  )
  await sql`
    insert into git_previews (project_id, site_id, ref, fetch_ref, branch, from_fork, approved, updated_at)
    select ${project_id}, ${site_id}, 'b' || n, 'refs/heads/b' || n, repeat('b', 200), false, true, now() + n * interval '1 ms' from ${many}`.execute(
    db,
  )
  await sql`
    with emails as (
      insert into access_emails (project_id, site_id, email, label, created_at)
      select ${project_id}, ${site_id}, 'n' || n || '@example.com', ${text(80)}, now() from ${many} returning id)
    insert into access_logins (site_id, access_email_id, email_masked, device, ip_masked, result, at)
    select ${site_id}, emails.id, 'n…@example.com', ${text(80)}, '10.0.*.*', 'ok', now() from emails, generate_series(1, 20)`.execute(
    db,
  )
  await sql`
    insert into members (project_id, site_id, email, name, status, registered_at)
    select ${project_id}, ${site_id}, 'm' || n || '@example.com', ${text(80)}, 'active', now() from ${many}`.execute(db)
  await sql`
    insert into notifications (project_id, kind, title, message, site_id, created_at)
    select ${project_id}, 'deploy_failed', ${text(200)}, ${text(2000)}, ${site_id}, now() from ${many}`.execute(db)
  await sql`
    insert into mails (project_id, sender, recipient, subject, text, html, created_at, outcome, kind, about)
    select ${project_id}, 'a@example.com', 'm1@example.com', 'subject', ${text(20_000)}, ${text(20_000)}, now(), 'kept', 'membership', ${site_id}
    from ${many}`.execute(db)
  await sql`
    with event as (
      insert into webhook_events (project_id, type, data, created_at) values (${project_id}, 'form.received', '{}', now()) returning id)
    insert into webhook_deliveries (project_id, webhook_id, event_id, tries, outcome, created_at, ended_at)
    select ${project_id}, ${webhook_id}, event.id,
      (select jsonb_agg(jsonb_build_object('at', '2026-11-26T10:00:00.000Z', 'status', null, 'duration_ms', 1, 'error', ${text(300)}))
        from generate_series(1, 8)), 'failed', now(), now()
    from event, ${many}`.execute(db)
  await sql`
    insert into traffic_tops (site_id, day, kind, value, hits, visitors)
    select ${site_id}, current_date, kind, '/' || repeat('p', 900) || n, 100, 5
    from ${many}, unnest(array['page', 'source', 'download', 'not_found']) kind`.execute(db)
}
