import { createHmac, timingSafeEqual } from 'node:crypto'
import { base32, fromBase32 } from './base32.ts'
import { deriveKey } from './derive-key.ts'

/** The token of the permanent link of a deploy: 52 characters of lower-case base32, different for each generation of the site's links. */
export type PermanentTokens = (deployId: string, generation: number) => string

const idBytes = 16
const signatureBytes = 16

/** A token is the id of the deploy and a signature, so that nothing is stored for it. Another secret key gives other tokens. */
export function createPermanentTokens(secretKey: Uint8Array): PermanentTokens {
  const key = deriveKey(secretKey, 'plinth permanent links')
  return (deployId, generation) => {
    const signature = createHmac('sha256', key).update(`${deployId}:${generation}`).digest().subarray(0, signatureBytes)
    return base32(Buffer.concat([Buffer.from(deployId.replaceAll('-', ''), 'hex'), signature]))
  }
}

/** The id of the deploy that a token names, whether or not its signature is right. Undefined when it cannot be a token. */
export function deployIdOf(token: string): string | undefined {
  const bytes = fromBase32(token)
  if (bytes?.length !== idBytes + signatureBytes) return undefined
  const [, ...parts] = /^(.{8})(.{4})(.{4})(.{4})(.{12})/.exec(bytes.toString('hex')) ?? []
  return parts.join('-')
}

/** Compares in a time that does not depend on where the texts differ. */
export const isSameToken = (token: string, expected: string) =>
  token.length === expected.length && timingSafeEqual(Buffer.from(token), Buffer.from(expected))
