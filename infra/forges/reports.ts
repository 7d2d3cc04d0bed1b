import type { ReportForge } from './address.ts'

export type ReportState = 'pending' | 'success' | 'failure'

export interface StatusReport {
  readonly commit: string
  /** The branch; GitLab shows the status in its pipeline. */
  readonly ref: string
  readonly state: ReportState
  /** Tells the statuses of sites with one repository apart: `id` at Bitbucket, which takes 40 characters, else `plinth/<name>`. */
  readonly site: { readonly id: string; readonly name: string }
  readonly description: string
  readonly target_url: string
}

export interface DeploymentReport {
  readonly deploy_id: string
  readonly commit: string
  readonly ref: string
  /**
   * `inactive`: the preview is gone. `replaced`: it has succeeded, and another one is shown since. `overtaken`: so before its success was
   * told.
   */
  readonly state: ReportState | 'inactive' | 'replaced' | 'overtaken'
  /** Such as `production` or `preview/feature`. */
  readonly environment: string
  readonly is_live: boolean
  readonly description: string
  readonly log_url: string
  readonly site_url: string
  /** What an earlier report has returned. */
  readonly known_id?: string | undefined
}

export interface CommentReport {
  readonly number: number
  readonly site_id: string
  /** Markdown, without a marker. */
  readonly body: string
  /** What an earlier report has returned. It may be lost: the comment is then found by its marker. */
  readonly known_id?: string | undefined
}

/** Reports to a forge. Each may be repeated, and throws only ForgeError. */
export interface ForgeClient {
  readonly forge: ReportForge
  setStatus(report: StatusReport): Promise<void>
  /** @returns its id at the forge; undefined where others cannot record deployments (Gitea, Bitbucket Cloud) */
  recordDeployment(report: DeploymentReport): Promise<string | undefined>
  /** Makes the one comment of a site in a pull request, or edits it. @returns its id at the forge */
  putComment(report: CommentReport): Promise<string>
}
