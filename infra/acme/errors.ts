/**
 * `rate_limited`: retry after `retryAfterMs`. `refused`: the authority will not issue for these names or this account. `invalid`: it did not
 * find the answer to its challenge. `unreachable`: it is down or cannot be reached. `stuck`: it did not finish in time. An early retry makes
 * sense for the last two.
 */
export type AcmeErrorKind = 'rate_limited' | 'refused' | 'invalid' | 'unreachable' | 'stuck'

export interface AcmeErrorDetails {
  /** How long the authority asks to wait before a retry. */
  readonly retryAfterMs?: number | undefined
  /** The authority's type of the problem, such as `unauthorized` (RFC 8555, 6.7). */
  readonly problem?: string | undefined
  readonly cause?: unknown
}

/** A failure at the authority. The message tells the owner of a domain what is wrong and what to do. */
export class AcmeError extends Error {
  override readonly name = 'AcmeError'
  readonly kind: AcmeErrorKind
  readonly retryAfterMs: number | undefined
  readonly problem: string | undefined

  constructor(kind: AcmeErrorKind, message: string, { retryAfterMs, problem, cause }: AcmeErrorDetails = {}) {
    super(message, { cause })
    this.kind = kind
    this.retryAfterMs = retryAfterMs
    this.problem = problem
  }
}

/** The usable members of a problem document (RFC 7807). */
export interface Problem {
  readonly type: string | undefined
  readonly detail: string
}

const prefix = 'urn:ietf:params:acme:error:'
const maxDetail = 300

export function readProblem(body: unknown): Problem {
  const { type, detail, subproblems } = typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {}
  const inner = Array.isArray(subproblems) ? subproblems.map((one) => readProblem(one).detail).filter((text) => text !== '') : []
  return {
    type: typeof type === 'string' && type.startsWith(prefix) ? type.slice(prefix.length) : undefined,
    detail: [typeof detail === 'string' ? detail : '', ...inner]
      .join(' ')
      .replace(/[\s\p{Cc}]+/gu, ' ')
      .trim()
      .slice(0, maxDetail),
  }
}

/** Types of problems that a retry may solve. */
const temporary = ['badNonce', 'serverInternal', 'accountDoesNotExist', 'orderNotReady']

/** Interprets a response with a status of 400 or above. */
export function errorOfResponse(status: number, body: unknown, retryAfterMs: number | undefined): AcmeError {
  const { type: problem, detail } = readProblem(body)
  const said = detail === '' ? `status ${status}` : detail
  const details = { retryAfterMs, problem }
  if (status === 429 || problem === 'rateLimited') {
    return new AcmeError('rate_limited', `the certificate authority asks us to wait: ${said}`, details)
  }
  if (status >= 500 || problem === undefined || temporary.includes(problem)) {
    return new AcmeError('unreachable', `the certificate authority does not work at the moment: ${said}`, details)
  }
  return new AcmeError('refused', `the certificate authority refused: ${said}`, details)
}

const advice: Readonly<Record<string, string>> = {
  dns: 'check the DNS records of the domain',
  connection: 'the address of the domain must lead to this platform on port 80, also over IPv6 if it has an AAAA record',
  tls: 'the address of the domain must lead to this platform',
  caa: 'the CAA records of the domain must permit the certificate authority',
}
const usualAdvice = 'the A record of the domain must lead to this platform and nowhere else'

/** The error for a name whose challenge the authority found unanswered. */
export function failedChallenge(name: string, error: unknown): AcmeError {
  const { type: problem, detail } = readProblem(error)
  const hint = advice[problem ?? ''] ?? usualAdvice
  if (problem === 'rateLimited' || problem === 'serverInternal') return errorOfResponse(0, error, undefined)
  const said = detail === '' ? 'it gave no reason' : detail
  return new AcmeError('invalid', `the certificate authority could not check ${name}: ${said}; ${hint}`, { problem })
}
