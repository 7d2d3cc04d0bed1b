import { type RawBuilder, type Selectable, type SqlBool, sql } from 'kysely'
import { conflict, notFound } from '../../core/errors.ts'
import type { SubmissionStatus } from '../../core/forms.ts'
import { maxSearchedSubmissions } from '../../core/limits.ts'
import { bytesOf, type RowSize, readBySize } from '../../infra/db/batches.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { formRefusal } from './refusals.ts'
import { countOnSite, countSubmissions } from './site-forms.ts'
import { charge } from './usage.ts'

/** A submission as its owner may see it: a hidden one has no content. */
export type SubmissionRow = Pick<
  Selectable<DB['form_submissions']>,
  'id' | 'site_id' | 'status' | 'data' | 'request_id' | 'user_agent' | 'created_at'
> & { readonly hidden: boolean }

export interface SubmissionFilter {
  readonly project_id: string
  readonly site_id?: string | undefined
  readonly status: SubmissionStatus
  /** A substring of a value, in any case. */
  readonly q?: string | undefined
  /** The only field that is searched. */
  readonly field?: string | undefined
}

/** Whether `form_submissions s` came over the quota and is not revealed yet. */
export const isHidden = sql<boolean>`coalesce(s.hidden_no > (select revealed_no from projects where projects.id = s.project_id), false)`

/** The columns of a {@link SubmissionRow}, of `form_submissions s`. */
const shownColumns = sql`
  s.id, s.site_id, s.status, s.request_id, s.created_at, ${isHidden} as hidden,
  case when ${isHidden} then '{}' else s.data end as data,
  case when ${isHidden} then null else s.user_agent end as user_agent`

/** Whether `form_submissions s` is one of those that the filter looks through. */
export const isLookedThrough = ({ project_id, site_id, status }: SubmissionFilter) => sql<SqlBool>`
  s.project_id = ${project_id} and s.status = ${status} ${site_id === undefined ? sql`` : sql`and s.site_id = ${site_id}`}`

/** Whether the text of the filter is in `s`. Hidden submissions are not searched. */
export function isFound({ q, field }: SubmissionFilter): RawBuilder<SqlBool> {
  if (q === undefined || q === '') return sql`true`
  // maps all scripts to lower case, whatever the locale of the database
  const lower = (text: RawBuilder<unknown>) => sql`lower(${text} collate "pg_c_utf8")`
  return sql`(not ${isHidden} and exists (
    select from jsonb_each_text(s.data) f
    where ${field === undefined || field === '' ? sql`true` : sql`f.key = ${field}`} and position(${lower(sql`${q}::text`)} in ${lower(sql`f.value`)}) > 0))`
}

export interface SubmissionPage {
  /** The submissions of the page in their order, for {@link readSubmissions}. */
  readonly sizes: readonly RowSize[]
  /** All that the filter finds. */
  readonly total: number
  /** The id of the last one, when others follow. */
  readonly next: string | undefined
}

export interface WantedPage {
  readonly limit: number
  readonly offset: number
  /** The id of the last submission of the page before; the offset counts from there. */
  readonly after?: string | undefined
}

/** Newest first. A search looks through the newest submissions only. */
export async function listSubmissions(db: Db, filter: SubmissionFilter, wanted: WantedPage): Promise<SubmissionPage> {
  const { limit, offset } = wanted
  const page = sql`${after(wanted.after)} order by s.id desc limit ${limit + 1} offset ${offset}`
  if (filter.q === undefined || filter.q === '') {
    const { rows } = await sql<RowSize>`
      select s.id, ${bytesOf('s.data')} as bytes from form_submissions s where ${isLookedThrough(filter)} ${page}`.execute(db)
    return pageOf(rows, limit, await countSubmissions(db, filter, filter.status))
  }
  const found = sql`
    select s.id, ${bytesOf('s.data')} as bytes from (
      select * from form_submissions s where ${isLookedThrough(filter)} order by s.id desc limit ${maxSearchedSubmissions}) s
    where ${isFound(filter)}`
  const { rows } = await sql<{ ids: string[]; bytes: number[]; total: number }>`
    with found as materialized (${found}), page as (select * from found s where true ${page})
    select array(select id from page order by id desc) as ids, array(select bytes from page order by id desc) as bytes,
      (select count(*) from found) as total`.execute(db)
  const { ids = [], bytes = [], total = 0 } = rows[0] ?? {}
  return pageOf(
    ids.map((id, i) => ({ id, bytes: bytes[i] ?? 0 })),
    limit,
    total,
  )
}

function pageOf(sizes: readonly RowSize[], limit: number, total: number): SubmissionPage {
  const shown = sizes.slice(0, limit)
  return { sizes: shown, total, next: sizes.length > limit ? shown.at(-1)?.id : undefined }
}

/** Limits `form_submissions s` to those that follow one in the order of lists. */
export const after = (id: string | undefined) => (id === undefined ? sql`` : sql`and s.id < ${id}`)

/** The submissions of a page, in batches. */
export const readSubmissions = (db: Db, sizes: readonly RowSize[]): AsyncGenerator<SubmissionRow[]> =>
  readBySize(sizes, async (ids) => {
    const { rows } = await sql<SubmissionRow>`
      select ${shownColumns} from form_submissions s where s.id = any (${ids})`.execute(db)
    return rows
  })

/** Undefined when the project has no such submission. */
export async function findSubmission(db: Db, projectId: string, id: string): Promise<SubmissionRow | undefined> {
  const { rows } = await sql<SubmissionRow>`
    select ${shownColumns} from form_submissions s where s.id = ${id} and s.project_id = ${projectId}`.execute(db)
  return rows[0]
}

/** The fields of a submission, while its owner sees it and does not regard it as spam. */
export async function findShownFields(db: Db, projectId: string, id: string): Promise<SubmissionRow['data'] | undefined> {
  const row = await findSubmission(db, projectId, id)
  return row && !row.hidden && row.status !== 'spam' ? row.data : undefined
}

export const noSuchSubmission = () =>
  notFound('there is no form submission with this id in the project; get_form_submissions lists them')

type WholeRow = Selectable<DB['form_submissions']> & { readonly hidden: boolean }

async function lockSubmission(tx: Tx, projectId: string, id: string): Promise<WholeRow> {
  const { rows } = await sql<WholeRow>`
    select s.*, ${isHidden} as hidden from form_submissions s where s.id = ${id} and s.project_id = ${projectId} for update of s`.execute(
    tx,
  )
  const [row] = rows
  if (!row) throw noSuchSubmission()
  return row
}

/**
 * Moves a submission to another status. What was spam until now takes quota, or becomes hidden.
 * @throws AppError `not_found`; `conflict` when it is hidden; `payment_required` when there is no room for a hidden one
 */
export function setSubmissionStatus(
  services: Services,
  { id, project_id }: { readonly id: string; readonly project_id: string },
  status: SubmissionStatus,
): Promise<SubmissionRow> {
  return withProject(services, project_id, async (tx, project) => {
    const before = await lockSubmission(tx, project_id, id)
    if (before.hidden) throw conflict('the submission is hidden; it is revealed by a higher plan or a larger form balance')
    if (before.status === status) return shown(tx, project_id, id)
    const isUnpaid = !before.charged && before.hidden_no === null && before.status === 'spam'
    const charged = isUnpaid ? await charge(tx, services, project, services.clock()) : ({ kind: 'charged' } as const)
    if (charged.kind === 'exhausted') {
      throw formRefusal('quota_exhausted', 'the form submissions of the plan are used up; change the plan or buy more')
    }
    const isNowHidden = charged.kind === 'hidden'
    const after = {
      status: isNowHidden ? ('verified' as const) : status,
      charged: !isNowHidden,
      hidden_no: isNowHidden ? charged.hidden_no : null,
    }
    await tx.updateTable('form_submissions').set(after).where('id', '=', id).execute()
    await countOnSite(tx, before, { [before.status]: -1, [after.status]: 1, ...(isNowHidden && { hidden: 1 }) })
    return shown(tx, project_id, id)
  })
}

async function shown(tx: Tx, projectId: string, id: string): Promise<SubmissionRow> {
  const row = await findSubmission(tx, projectId, id)
  if (!row) throw noSuchSubmission()
  return row
}

/** Deletes a submission; what it was charged to stays used. @throws AppError `not_found` */
export function deleteSubmission(
  services: Services,
  { id, project_id }: { readonly id: string; readonly project_id: string },
): Promise<void> {
  return withProject(services, project_id, async (tx) => {
    const row = await lockSubmission(tx, project_id, id)
    await tx.deleteFrom('form_submissions').where('id', '=', id).execute()
    await countOnSite(tx, row, { [row.status]: -1, ...(row.hidden && { hidden: -1 }) })
  })
}
