import type { MessengerName } from '../../core/messengers.ts'
import { type Config, required } from '../config.ts'
import { createMessengerSecrets, type MessengerSecrets } from '../crypto/messenger-secrets.ts'
import { openMax } from './max.ts'
import type { MessengerProvider } from './provider.ts'
import { openTelegram } from './telegram.ts'

/** The messengers of the platform. */
export interface Messengers {
  /** Those that the operator has set up. */
  readonly names: readonly MessengerName[]
  readonly secrets: MessengerSecrets
  /**
   * Undefined for one that the operator has not set up.
   * @param payer the site or project that its calls are for: those of one do not hold up others
   */
  open(name: MessengerName, payer: string): MessengerProvider | undefined
}

/** Makes no request. */
export function openMessengers({ messengers, secretKey }: Pick<Config, 'messengers' | 'secretKey'>): Messengers {
  const opened: Partial<Record<MessengerName, (payer: string) => MessengerProvider>> = {}
  const { telegram, max } = messengers
  if (telegram.token !== undefined) opened.telegram = openTelegram({ token: telegram.token, api: telegram.api })
  if (max.token !== undefined) opened.max = openMax({ token: max.token, api: max.api })
  return {
    names: Object.keys(opened) as MessengerName[],
    secrets: createMessengerSecrets(required(secretKey, 'PLINTH_SECRET_KEY')),
    open: (name, payer) => opened[name]?.(payer),
  }
}
