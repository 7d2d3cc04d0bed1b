import { z } from 'zod'
import { formHtml } from '../../core/form-html.ts'
import { submissionStatuses } from '../../core/forms.ts'
import type { Config } from '../../infra/config.ts'
import { findSubmission, noSuchSubmission, type SubmissionRow } from '../../services/forms/inbox.ts'
import type { SiteFormRow } from '../../services/forms/overview.ts'
import type { SubmissionCounts } from '../../services/forms/site-forms.ts'
import type { Context } from '../context.ts'
import { writtenBy } from './authors.ts'
import { isoTime, time } from './fields.ts'

export const submission_id = z.uuid().describe('Id of the form submission.')

/** Any value of JSON: clients of tools ask for schemas that say so. */
const fieldValue = z.unknown().meta({ type: ['string', 'number', 'boolean', 'null', 'array', 'object'] })

export const Submission = z
  .object({
    id: z.uuid(),
    site_id: z.uuid(),
    status: z.enum(submissionStatuses),
    hidden: z
      .boolean()
      .describe('Whether it came over the quota: its content appears with a higher plan or a larger form balance.'),
    data: writtenBy('visitors', z.record(z.string(), fieldValue).describe('The fields by name; empty while it is hidden.')),
    created_at: time,
    request_id: z.string().nullable().describe('The `_request_id` that the form sent.'),
    ip_country: z.string().nullable().describe('Always null: addresses are not kept.'),
    user_agent: writtenBy('visitors', z.string().nullable()),
  })
  .meta({ id: 'Submission' })

export const submissionView = ({ created_at, ...row }: SubmissionRow): z.input<typeof Submission> => ({
  ...row,
  created_at: isoTime(created_at),
  ip_country: null,
})

const counters = z.object({ verified: z.int(), spam: z.int(), archive: z.int(), hidden: z.int() })

export const SiteForm = z
  .object({
    site_id: z.uuid(),
    name: z.string(),
    form_endpoint: z.url().describe('The URL to which forms of the site are posted.'),
    form_html: z.string().describe('A contact form for a page of the site, ready to be pasted.'),
    autoreply_enabled: z.boolean(),
    notify_email: z.boolean().describe('Whether the owner gets emails about submissions.'),
    counters: counters.describe('Submissions by status; the hidden ones are counted apart.'),
  })
  .meta({ id: 'SiteForm' })

export function siteFormView({ urls }: Pick<Config, 'urls'>, row: SiteFormRow): z.input<typeof SiteForm> {
  const form_endpoint = `${urls.base}/f/${row.site_id}`
  return {
    site_id: row.site_id,
    name: row.name,
    form_endpoint,
    form_html: formHtml(form_endpoint, row.site_id),
    autoreply_enabled: row.autoreply_enabled,
    notify_email: row.notify_email,
    counters: countersOf(row),
  }
}

export const FormsOverview = z
  .object({
    month: z.string().describe('The UTC calendar month of the quota, such as 2026-09.'),
    quota: z.int().nullable().describe('Submissions that the plan allows in a month; null is unlimited.'),
    used: z.int().describe('Submissions of this month that were charged to the quota.'),
    purchased_balance: z.int().describe('Bought submissions that are left; they are used when the quota of the month is.'),
    hidden_count: z.int().describe('Submissions over the quota, whose content appears with a higher plan or a larger balance.'),
    sites: z.array(SiteForm),
    counters: counters,
  })
  .meta({ id: 'FormsOverview' })

export const countersOf = ({ verified, spam, archive, hidden }: SubmissionCounts): z.input<typeof counters> => ({
  verified,
  spam,
  archive,
  hidden,
})

/** @throws AppError `not_found` */
export async function submissionOfCaller(ctx: Context, { submission_id }: { submission_id: string }): Promise<SubmissionRow> {
  const row = await findSubmission(ctx.db, ctx.caller.project_id, submission_id)
  if (!row) throw noSuchSubmission()
  return row
}
