import type { Messengers } from '../../infra/messengers/open.ts'
import type { Services } from '../services.ts'

/** The services of whatever talks to messengers. */
export interface MessengerServices extends Services {
  readonly messengers: Messengers
}
