import type { MessengerName } from '../../core/messengers.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import { accessRate, networkRates } from '../rates.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** A person at a messenger. */
export interface Person {
  readonly provider: MessengerName
  /** What the messenger calls the person. */
  readonly user_id: string
}

/** Names a person without telling who it is. */
const hashOf = ({ provider, user_id }: Person) => sha256Hex(`${provider}:${user_id}`)

/** The rates of asking for a link to the bot. The site has none, because strangers could use it up. */
export const linkRates = (network: string) =>
  networkRates('links:network', network, { limit: 20, periodMs: hourMs }, { customer: 3, organisation: 20 })

/** The rate of messages of a person that the bot looks at. */
export const messageRates = (person: Person) => [accessRate(`bot:${hashOf(person)}`, 30, hourMs)]

/** The rates of the codes that the bot sends to a person, over the whole platform. */
export const codeRates = (person: Person) => [
  accessRate(`codes:hour:${hashOf(person)}`, 5, hourMs),
  accessRate(`codes:day:${hashOf(person)}`, 20, 24 * hourMs),
]

/** The rate of asking the messenger whether a person is a subscriber. */
export const membershipRates = (siteId: string, person: Person) => [
  accessRate(`membership:${siteId}:${hashOf(person)}`, 1, minuteMs),
]
