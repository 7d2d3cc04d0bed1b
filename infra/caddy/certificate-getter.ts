import { hkdfSync } from 'node:crypto'

/** What Caddy asks the edge for, over HTTP on the loopback address: its getter of certificates cannot dial a unix socket. */
export interface CertificatePaths {
  /** Answered with chain and key, or with 204. */
  readonly certificate: string
  /** Asked for every name without a certificate, and always refused. */
  readonly permission: string
}

/** Paths that nobody else on this machine can guess: what is behind them are private keys. */
export function certificatePaths(secretKey: Uint8Array): CertificatePaths {
  const secret = Buffer.from(hkdfSync('sha256', secretKey, '', 'plinth certificate getter', 32)).toString('base64url')
  return { certificate: `/${secret}/certificate`, permission: `/${secret}/permission` }
}
