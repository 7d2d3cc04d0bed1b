import type { DeployStatus } from '../core/deploy.ts'
import type { BuildLogs } from '../infra/build-logs/build-logs.ts'
import { readLogText } from '../infra/build-logs/text.ts'
import type { Db } from '../infra/db/database.ts'
import type { Logger } from '../infra/log.ts'
import { type DeployRow, findDeploy } from '../services/deploys/deploys.ts'
import type { Freshness } from '../services/feeds/freshness.ts'
import { createFollowerSeats } from './follower-seats.ts'
import { createWatches } from './watches.ts'

const logPollMs = 200
const pollsPerRow = 5

/** One event of a stream: a client that lost its connection resumes at `id`; `data` becomes JSON. */
export interface ServerSentEvent {
  readonly event: string
  readonly id?: string
  readonly data: unknown
}

export interface FollowDeps {
  readonly db: Db
  readonly buildLogs: BuildLogs
  readonly freshness: Freshness
  readonly log: Logger
}

export interface FollowOptions {
  /** The byte of the log at which to begin. */
  readonly offset: number
  /** The most bytes in one event. */
  readonly limit: number
  readonly signal: AbortSignal
}

export interface LogFollowers {
  /**
   * Yields the log from the offset, every change of the status, and `end` when neither can change again.
   * @throws AppError `too_many_requests`, `unavailable` when there are too many followers
   */
  follow(deploy: DeployRow, options: FollowOptions): AsyncIterable<ServerSentEvent>
}

/** Whether the log is complete. Stored files have none. */
export const hasWholeLog = ({ build_mode, status }: Pick<DeployRow, 'build_mode' | 'status'>) =>
  build_mode === 'copy' || !(['queued', 'building'] as DeployStatus[]).includes(status)

/** Whether the status changes only by another request. A ready deploy may be about to go live. */
const isSettled = ({ status, activate, artifacts_purged }: DeployRow) =>
  ['active', 'superseded', 'failed'].includes(status) || (status === 'ready' && (!activate || artifacts_purged))

interface FollowedDeploy {
  readonly row: DeployRow
  /** The bytes of its log. */
  readonly size: number
}

/** All followers of a deploy share one poll of its log and its row. */
export function createLogFollowers({ db, buildLogs, freshness, log }: FollowDeps): LogFollowers {
  const seats = createFollowerSeats({
    server: 200,
    project: 20,
    texts: {
      project: (taken) =>
        `the project follows ${taken} logs already, as many as it may; end some, or read the log in pages without follow`,
      server: 'too many logs are being followed; read the log in pages without follow',
    },
  })

  async function look(id: string, latest: FollowedDeploy, count: number): Promise<FollowedDeploy> {
    // read the row before the log: a log that is read after the end of the build is complete
    const row = count % pollsPerRow === 0 ? await findDeploy(db, latest.row.project_id, id) : latest.row
    const { size } = await buildLogs.read(id, 0, 0)
    const next: DeployRow = row ?? { ...latest.row, status: 'failed', error: 'the deploy was deleted' }
    const isSame = next.status === latest.row.status && next.artifacts_purged === latest.row.artifacts_purged
    return isSame && size === latest.size ? latest : { row: next, size }
  }

  const watches = createWatches({
    everyMs: logPollMs,
    look,
    // the database or the storage is away for the moment
    onFailure: (deploy_id, error) => log.debug({ err: error, deploy_id }, 'followed deploy not read'),
  })

  async function* follow(deploy: DeployRow, { offset, limit, signal }: FollowOptions): AsyncGenerator<ServerSentEvent> {
    using _seat = seats.take(deploy.project_id)
    using watch = await watches.join(deploy.id, () => ({ row: deploy, size: 0 }))
    let status: DeployStatus | undefined
    let at = offset
    while (!signal.aborted) {
      const { latest } = watch
      const { row } = latest
      await freshness.untilServed([row], () => signal)
      if (row.status !== status) yield { event: 'status', data: { status: row.status } }
      status = row.status
      const ended = hasWholeLog(row)
      for (;;) {
        const { text, next_offset } = await readLogText(buildLogs, deploy.id, { offset: at, limit, ended })
        if (text === '') break
        at = next_offset
        yield { event: 'log', id: String(at), data: { text, next_offset } }
      }
      if (ended && isSettled(row)) {
        yield { event: 'end', data: { status, error: row.error } }
        return
      }
      if (watch.latest === latest) await watch.next('change', signal)
    }
  }

  return { follow }
}
