import { shortName, type WorkflowStart } from './messages.ts'

export interface DigestInput {
  readonly site_id: string
  /** The number of the email among those of the site. */
  readonly digest_no: number
  /** RFC 3339 with milliseconds. */
  readonly due_at: string
}

export interface DigestOutcome {
  /** `postponed`: the owner has got many emails about forms within an hour, so the next email holds the submissions. */
  readonly kind: 'sent' | 'postponed' | 'nothing'
  /** The submissions that it is about. */
  readonly count: number
}

/** An activity of the control queue, implemented in `activities/forms.ts`. */
export interface FormActivities {
  /** Writes the email and schedules the next one, if this one is still to be sent. `early`: the instant has not come yet. May be repeated. */
  sendDigest(input: DigestInput): Promise<DigestOutcome | 'early'>
}

/** Names neither the owner nor anything that a visitor wrote, because Temporal does not encrypt what it stores. */
export function digestStart(digest: {
  readonly site_id: string
  readonly site_name: string
  readonly project_id: string
  readonly digest_no: number
  readonly due_at: Date
}): WorkflowStart<'emailSubmissions', DigestInput> {
  const { site_id, site_name, project_id, digest_no } = digest
  const due_at = digest.due_at.toISOString()
  return {
    workflow_id: `form-digest:${site_id}:${digest_no}`,
    type: 'emailSubmissions',
    input: { site_id, digest_no, due_at },
    summary: `**${shortName(site_name)}** email about form submissions at ${due_at}`,
    attributes: { ProjectId: project_id, SiteId: site_id, SiteName: site_name, Trigger: 'api', DueAt: due_at },
  }
}
