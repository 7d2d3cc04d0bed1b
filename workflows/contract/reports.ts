import { shortName, signals, type WorkflowSignal, type WorkflowStart } from './messages.ts'

export interface ForgeReportsInput {
  readonly site_id: string
  readonly project_id: string
}

/** A report that a forge does not have yet. */
export interface DueReport {
  /** `commit`: the status of a commit and the record of its deployment. `comment`: the one comment of a pull request. */
  readonly kind: 'commit' | 'comment'
  /** The id of the deploy or preview. */
  readonly id: string
  /** The state to report. When it changes before the report is sent, the new state is sent. */
  readonly state: string
  /** One line for operators. */
  readonly summary: string
}

/** Implemented in `activities/reports.ts`. Each may be repeated. */
export interface ReportActivities {
  /** Lists the reports that are due; none when the site is gone, is not connected, or cannot report. */
  dueReports(input: ForgeReportsInput): Promise<DueReport[]>
  /** Sends the current state to the forge and records that. It runs on the report queue. @throws ApplicationFailure, which says whether and when to retry */
  sendReport(report: DueReport): Promise<void>
  /** Records that the forge does not accept the report, so that it is not retried until the state changes. */
  giveUpReport(report: DueReport, error: string): Promise<void>
}

/** The workflow runs while there is something to report. */
const reportsWorkflowId = (site_id: string) => `git:${site_id}`

/** Signals that a site has something to report; starts its workflow when that is not running. */
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
