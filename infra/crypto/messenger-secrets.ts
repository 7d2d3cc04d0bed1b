import { createHmac, timingSafeEqual } from 'node:crypto'
import type { MessengerName } from '../../core/messengers.ts'
import { deriveKey } from './derive-key.ts'

/** What messengers and visitors prove with. All of it is derived, so that every process knows it. */
export interface MessengerSecrets {
  /** The last part of the address of the messenger's webhook. */
  hookPath(name: MessengerName): string
  /** What the messenger sends in a header with each call. */
  hookHeader(name: MessengerName): string
  /** The nonce of the link that belongs to a login: 32 characters of base64url. */
  loginNonce(loginId: string): string
}

const nonceLength = 32

/** @param secretKey PLINTH_SECRET_KEY */
export function createMessengerSecrets(secretKey: Uint8Array): MessengerSecrets {
  const derived = (purpose: string, name: MessengerName) =>
    deriveKey(secretKey, `plinth ${purpose} of ${name}`).toString('base64url')
  const loginKey = deriveKey(secretKey, 'plinth messenger logins')
  return {
    hookPath: (name) => derived('messenger hook', name),
    hookHeader: (name) => derived('messenger hook header', name),
    loginNonce: (loginId) => createHmac('sha256', loginKey).update(loginId).digest('base64url').slice(0, nonceLength),
  }
}

/** Compares a secret that somebody sent with ours, in a time that depends on the length of theirs only. */
export function isSecret(given: string, own: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(own)]
  return a.length === b.length && timingSafeEqual(a, b)
}
