import type { MessengerName } from '../../core/messengers.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import type { Trying } from '../access/login-rates.ts'
import { accessRate } from '../rates.ts'

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

/** The rates of asking for a link to the bot. */
export const linkRates = ({ site_id, network }: Trying) => [
  accessRate(`links:network:${network}`, 20, hourMs),
  accessRate(`links:site:${site_id}`, 300, hourMs),
]

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
