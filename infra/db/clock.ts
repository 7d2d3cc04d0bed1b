import { sql } from 'kysely'
import type { Logger } from '../log.ts'
import { pause } from '../pause.ts'
import type { Db } from './database.ts'

export interface DatabaseClock extends AsyncDisposable {
  /**
   * PostgreSQL's time, for every decision that deletes something or lets it expire: the clocks of machines differ. Never ahead of PostgreSQL, and
   * behind by at most the time of one query.
   * @throws Error like that of a query while PostgreSQL is away, until it has answered once
   */
  readonly clock: () => Date
  /** By how many milliseconds the clock of this machine is ahead of PostgreSQL's; undefined until PostgreSQL has answered once. */
  readonly skewMs: () => number | undefined
}

const everyMs = 30_000
const retryMs = 500
const reportedSkewMs = 1000

/** Asks PostgreSQL for its time, now and twice a minute. In between, time passes as the monotonic clock says, which cannot be set. */
export async function openDatabaseClock(db: Db, log: Pick<Logger, 'warn'>): Promise<DatabaseClock> {
  /** PostgreSQL's time when the monotonic clock was zero. */
  let zeroMs: number | undefined
  const stopped = new AbortController()
  const now = () => {
    if (zeroMs === undefined) throw new NoTime()
    return zeroMs + performance.now()
  }
  const skewMs = () => (zeroMs === undefined ? undefined : Date.now() - now())
  const isFar = () => Math.abs(skewMs() ?? 0) > reportedSkewMs

  async function ask(): Promise<void> {
    const wasFar = isFar()
    const askedAt = performance.now()
    const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(db)
    const told = rows[0]?.now.getTime()
    if (told === undefined) return
    // it told the time somewhere between the question and the answer
    const [least, most] = [told - performance.now(), told - askedAt]
    zeroMs = Math.min(Math.max(zeroMs ?? least, least), most)
    if (isFar() && !wasFar) log.warn({ skew_ms: skewMs() }, 'the clock of this machine is wrong, or that of PostgreSQL is')
  }

  async function follow(): Promise<void> {
    while (!stopped.signal.aborted) {
      await pause(zeroMs === undefined ? retryMs : everyMs, stopped.signal)
      // the time goes on without an answer
      if (!stopped.signal.aborted) await ask().catch(() => undefined)
    }
  }

  await ask().catch(() => undefined)
  const following = follow()
  return {
    clock: () => new Date(now()),
    skewMs,
    async [Symbol.asyncDispose]() {
      stopped.abort()
      await following
    },
  }
}

/** Counts as PostgreSQL being away (`isDatabaseAway`). */
class NoTime extends Error {
  readonly code = '08000'

  constructor() {
    super('PostgreSQL has not told the time yet')
  }
}
