import { maskedNetwork } from '../../core/client-network.ts'
import { anybody } from '../../infra/crypto/visits.ts'
import type { Db } from '../../infra/db/database.ts'
import { accessRate, findFreeAt, networkRates, type Rate, returnRate, takeRate, takeRates } from '../rates.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { isKnownNetwork } from './known-networks.ts'

// A wrong password or code counts against the network that sent it, and wrong passwords against the site too. A try is counted before the secret is
// compared, so that tries at the same time cannot exceed a rate, and given back when the login succeeds. Over a rate one try in each pause is still
// compared. A flood of wrong passwords that uses up the rate of a site delays the networks that take part in it: the right password of others is
// accepted, because
//
// - networks from which the site was entered before do not depend on the rate of the site, and
// - other networks have a reserve: two tries an hour for each /24 or /48, 300 an hour together.
//
// Networks from which nobody has entered therefore have at most 200 + 300 guesses in an hour, and 120 in its pauses: a password of six digits, the
// shortest that is made, lasts for 1,000,000 / 620 hours, which are 67 days. A known network has six times the rate of one address at most: an attacker
// who has 250 addresses beside those of a visitor guesses it in 116 days.

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const pauseMs = 30_000

/** Who tries to log in to which site. */
export interface Trying {
  readonly site_id: string
  /** The network of the client's address. */
  readonly network: string
}

/** Wrong passwords, or wrong codes, of a network and of those around it. */
const failureRates = ({ site_id, network }: Trying) =>
  networkRates(`failures:${site_id}`, network, { limit: 10, periodMs: 15 * minuteMs }, { customer: 3, organisation: 6 })

const siteFailureRate = ({ site_id }: Trying) => accessRate(`failures:${site_id}`, 200, hourMs)

/** Tries of networks that have not failed much, while the rate of the site is used up. */
const reserveRates = ({ site_id, network }: Trying) => [
  accessRate(`reserve:${site_id}:${maskedNetwork(network)}`, 2, hourMs),
  accessRate(`reserve:${site_id}`, 300, hourMs),
]

/** Requests for codes of a client's network, over the whole platform. */
export const codeRequestRates = (network: string) =>
  networkRates('codes:network', network, { limit: 20, periodMs: hourMs }, { customer: 3, organisation: 20 })

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
type TryServices = Pick<Services, 'db' | 'relay'>

/** Counts a try of a password. @returns the instant from which another may be made, when this one is not compared */
export const takePasswordTry = (services: TryServices, trying: Trying, now: Date) =>
  takeTry(services, now, async (tx) => {
    const own = await takeOrPause(tx, failureRates(trying), now)
    if (await isKnownNetwork(tx, { ...trying, subject: anybody })) return own
    const ofSite = siteFailureRate(trying)
    if (await takeRate(tx, ofSite, now)) return [...own, ofSite]
    const isDelayed = own.some(({ key }) => key.startsWith('pause:'))
    const reserve = reserveRates(trying)
    if (!isDelayed && !(await takeRates(tx, reserve, now))) return [...own, ...reserve]
    return [...own, ...(await takeOrPause(tx, [ofSite], now))]
  })

/** Counts a try of a code; that needs no rate of its site, because each code has few tries. */
export const takeCodeTry = (services: TryServices, trying: Trying, now: Date) =>
  takeTry(services, now, (tx) => takeOrPause(tx, failureRates(trying), now))

async function takeTry(services: TryServices, at: Date, take: (tx: Tx) => Promise<readonly Rate[]>): Promise<Taken> {
  try {
    return await transact(services, async (tx) => ({ taken: await take(tx), at }))
  } catch (error) {
    if (error instanceof RateUsedUp) return { until: error.until }
    throw error
  }
}

/** Takes one from each of the rates; from one that is used up the one try of its pause. @throws RateUsedUp */
async function takeOrPause(tx: Tx, rates: readonly Rate[], now: Date): Promise<readonly Rate[]> {
  const taken: Rate[] = []
  for (const rate of rates) {
    if (await takeRate(tx, rate, now)) {
      taken.push(rate)
      continue
    }
    const pause = accessRate(`pause:${rate.key}`, 1, pauseMs)
    if (!(await takeRate(tx, pause, now))) throw new RateUsedUp(await findFreeAt(tx, pause, now))
    taken.push(pause)
  }
  return taken
}

/** Gives back a try that was no failure. */
export async function returnTry(db: Db, { taken, at }: Try): Promise<void> {
  for (const one of taken) await returnRate(db, one, at)
}
