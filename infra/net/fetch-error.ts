export type FetchFailure =
  /** Requests to the address are not allowed, or the name has no public address. */
  'forbidden' | 'unreachable' | 'tls' | 'redirect' | 'too_large' | 'timeout'

/** Why a name was refused. For the log of the operator only: it would tell users which names the network of the platform has. */
export type RefusedName = 'unknown_name' | 'not_public'

/** Why a guarded request has no answer. The message may be shown to users; it holds neither credentials nor addresses behind a name. */
export class FetchError extends Error {
  override readonly name = 'FetchError'
  readonly reason: FetchFailure
  readonly refusedName: RefusedName | undefined

  constructor(reason: FetchFailure, message: string, options?: ErrorOptions & { readonly refusedName?: RefusedName }) {
    super(message, options)
    this.reason = reason
    this.refusedName = options?.refusedName
  }
}

interface Limits {
  readonly deadline: AbortSignal
  readonly timeoutMs: number
  /** The caller's signal; its reason is passed on unchanged. */
  readonly signal: AbortSignal | undefined
}

/** Translates an error of Node, TLS or the system into a FetchError. */
export function translated(error: unknown, { host }: URL, { deadline, timeoutMs, signal }: Limits): unknown {
  if (error instanceof FetchError) return error
  if (signal?.aborted) return signal.reason
  if (deadline.aborted) return new FetchError('timeout', `${host} took longer than ${timeoutMs / 1000} s`)
  const { code = '', message } = error as NodeJS.ErrnoException
  if (ownFaults.has(code)) return error
  if (isTls(code)) {
    return new FetchError('tls', `no secure connection to ${host}: ${tlsReasons[code] ?? `the TLS handshake failed (${code})`}`, {
      cause: error,
    })
  }
  if (code === 'ETIMEDOUT') return new FetchError('unreachable', `${host} does not answer`, { cause: error })
  return new FetchError('unreachable', `${host} cannot be reached (${code || message})`, { cause: error })
}

/** This machine has no room for a connection, which says nothing about the host. */
const ownFaults = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL'])

const tlsReasons: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate comes from an authority that is not trusted here',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate comes from an authority that is not trusted here',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'it does not send the intermediate certificate, or its authority is not trusted here',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for other names',
}

const isTls = (code: string) =>
  code in tlsReasons || code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') || code === 'EPROTO'
