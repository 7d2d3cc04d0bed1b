import { type Config, previewUrl, siteUrl } from '../../infra/config.ts'
import { issuedToken, type PreviewTokens } from '../../infra/crypto/preview-tokens.ts'
import type { CommentReport, DeploymentReport, ReportState, StatusReport } from '../../infra/forges/reports.ts'
import { commentText, type ReportFacts, statusText } from '../../infra/forges/texts.ts'
import type { CommentKey } from '../../services/reports/due.ts'
import type { CommentReportRow, CommitReportRow } from '../../services/reports/facts.ts'

interface ReportTextsDeps {
  readonly config: Config
  readonly previewTokens: PreviewTokens
  readonly clock: () => Date
}

interface LinkedPreview {
  readonly preview_id: string | null
  readonly generation: number | null
  readonly token_sha256: string | null
}

/** Composes the reports to a forge. */
export function createReportTexts({ config, previewTokens, clock }: ReportTextsDeps) {
  const logUrl = (deployId: string) => `${config.urls.base}/api/v1/deploys/${deployId}/logs`

  /** The preview link; undefined while it shows nothing. */
  function linkOf({ preview_id, generation, token_sha256 }: LinkedPreview): string | undefined {
    if (preview_id === null) return undefined
    const token = issuedToken(previewTokens, { id: preview_id, generation, token_sha256 })
    return token && previewUrl(config, token)
  }

  return {
    /** Undefined when the commit is unknown. The status is absent when the forge has the final one already. */
    ofCommit(row: CommitReportRow): { readonly status?: StatusReport; readonly deployment: DeploymentReport } | undefined {
      const { id, git, state, site_name: name } = row
      if (!git || state === null) return undefined
      // after the end of a build, reports are about its deployment only
      const hasFinalStatus = row.reported === 'success' || row.reported === 'replaced'
      const log_url = logUrl(id)
      const address = row.activate ? siteUrl(config, row.subdomain) : linkOf(row)
      const duration_ms = row.finished_at ? row.finished_at.getTime() - row.created_at.getTime() : undefined
      const error = firstLine(row.error)
      const end = state === 'replaced' ? 'success' : state
      const description = statusText({ state: end === 'inactive' ? 'removed' : end, duration_ms, error })
      const ref = row.branch ?? git.ref
      const common = { commit: git.commit, ref, description }
      const status: StatusReport = {
        ...common,
        state: end === 'inactive' ? 'success' : end,
        site: { id: row.site_id, name },
        target_url: (end === 'success' ? address : undefined) ?? log_url,
      }
      const deployment: DeploymentReport = {
        ...common,
        deploy_id: id,
        state: state === 'replaced' && !hasFinalStatus ? 'overtaken' : state,
        environment: environmentOf(row),
        is_live: row.activate,
        log_url,
        site_url: address ?? log_url,
        known_id: row.deployment_id ?? undefined,
      }
      return hasFinalStatus ? { deployment } : { status, deployment }
    },

    ofComment(row: CommentReportRow, key: CommentKey): CommentReport {
      const body = commentText({
        site_name: row.site_name,
        commit: row.git?.commit ?? row.head_commit ?? undefined,
        ref: row.branch,
        state: stateOf(key),
        site_url: linkOf(row),
        log_url: row.deploy_id === null ? undefined : logUrl(row.deploy_id),
        at: clock(),
        error: firstLine(row.error),
      })
      return { number: row.pull_request, site_id: row.site_id, body, known_id: row.comment_id ?? undefined }
    },
  }
}

function stateOf(key: CommentKey): ReportFacts['state'] {
  if (key === 'removed' || key === 'waiting_for_approval') return key
  return key.slice(key.indexOf(':') + 1) as ReportState
}

const firstLine = (error: string | null) => error?.split('\n', 1)[0]

/** A new deployment in an environment replaces the previous one, so sites of one repository need environments of their own. */
function environmentOf({ activate, has_siblings, subdomain, ref, git }: CommitReportRow): string {
  const name = activate ? 'production' : `preview/${ref ?? git?.ref ?? ''}`
  // the characters that GitLab accepts, and the length that GitHub accepts
  return (has_siblings ? `${subdomain}/${name}` : name).replaceAll(/[^\w/-]/g, '-').slice(0, 255)
}
