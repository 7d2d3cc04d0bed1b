import { registerHooks } from '../../services/messengers/hooks.ts'
import type { MessengerServices } from '../../services/messengers/services.ts'
import type { MessengerActivities } from '../contract/messengers.ts'

/** What the platform has to tell messengers. */
export const createMessengerActivities = (services: MessengerServices): MessengerActivities => ({
  registerMessengerHooks: () => registerHooks(services),
})
