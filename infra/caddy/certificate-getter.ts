import { deriveKey } from '../crypto/derive-key.ts'

/** The paths that Caddy requests from the edge, over HTTP on the loopback address: its certificate getter cannot dial a unix socket. */
export interface CertificatePaths {
  /** Answered with chain and key, or with 204. */
  readonly certificate: string
  /** Requested for every name without a certificate, and always refused. */
  readonly permission: string
}

/** Derives paths that nobody else on this machine can guess, because they serve private keys. */
export function certificatePaths(secretKey: Uint8Array): CertificatePaths {
  const secret = deriveKey(secretKey, 'plinth certificate getter').toString('base64url')
  return { certificate: `/${secret}/certificate`, permission: `/${secret}/permission` }
}
