import type { SkipReason } from '../../core/autoreply.ts'
import type { WorkflowStart } from './messages.ts'

export interface AutoreplyInput {
  readonly submission_id: string
}

/** What was decided about the reply to a submission. */
export type AutoreplyDecision =
  | { readonly state: 'written'; readonly email_id: string }
  | { readonly state: 'skipped'; readonly reason: SkipReason }

/** Activities of the control queue, implemented in `activities/autoreply.ts`. */
export interface AutoreplyActivities {
  /** Decides whether the visitor gets a reply, and writes it. A repetition finds what was written. */
  decideAutoreply(input: AutoreplyInput): Promise<AutoreplyDecision>
}

/** Holds neither an address nor a field, because Temporal does not encrypt what it stores. */
export const autoreplyStart = (submission: {
  readonly submission_id: string
  readonly site_id: string
  readonly project_id: string
}): WorkflowStart<'sendAutoreply', AutoreplyInput> => ({
  workflow_id: `autoreply:${submission.submission_id}`,
  type: 'sendAutoreply',
  input: { submission_id: submission.submission_id },
  summary: 'auto-reply to a form submission',
  attributes: { ProjectId: submission.project_id, SiteId: submission.site_id, Trigger: 'api' },
})
