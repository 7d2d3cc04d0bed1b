import { createPrivateKey, X509Certificate } from 'node:crypto'

export interface CertificateFacts {
  /** DNS names, wildcards as `*.example.com`. */
  readonly names: readonly string[]
  readonly notBefore: Date
  readonly notAfter: Date
  /** Hex digits. */
  readonly serial: string
  /** The common name of the authority's certificate, or its whole subject when it has none. */
  readonly issuer: string
}

/**
 * Reads the first certificate of a PEM chain.
 * @throws Error when it is not a certificate
 */
export function describeCertificate(pem: string): CertificateFacts {
  const { subjectAltName = '', validFromDate, validToDate, serialNumber, issuer } = new X509Certificate(pem)
  return {
    names: [...subjectAltName.matchAll(/(?:^|, )DNS:([^,"]+)/g)].map(([, name = '']) => name.toLowerCase()),
    notBefore: validFromDate,
    notAfter: validToDate,
    serial: serialNumber.toLowerCase(),
    issuer: /^CN=(.+)$/m.exec(issuer)?.[1] ?? issuer.replaceAll('\n', ', '),
  }
}

/** Whether the chain's first certificate is for this key and for all of these names. */
export function fits(pem: string, key: string, names: readonly string[]): boolean {
  const described = describeCertificate(pem)
  return new X509Certificate(pem).checkPrivateKey(createPrivateKey(key)) && names.every((name) => described.names.includes(name))
}
