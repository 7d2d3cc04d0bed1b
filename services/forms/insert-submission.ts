import { type Selectable, sql } from 'kysely'
import type { SubmissionData } from '../../core/forms.ts'
import { jsonb } from '../../infra/db/jsonb.ts'
import type { DB } from '../../infra/db/schema.ts'
import { countSubmission } from '../activity.ts'
import type { CountedSite } from './site-forms.ts'

/** A submission as it is stored. */
export interface NewSubmission
  extends CountedSite,
    Pick<Selectable<DB['form_submissions']>, 'status' | 'charged' | 'hidden_no' | 'created_at' | 'user_agent' | 'email_pending'> {
  readonly data: SubmissionData
  readonly request_id: string | undefined
}

/**
 * The parts `stored`, `counted` and `counted_day` of a statement, which insert a submission for the row of `from` and count it, by day if it is
 * shown. The statement fails when the same request was stored a moment ago: {@link isRepeated}.
 */
export function insertSubmission({ project_id, site_id, status, hidden_no, ...stored }: NewSubmission, from: string) {
  const counter = sql.ref(status)
  const hidden = hidden_no === null ? 0 : 1
  const countedDay = isShown({ status, hidden_no })
    ? sql`, counted_day as (${countSubmission(site_id, stored.created_at, 'stored')})`
    : sql``
  return sql`
    stored as (
      insert into form_submissions (project_id, site_id, status, charged, hidden_no, data, request_id, user_agent, created_at, email_pending)
      select ${project_id}::uuid, ${site_id}::uuid, ${status}::text, ${stored.charged}::boolean, ${hidden_no}::bigint,
        ${jsonb(stored.data)}, ${stored.request_id ?? null}::uuid, ${stored.user_agent}::text, ${stored.created_at}::timestamptz, ${stored.email_pending}::boolean
      from ${sql.ref(from)}
      returning id),
    counted as (
      insert into site_forms (site_id, project_id, ${counter}, hidden)
      select ${site_id}::uuid, ${project_id}::uuid, 1, ${hidden}::int from stored
      on conflict (site_id) do update
      set ${counter} = site_forms.${counter} + 1, hidden = site_forms.hidden + excluded.hidden)${countedDay}`
}

/** Whether the owner sees it in the inbox, and not among the spam. */
export const isShown = ({ status, hidden_no }: Pick<NewSubmission, 'status' | 'hidden_no'>) =>
  status === 'verified' && hidden_no === null

/** Whether an insertion failed because a concurrent one has stored the same request. */
export const isRepeated = (error: unknown): boolean =>
  error instanceof Error && (error as { constraint?: unknown }).constraint === 'form_submissions_request'
