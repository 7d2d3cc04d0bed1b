import { createECDH, createHash, createPrivateKey } from 'node:crypto'
import { deriveKey } from '../crypto/derive-key.ts'

export interface AcmeAccount {
  /** PEM. */
  readonly key: string
  /** The key's thumbprint (RFC 7638), which follows the token in answers of HTTP-01. */
  readonly thumbprint: string
}

const curve = 'prime256v1'
const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n

/**
 * The account of this platform, derived from the secret key: every process can answer a challenge of HTTP-01, and nothing has to be
 * stored or shared. The same key is the same account at every authority.
 *
 * @param secretKey PLINTH_SECRET_KEY
 */
export function acmeAccount(secretKey: Uint8Array): AcmeAccount {
  // 128 bits more than the curve has, so that the remainder is not biased (FIPS 186-5, A.2.1)
  const seed = deriveKey(secretKey, 'plinth acme account', 48)
  const scalar = (BigInt(`0x${seed.toString('hex')}`) % (order - 1n)) + 1n
  const pair = createECDH(curve)
  const secret = Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex')
  pair.setPrivateKey(secret)
  const point = pair.getPublicKey()
  const jwk = {
    crv: 'P-256',
    kty: 'EC',
    x: point.subarray(1, 33).toString('base64url'),
    y: point.subarray(33).toString('base64url'),
  }
  const key = createPrivateKey({ format: 'jwk', key: { ...jwk, d: secret.toString('base64url') } })
  return {
    key: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    thumbprint: createHash('sha256').update(JSON.stringify(jwk)).digest('base64url'),
  }
}

export const challengePath = '/.well-known/acme-challenge/'
const token = /^[A-Za-z0-9_-]{1,128}$/

/** The body that answers an HTTP-01 challenge at the path; undefined for every other path. */
export function challengeAnswer(path: string, thumbprint: string): string | undefined {
  if (!path.startsWith(challengePath)) return undefined
  const name = path.slice(challengePath.length)
  return token.test(name) ? `${name}.${thumbprint}` : undefined
}
