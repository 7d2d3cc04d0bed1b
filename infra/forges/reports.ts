import type { ReportForge } from './address.ts'

export type ReportState = 'pending' | 'success' | 'failure' | 'cancelled'

export interface StatusReport {
  readonly commit: string
  /** The branch; GitLab shows the status in its pipeline. */
  readonly ref: string
  readonly state: ReportState
  /** Distinguishes the statuses of sites with the same repository: `id` at Bitbucket, which allows 40 characters, else `plinth/<name>`. */
  readonly site: { readonly id: string; readonly name: string }
  readonly description: string
  readonly target_url: string
}

export interface DeploymentReport {
  readonly deploy_id: string
  readonly commit: string
  readonly ref: string
  /**
   * `inactive`: the preview is closed. `replaced`: it succeeded, and another deploy is shown since. `overtaken`: the same, before its success
   * was reported.
   */
  readonly state: ReportState | 'inactive' | 'replaced' | 'overtaken'
  /** The environment, such as `production` or `preview/feature`. */
  readonly environment: string
  readonly is_live: boolean
  readonly description: string
  readonly log_url: string
  readonly site_url: string
  /** The id that an earlier report has returned. */
  readonly known_id?: string | undefined
}

export interface CommentReport {
  readonly number: number
  readonly site_id: string
  /** Markdown, without a marker. */
  readonly body: string
  /** The id that an earlier report has returned. It may be lost: the comment is then found by its marker. */
  readonly known_id?: string | undefined
}

/** Reports to a forge. Each may be repeated, and throws only ForgeError. */
export interface ForgeClient {
  readonly forge: ReportForge
  setStatus(report: StatusReport): Promise<void>
  /** @returns its id at the forge; undefined where outsiders cannot record deployments (Gitea, Bitbucket Cloud) */
  recordDeployment(report: DeploymentReport): Promise<string | undefined>
  /** Creates the one comment of a site in a pull request, or edits it. @returns its id at the forge */
  putComment(report: CommentReport): Promise<string>
}
