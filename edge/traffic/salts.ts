import { randomBytes } from 'node:crypto'
import { moscowDay } from '../../core/traffic-days.ts'
import { pause } from '../../infra/pause.ts'
import type { TrafficStore } from '../../services/feeds/traffic-store.ts'

export type Salts = ReadonlyMap<string, Buffer>

export interface DaySalts {
  /**
   * The salt of a day. While PostgreSQL has not given it, it is a random one of this thread: it is proposed to PostgreSQL as soon as that
   * answers, and when another edge was first, the visitors of this edge until then count twice.
   */
  of(day: string): Buffer
  /** What this thread knows of today and tomorrow. */
  readonly current: Salts
  /** Takes over what PostgreSQL has, and forgets past days. @returns whether a salt is another one now */
  adopt(salts: Salts): boolean
}

const hourMs = 3_600_000
const saltBytes = 32
/** How soon an edge learns of a salt that was replaced, as by a restored database, and forgets that of yesterday. One short query. */
const usualEveryMs = 30_000
const firstRetryMs = 1000
const maxRetryMs = 5000

/** Today, and tomorrow when it begins within 12 hours. */
function saltedDays(nowMs: number): string[] {
  return [...new Set([moscowDay(nowMs), moscowDay(nowMs + 12 * hourMs)])]
}

/** @param known from an earlier thread of this process */
export function createSalts(now: () => number, known: Salts = new Map()): DaySalts {
  const salts = new Map<string, Buffer>(known)
  return {
    of(day) {
      const salt = salts.get(day) ?? randomBytes(saltBytes)
      salts.set(day, salt)
      return salt
    },
    get current() {
      const days = saltedDays(now())
      return new Map([...salts].filter(([day]) => days.includes(day)))
    },
    adopt(given) {
      const today = moscowDay(now())
      for (const day of salts.keys()) if (day < today) salts.delete(day)
      const changed = [...given].filter(([day, salt]) => day >= today && salts.get(day)?.equals(salt) !== true)
      for (const [day, salt] of changed) salts.set(day, salt)
      return changed.length > 0
    },
  }
}

interface Agreement {
  readonly adopt: (given: Salts) => void
  /** PostgreSQL was asked, whether or not it has answered. */
  readonly looked: () => void
  readonly everyMs?: number | undefined
}

/** Agrees with PostgreSQL on the salts, at once and then twice a minute. */
export async function keepSalts(
  store: Pick<TrafficStore, 'agreeOnSalts'>,
  salts: DaySalts,
  { adopt, looked, everyMs = usualEveryMs }: Agreement,
  stop: AbortSignal,
): Promise<void> {
  let retryMs = firstRetryMs
  do {
    try {
      adopt(await store.agreeOnSalts(salts.current, saltedDays(Date.now())))
      looked()
      retryMs = firstRetryMs
      await pause(everyMs, stop)
    } catch {
      // the shipper reports that PostgreSQL is away as soon as there is something to store
      looked()
      await pause(retryMs, stop)
      retryMs = Math.min(maxRetryMs, retryMs * 2)
    }
  } while (!stop.aborted)
}
