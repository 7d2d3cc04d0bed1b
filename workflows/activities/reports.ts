import { cancellationSignal } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { open, SealError } from '../../infra/crypto/seal.ts'
import { openForge } from '../../infra/forges/client.ts'
import type { ForgeClient } from '../../infra/forges/reports.ts'
import { guardedSend } from '../../infra/forges/send.ts'
import { ForgeError } from '../../infra/forges/transport.ts'
import { withHeartbeat } from '../../infra/temporal/heartbeat.ts'
import { setLastReport } from '../../services/git/connections.ts'
import { type CommentKey, listDueComments, listDueCommits } from '../../services/reports/due.ts'
import { type CommentReportRow, type CommitReportRow, findCommentReport, findCommitReport } from '../../services/reports/facts.ts'
import { findReportingSite, setCommented, setReported } from '../../services/reports/reports.ts'
import type { Services } from '../../services/services.ts'
import type { DueReport, ReportActivities } from '../contract/reports.ts'
import { createReportTexts } from './report-texts.ts'

/** The most reports of each kind at once; more become due when some of these are sent. */
const maxDue = 50

/** The steps of reporting deploys and previews to a forge. The rows alone decide which reports are due. */
export function createReportActivities(services: Services): ReportActivities {
  const { db, config, keyring, freshness, log, clock } = services
  const texts = createReportTexts(services)

  function forgeOf(row: CommitReportRow | CommentReportRow): ForgeClient | undefined {
    const { repo_url, forge, token_sealed, site_id } = row
    const token = open(keyring, token_sealed, { table: 'git_connections', id: site_id, column: 'token_sealed' })
    const send = guardedSend({ allowPrivate: config.git.allowPrivate, signal: cancellationSignal() })
    return openForge({ repo_url, seen: forge ?? undefined, token, send, now: clock })
  }

  const arrived = (siteId: string) => setLastReport(db, siteId, { at: clock().toISOString(), error: null })

  async function sendCommit(id: string): Promise<void> {
    const row = await findCommitReport(db, id)
    const report = row && texts.ofCommit(row)
    const forge = row && forgeOf(row)
    if (!row || !report || !forge || row.state === null || row.state === row.reported) return
    await freshness.untilServed([row], cancellationSignal)
    // the status of the newest deploy of a commit stays, even when an older report is late
    if (report.status && !row.is_outdated) await forge.setStatus(report.status)
    const deployment_id = await forge.recordDeployment(report.deployment)
    await setReported(db, id, { reported: row.state, ...(deployment_id !== undefined && { deployment_id }) })
    await arrived(row.site_id)
  }

  async function sendComment(id: string): Promise<void> {
    const row = await findCommentReport(db, id)
    const forge = row && forgeOf(row)
    if (!row || !forge || row.state === null || row.state === row.commented) return
    const comment_id = await forge.putComment(texts.ofComment(row, row.state))
    await setCommented(db, { id, pull_request: row.pull_request }, { commented: row.state, comment_id })
    await arrived(row.site_id)
  }

  return {
    async dueReports({ site_id }) {
      if (!(await findReportingSite(db, site_id))) return []
      const commits = await listDueCommits(db, site_id, { now: clock(), limit: maxDue })
      const comments = await listDueComments(db, site_id, maxDue)
      return [
        ...commits.map(({ id, state, commit }): DueReport => {
          return { kind: 'commit', id, state, summary: `commit ${commit.slice(0, 8)}: ${state}` }
        }),
        ...comments.map(({ id, state, pull_request }): DueReport => {
          return { kind: 'comment', id, state, summary: `pull request ${pull_request}: ${stateOf(state)}` }
        }),
      ]
    },

    async sendReport({ kind, id }) {
      try {
        await withHeartbeat(() => (kind === 'commit' ? sendCommit(id) : sendComment(id)))
        log.info({ kind, id }, 'report sent')
      } catch (error) {
        throw translated(error)
      }
    },

    async giveUpReport({ kind, id, state }, error) {
      const row = await (kind === 'commit' ? findCommitReport(db, id) : findCommentReport(db, id))
      if (!row) return
      if ('pull_request' in row) await setCommented(db, { id, pull_request: row.pull_request }, { commented: state })
      else await setReported(db, id, { reported: state })
      await setLastReport(db, row.site_id, { at: clock().toISOString(), error })
      log.warn({ kind, id, state, error }, 'report given up')
    },
  }
}

/** The state in `<deploy_id>:<state>`. */
const stateOf = (key: CommentKey) => key.slice(key.indexOf(':') + 1)

function translated(error: unknown): unknown {
  if (error instanceof SealError) {
    const message = 'the token of the repository cannot be read any more: set it again'
    return ApplicationFailure.create({ message, type: 'sealed', nonRetryable: true, cause: error })
  }
  if (!(error instanceof ForgeError)) return error
  const { message, kind, isRetryable, retryAfterMs } = error
  return ApplicationFailure.create({
    message,
    type: kind,
    nonRetryable: !isRetryable,
    ...(retryAfterMs !== undefined && { nextRetryDelay: retryAfterMs }),
  })
}
