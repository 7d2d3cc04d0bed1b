import { EventEmitter, once } from 'node:events'
import type { DeployStatus } from '../core/deploy.ts'
import { tooManyRequests, unavailable } from '../core/errors.ts'
import type { BuildLogs } from '../infra/build-logs/build-logs.ts'
import { readLogText } from '../infra/build-logs/text.ts'
import type { Db } from '../infra/db/database.ts'
import type { Logger } from '../infra/log.ts'
import { type DeployRow, findDeploy } from '../services/deploys/deploys.ts'
import type { Freshness } from '../services/feeds/freshness.ts'

const logPollMs = 200
const pollsPerRow = 5
const maxFollowers = 200
const maxFollowersOfProject = 20

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

/** All followers of a deploy share one poll of its log and its row. */
export function createLogFollowers(deps: FollowDeps): LogFollowers {
  const watches = new Map<string, Watch>()
  const seats = new Map<string, number>()
  let taken = 0

  function takeSeat(projectId: string): Disposable {
    const ofProject = seats.get(projectId) ?? 0
    if (ofProject >= maxFollowersOfProject) {
      throw tooManyRequests(
        `the project follows ${ofProject} logs already, as many as it may; end some, or read the log in pages without follow`,
        10,
      )
    }
    if (taken >= maxFollowers) throw unavailable('too many logs are being followed; read the log in pages without follow')
    taken += 1
    seats.set(projectId, ofProject + 1)
    return {
      [Symbol.dispose]() {
        taken -= 1
        const left = (seats.get(projectId) ?? 1) - 1
        if (left > 0) seats.set(projectId, left)
        else seats.delete(projectId)
      },
    }
  }

  function watchOf(deploy: DeployRow): Watch {
    const watch = watches.get(deploy.id) ?? startWatch(deps, deploy)
    watches.set(deploy.id, watch)
    watch.row = deploy
    return watch
  }

  function join(watch: Watch): Disposable {
    watch.followers += 1
    return {
      [Symbol.dispose]() {
        watch.followers -= 1
        if (watch.followers > 0) return
        watch.stop()
        watches.delete(watch.row.id)
      },
    }
  }

  async function* follow(deploy: DeployRow, { offset, limit, signal }: FollowOptions): AsyncGenerator<ServerSentEvent> {
    using _seat = takeSeat(deploy.project_id)
    const watch = watchOf(deploy)
    using _joined = join(watch)
    let status: DeployStatus | undefined
    let at = offset
    while (!signal.aborted) {
      const { row, version } = watch
      await deps.freshness.untilServed([row], () => signal)
      if (row.status !== status) yield { event: 'status', data: { status: row.status } }
      status = row.status
      const ended = hasWholeLog(row)
      for (;;) {
        const { text, next_offset } = await readLogText(deps.buildLogs, deploy.id, { offset: at, limit, ended })
        if (text === '') break
        at = next_offset
        yield { event: 'log', id: String(at), data: { text, next_offset } }
      }
      if (ended && isSettled(row)) {
        yield { event: 'end', data: { status, error: row.error } }
        return
      }
      if (watch.version === version) await once(watch.changes, 'change', { signal }).catch(unlessAborted(signal))
    }
  }

  return { follow }
}

const unlessAborted = (signal: AbortSignal) => (error: unknown) => {
  if (!signal.aborted) throw error
}

interface Watch {
  row: DeployRow
  /** Grows with each change of the row or the log. */
  version: number
  followers: number
  readonly changes: EventEmitter
  stop(): void
}

function startWatch({ db, buildLogs, log }: FollowDeps, deploy: DeployRow): Watch {
  const stopped = new AbortController()
  let size = 0
  let polls = 0
  let timer = setTimeout(poll, logPollMs)
  const watch: Watch = {
    row: deploy,
    version: 0,
    followers: 0,
    changes: new EventEmitter().setMaxListeners(0),
    stop() {
      stopped.abort()
      clearTimeout(timer)
    },
  }

  async function look(): Promise<void> {
    polls += 1
    // read the row before the log: a log that is read after the end of the build is complete
    const row = polls % pollsPerRow === 0 ? await findDeploy(db, deploy.project_id, deploy.id) : watch.row
    const { size: now } = await buildLogs.read(deploy.id, 0, 0)
    const next = row ?? { ...watch.row, status: 'failed', error: 'the deploy was deleted' }
    if (now === size && next.status === watch.row.status && next.artifacts_purged === watch.row.artifacts_purged) return
    size = now
    watch.row = next
    watch.version += 1
    watch.changes.emit('change')
  }

  async function poll(): Promise<void> {
    try {
      await look()
    } catch (error) {
      // the database or the storage is away for the moment
      log.debug({ err: error, deploy_id: deploy.id }, 'followed deploy not read')
    }
    if (!stopped.signal.aborted) timer = setTimeout(poll, logPollMs)
  }

  return watch
}
