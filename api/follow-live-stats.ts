import { isDeepStrictEqual } from 'node:util'
import type { Db } from '../infra/db/database.ts'
import type { Logger } from '../infra/log.ts'
import { findKey } from '../services/projects/keys.ts'
import { findSite, type SiteRow } from '../services/sites/sites.ts'
import { readLiveStats } from '../services/stats/live.ts'
import type { ServerSentEvent } from './follow-logs.ts'
import { createFollowerSeats } from './follower-seats.ts'
import { createWatches } from './watches.ts'

export interface LiveTiming {
  /** How often a site is looked at. */
  readonly pollMs: number
  /** How often a stream looks whether its site and its key still exist. */
  readonly recheckMs: number
  /** How long a stream lasts at most; its client connects again. */
  readonly maxAgeMs: number
}

const usualTiming: LiveTiming = { pollMs: 5000, recheckMs: 60_000, maxAgeMs: 3_600_000 }

export interface LiveFollowersDeps {
  readonly db: Db
  readonly log: Logger
  readonly clock: () => Date
}

export interface LiveFollowers {
  /**
   * Yields the live statistics of a site at once and after every change, and `end` when there is a reason to end.
   * @throws AppError `too_many_requests`, `unavailable` when there are too many followers
   */
  follow(site: SiteRow, options: { readonly keyId: string; readonly signal: AbortSignal }): AsyncIterable<ServerSentEvent>
}

/** All followers of a site share one poll of it. No connection to PostgreSQL is held between polls. */
export function createLiveFollowers(deps: LiveFollowersDeps, timing: LiveTiming = usualTiming): LiveFollowers {
  const { db, log, clock } = deps
  const seats = createFollowerSeats({
    server: 200,
    project: 20,
    texts: {
      project: (taken) =>
        `the project has ${taken} live views already, as many as it may; end some, or ask for one answer with follow=false`,
      server: 'too many live views are open; ask for one answer with follow=false',
    },
  })
  const watches = createWatches({
    everyMs: timing.pollMs,
    look: async (siteId, latest) => {
      const found = await readLiveStats(db, siteId, clock())
      return isDeepStrictEqual(found, latest) ? latest : found
    },
    onFailure: (site_id, error) => log.debug({ err: error, site_id }, 'live statistics not read'),
  })

  async function* follow(
    site: SiteRow,
    { keyId, signal }: { readonly keyId: string; readonly signal: AbortSignal },
  ): AsyncGenerator<ServerSentEvent> {
    using _seat = seats.take(site.project_id)
    using watch = await watches.join(site.id, () => readLiveStats(db, site.id, clock()))
    const begunAt = performance.now()
    let checkedAt = begunAt
    let shown: unknown
    while (!signal.aborted) {
      if (watch.latest !== shown) {
        shown = watch.latest
        yield { event: 'live', data: shown }
      }
      await watch.next('look', signal)
      const now = performance.now()
      let reason: string | undefined
      if (now - begunAt >= timing.maxAgeMs) reason = 'max_age'
      else if (now - checkedAt >= timing.recheckMs) {
        checkedAt = now
        reason = await whatIsGone(deps, site, keyId)
      }
      if (reason !== undefined) {
        yield { event: 'end', data: { reason } }
        return
      }
    }
  }

  return { follow }
}

/** Why a stream of the site for the key may not go on; undefined also while PostgreSQL is away. */
async function whatIsGone({ db, log }: LiveFollowersDeps, site: SiteRow, keyId: string): Promise<string | undefined> {
  try {
    if (!(await findKey(db, keyId))) return 'key_revoked'
    if (!(await findSite(db, site.project_id, site.id))) return 'site_deleted'
  } catch (error) {
    log.debug({ err: error, site_id: site.id }, 'site and key of a live view not read')
  }
  return undefined
}
