import { setTimeout as pause } from 'node:timers/promises'
import type { DeployStatus } from '../../core/deploy.ts'
import type { Db } from '../../infra/db/database.ts'
import type { Logger } from '../../infra/log.ts'
import { findServedRoutes } from './edges.ts'

/** What is asked of a deploy that is about to be shown. */
export interface ShownDeploy {
  readonly id: string
  readonly site_id: string
  readonly status: DeployStatus
  readonly activated_at: Date | null
}

export interface Freshness {
  /**
   * Waits until every live edge serves the newest active one of the deploys, so that a client that reads `active` gets its pages. It waits only for an
   * activation of the last second, for a second at the most, until the signal is aborted, and not at all when PostgreSQL does not answer. To be
   * called outside of transactions. It never throws.
   */
  untilServed(deploys: readonly ShownDeploy[], signal?: () => AbortSignal): Promise<void>
}

/** How old an activation may be for which somebody waits, and how long they wait at most. */
const freshMs = 1000
const shortestPauseMs = 5
const longestPauseMs = 25

/** All who wait for one activation. */
interface Wait {
  readonly site_id: string
  readonly beganAt: number
  /** The version to wait for: that of the first look, which is not earlier than the activation. Null before. */
  version: number | null
  readonly over: Promise<void>
  end(): void
}

interface FreshnessDeps {
  /** The pool itself: one look serves the callers of all projects. */
  readonly db: Db
  readonly log: Logger
  readonly clock: () => Date
}

/** One for each process: all who read a deploy share a wait, and all waits share the statements that look what the edges serve. */
export function createFreshness({ db, log, clock }: FreshnessDeps): Freshness {
  const waits = new Map<string, Wait>()
  let isLooking = false

  function beginWait(key: string, site_id: string): Wait {
    const { promise: over, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(end, freshMs)
    const wait: Wait = { site_id, beganAt: performance.now(), version: null, over, end }
    function end(): void {
      clearTimeout(timer)
      if (waits.get(key) === wait) waits.delete(key)
      resolve()
    }
    waits.set(key, wait)
    return wait
  }

  async function look(looking: readonly Wait[]): Promise<void> {
    try {
      const found = await findServedRoutes(db, looking)
      looking.forEach((wait, i) => {
        const route = found[i]
        // the clock of an api may be wrong, so that of PostgreSQL decides whether anybody waits
        const isOld = wait.version === null && route !== undefined && route.age_ms > freshMs
        if (!route || route.is_served || isOld) wait.end()
        else wait.version = route.version
      })
    } catch (error) {
      log.warn({ err: error }, 'not known which routes the edges serve')
      for (const wait of looking) wait.end()
    }
  }

  /** Looks until nobody waits any more. */
  async function lookOn(): Promise<void> {
    if (isLooking) return
    isLooking = true
    while (waits.size > 0) {
      const youngestMs = performance.now() - Math.max(...[...waits.values()].map((wait) => wait.beganAt))
      await pause(Math.min(Math.max(youngestMs / 2, shortestPauseMs), longestPauseMs))
      const looking = [...waits.values()].filter((wait) => wait.version !== null)
      if (looking.length > 0) await look(looking)
    }
    isLooking = false
  }

  /** The first look is its own, so that a route that is served already costs no pause. */
  async function watch(wait: Wait): Promise<void> {
    await look([wait])
    await lookOn()
  }

  return {
    async untilServed(deploys, signal) {
      const [newest] = deploys
        .filter((deploy) => deploy.status === 'active')
        .toSorted((a, b) => (b.activated_at?.getTime() ?? 0) - (a.activated_at?.getTime() ?? 0))
      if (!newest?.activated_at || clock().getTime() - newest.activated_at.getTime() > freshMs) return
      const key = `${newest.id}:${newest.activated_at.getTime()}`
      let wait = waits.get(key)
      if (!wait) {
        wait = beginWait(key, newest.site_id)
        void watch(wait)
      }
      await (signal ? untilAborted(wait.over, signal()) : wait.over)
    },
  }
}

/** Waits until the promise is fulfilled or the signal is aborted. */
async function untilAborted(over: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const { promise: aborted, resolve } = Promise.withResolvers<void>()
  const leave = () => resolve()
  signal.addEventListener('abort', leave)
  await Promise.race([over, aborted])
  signal.removeEventListener('abort', leave)
}
