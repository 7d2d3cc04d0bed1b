import type { Deps } from './context.ts'
import { loggedPath } from './logged-path.ts'
import type { Metrics } from './metrics.ts'

interface AnsweredRequest {
  /** The template of the route. */
  readonly route: string
  readonly method: string
  readonly path: string
  readonly status: number
  readonly ms: number
}

export type RecordRequest = (request: AnsweredRequest) => void

/** Measures and logs requests that were answered. */
export function requestRecorder({ log }: Pick<Deps, 'log'>, metrics: Metrics): RecordRequest {
  return ({ route, method, path, status, ms }) => {
    metrics.observeRequest(route, status, ms / 1000)
    if (!log.isLevelEnabled('debug')) return
    log.debug({ method, path: loggedPath(path), status, ms: Math.round(ms) }, 'request answered')
  }
}
