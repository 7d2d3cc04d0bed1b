import { z } from 'zod'
import { submissionStatuses } from '../../core/forms.ts'
import { monthOf } from '../../core/months.ts'
import { exportFormats, exportSubmissions } from '../../services/forms/export.ts'
import {
  deleteSubmission,
  listSubmissions,
  readSubmissions,
  type SubmissionFilter,
  setSubmissionStatus,
} from '../../services/forms/inbox.ts'
import { readSiteForms, setFormSettings, sumOfSiteForms } from '../../services/forms/overview.ts'
import { countSubmissions } from '../../services/forms/site-forms.ts'
import { formsUsed } from '../../services/forms/usage.ts'
import { findProject, noSuchProject } from '../../services/projects/projects.ts'
import type { Context } from '../context.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { Ok, site_id, text } from '../views/fields.ts'
import {
  countersOf,
  FormsOverview,
  SiteForm,
  Submission,
  siteFormView,
  submission_id,
  submissionOfCaller,
  submissionView,
} from '../views/forms.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Forms'
const maxSearchLength = 200
const [maxLimit, maxOffset] = [200, 10_000_000]

const filters = {
  site_id: z.uuid().optional().describe('Id of a site; all sites of the project when absent.'),
  status: z
    .string()
    .meta({ maxLength: 20 })
    .default('verified')
    .describe('verified, spam or archive; anything else means verified.'),
  q: text(maxSearchLength).optional().describe('Text that a value contains, in any case. Hidden submissions are not searched.'),
  field: text(maxSearchLength).optional().describe('The only field that q is looked for in.'),
}

function filterOf({ caller }: Context, input: z.output<z.ZodObject<typeof filters>>): SubmissionFilter {
  const { site_id, q, field } = input
  const status = submissionStatuses.find((one) => one === input.status) ?? 'verified'
  return { project_id: caller.project_id, site_id, status, q, field }
}

export const get_forms_overview = operation({
  id: 'get_forms_overview',
  title: 'Get the forms overview',
  summary:
    'Gets the monthly quota of form submissions, what is used of it, and the form settings, counters and ready HTML of every site.',
  tag,
  rest: 'GET /api/v1/forms/overview',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({}),
  output: FormsOverview,
  lists: [{ member: 'sites', key: 'site_id' }],
  handler: async (ctx) => {
    const { db, caller, config } = ctx
    const now = ctx.clock()
    const project = await findProject(db, caller.project_id)
    if (!project) throw noSuchProject()
    return {
      month: monthOf(now).slice(0, 7),
      quota: config.plans[project.plan].forms_per_month,
      used: await formsUsed(db, project.id, now),
      purchased_balance: project.form_balance,
      hidden_count: await countSubmissions(db, { project_id: project.id }, 'hidden'),
      sites: Listing.of(readSiteForms(db, project.id), (rows) => rows.map((row) => siteFormView(config, row))),
      counters: countersOf(await sumOfSiteForms(db, project.id)),
    }
  },
})

export const get_form_submissions = operation({
  id: 'get_form_submissions',
  title: 'List form submissions',
  summary: 'Lists form submissions, newest first. Those over the quota are hidden: their content is empty.',
  tag,
  rest: 'GET /api/v1/forms/submissions',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({
    ...filters,
    limit: z.int().default(50).describe('1 to 200; other numbers mean the nearest of these.'),
    offset: z.int().default(0).describe('How many to leave out; a negative number means 0.'),
    after: z.uuid().optional().describe('Id of the last submission of the previous page; the offset counts from there.'),
  }),
  queryAliases: { site_id: 'site' },
  output: z
    .object({
      items: z.array(Submission),
      total: z.int().describe('The number of submissions that match; a search looks through the newest 50,000.'),
      limit: z.int(),
      offset: z.int(),
    })
    .meta({ id: 'Submissions' }),
  lists: [{ member: 'items', key: 'id', continuedBy: 'after' }],
  handler: async (ctx, input) => {
    const limit = Math.min(Math.max(input.limit, 1), maxLimit)
    const offset = Math.min(Math.max(input.offset, 0), maxOffset)
    const wanted = { limit, offset, after: input.after }
    const { sizes, total, next } = await listSubmissions(ctx.db, filterOf(ctx, input), wanted)
    const items = Listing.of(readSubmissions(ctx.db, sizes), (rows) => rows.map(submissionView), next)
    return { items, total, limit, offset }
  },
})

export const export_submissions = operation({
  id: 'export_submissions',
  title: 'Export form submissions',
  summary:
    'Streams all matching form submissions, newest first, as CSV or as lines of JSON. Hidden ones are left out. Cells of CSV that begin like a formula get an apostrophe in front.',
  tag,
  rest: 'GET /api/v1/forms/submissions/export',
  scope: 'editor',
  input: z.object({ format: z.enum(exportFormats).default('csv'), ...filters }),
  queryAliases: { site_id: 'site' },
  download: ['text/csv', 'application/x-ndjson'],
  output: z.string(),
  handler: async (ctx, { format, ...input }) => ({
    type: format === 'csv' ? 'text/csv; charset=utf-8' : 'application/x-ndjson',
    name: `submissions.${format}`,
    batches: exportSubmissions(ctx.db, filterOf(ctx, input), format),
  }),
})

export const set_submission_status = operation({
  id: 'set_submission_status',
  title: 'Move a form submission',
  summary: 'Marks a form submission as verified, spam or archived. What was spam takes quota then, or becomes hidden.',
  tag,
  rest: 'POST /api/v1/forms/submissions/{submission_id}/status',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ submission_id, status: z.enum(submissionStatuses) }),
  example: { status: 'archive' },
  load: submissionOfCaller,
  output: Submission,
  errors: [402, 409],
  handler: async (ctx, { submission_id: id, status }) =>
    submissionView(await setSubmissionStatus(ctx, { id, project_id: ctx.caller.project_id }, status)),
})

export const delete_submission = operation({
  id: 'delete_submission',
  title: 'Delete a form submission',
  summary: 'Deletes a form submission for good. What it has used of the quota stays used.',
  tag,
  rest: 'DELETE /api/v1/forms/submissions/{submission_id}',
  tool: { destructive: true },
  scope: 'editor',
  input: z.object({ submission_id }),
  load: submissionOfCaller,
  output: Ok,
  handler: async (ctx, { submission_id: id }) => {
    await deleteSubmission(ctx, { id, project_id: ctx.caller.project_id })
    return { ok: true as const }
  },
})

export const set_form_settings = operation({
  id: 'set_form_settings',
  title: 'Set up the forms of a site',
  summary:
    'Sets whether the owner gets emails about form submissions to the site: the first at once, those that follow soon in digests.',
  tag,
  rest: 'PATCH /api/v1/sites/{site_id}/form',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ site_id, notify_email: z.boolean() }),
  example: { notify_email: true },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: SiteForm,
  errors: [409],
  handler: async (ctx, { notify_email }, site) => siteFormView(ctx.config, await setFormSettings(ctx, site, { notify_email })),
})
