import type { Db } from '../../infra/db/database.ts'
import { accessRate, findFreeAt, type Rate, returnRate, takeRate } from '../rates.ts'
import type { Services } from '../services.ts'
import { transact } from '../transact.ts'

// Logins are limited over all processes (addendum E36). A try is counted before the secret is compared, so that tries at the same time cannot
// exceed a rate, and given back when the login succeeds. Over a rate nobody is locked out: one try in each pause is still admitted.

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const pauseMs = 30_000

/** Who tries to log in to which site. */
export interface Trying {
  readonly site_id: string
  /** The network of the client's address. */
  readonly network: string
}

/** The rates of failed logins; a guessed code needs no rate of its site, because each code has few tries. */
export const failureRates = {
  password: ({ site_id, network }: Trying) => [
    accessRate(`failures:${site_id}:${network}`, 10, 15 * minuteMs),
    accessRate(`failures:${site_id}`, 200, hourMs),
  ],
  code: ({ site_id, network }: Trying) => [accessRate(`failures:${site_id}:${network}`, 10, 15 * minuteMs)],
}

/** The rates of asking for codes. An address is limited over the whole platform, and named by its hash. */
export const codeRates = ({ site_id, network }: Trying, addressHash: string) => [
  accessRate(`codes:network:${network}`, 20, hourMs),
  accessRate(`codes:pause:${site_id}:${addressHash}`, 1, minuteMs),
  accessRate(`codes:hour:${addressHash}`, 5, hourMs),
  accessRate(`codes:day:${addressHash}`, 20, 24 * hourMs),
  accessRate(`codes:site:${site_id}`, 300, hourMs),
]

/** A try that may be made; `taken` counts it until it is given back. */
export interface Try {
  readonly taken: readonly Rate[]
  readonly at: Date
}

class RateUsedUp extends Error {
  readonly until: Date
  constructor(until: Date) {
    super('the rate is used up')
    this.until = until
  }
}

type Taken = Try | { readonly until: Date }

/** Takes one from each of the rates, in their order, or nothing. The instant from which that may succeed, when one is used up. */
export const takeRates = (services: Pick<Services, 'db' | 'relay'>, rates: readonly Rate[], now: Date) =>
  takeEach(services, rates, now, async (tx, one) => {
    if (!(await takeRate(tx, one, now))) throw new RateUsedUp(await findFreeAt(tx, one, now))
    return one
  })

/** As {@link takeRates}, but one try in each pause is admitted over a rate that is used up. */
export const takeTry = (services: Pick<Services, 'db' | 'relay'>, rates: readonly Rate[], now: Date) =>
  takeEach(services, rates, now, async (tx, one) => {
    if (await takeRate(tx, one, now)) return one
    const pause = accessRate(`pause:${one.key}`, 1, pauseMs)
    if (!(await takeRate(tx, pause, now))) throw new RateUsedUp(await findFreeAt(tx, pause, now))
    return pause
  })

async function takeEach(
  services: Pick<Services, 'db' | 'relay'>,
  rates: readonly Rate[],
  at: Date,
  take: (tx: Db, rate: Rate) => Promise<Rate>,
): Promise<Taken> {
  try {
    return await transact(services, async (tx) => {
      const taken: Rate[] = []
      for (const one of rates) taken.push(await take(tx, one))
      return { taken, at }
    })
  } catch (error) {
    if (error instanceof RateUsedUp) return { until: error.until }
    throw error
  }
}

/** Gives back a try that was no failure. */
export async function returnTry(db: Db, { taken, at }: Try): Promise<void> {
  for (const one of taken) await returnRate(db, one, at)
}
