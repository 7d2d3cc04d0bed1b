import { hkdfSync } from 'node:crypto'

/**
 * Derives the key of one purpose from the secret key (HKDF, RFC 5869). The key of one purpose says nothing about another's.
 * @param secretKey PLINTH_SECRET_KEY
 */
export const deriveKey = (secretKey: Uint8Array, purpose: string, bytes = 32): Buffer =>
  Buffer.from(hkdfSync('sha256', secretKey, '', purpose, bytes))
