import { shortName, signals, type WorkflowSignal, type WorkflowStart } from './messages.ts'

export interface ForgeReportsInput {
  readonly site_id: string
  readonly project_id: string
}

/** What a forge has not been told yet. */
export interface DueReport {
  /** `commit`: the status of a commit and the record of its deployment. `comment`: the one comment of a pull request. */
  readonly kind: 'commit' | 'comment'
  /** Of the deploy, or of the preview. */
  readonly id: string
  /** What the forge should know; what is sent is what is so at that moment. */
  readonly state: string
  /** One line for operators. */
  readonly summary: string
}

/** Implemented in `activities/reports.ts`. Each may be repeated. */
export interface ReportActivities {
  /** What of the site is to be told to its forge; none when the site is gone, is not connected, or cannot report. */
  dueReports(input: ForgeReportsInput): Promise<DueReport[]>
  /** An activity of the report queue. Tells the forge what is so now, and notes it. @throws ApplicationFailure, which says whether and when to try again */
  sendReport(report: DueReport): Promise<void>
  /** Notes that the forge does not take the report, so that it is not tried again until there is something new. */
  giveUpReport(report: DueReport, error: string): Promise<void>
}

/** Lives while there is something to report. */
const reportsWorkflowId = (site_id: string) => `git:${site_id}`

/** Tells a site's forge what is new, now or by the workflow that does so already. */
export function reportsSignal(site: {
  readonly site_id: string
  readonly site_name: string
  readonly project_id: string
}): WorkflowSignal<WorkflowStart<'reportToForge', ForgeReportsInput>> {
  const workflow_id = reportsWorkflowId(site.site_id)
  return {
    workflow_id,
    signal: signals.changed,
    start: {
      workflow_id,
      type: 'reportToForge',
      input: { site_id: site.site_id, project_id: site.project_id },
      summary: `**${shortName(site.site_name)}** reports to its forge`,
      attributes: { ProjectId: site.project_id, SiteId: site.site_id, SiteName: site.site_name, Trigger: 'git' },
    },
  }
}
