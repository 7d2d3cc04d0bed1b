/** What went wrong, in the caller's terms. The HTTP status of each kind exists once: `api/http-errors.ts`. */
export type ErrorKind =
  | 'invalid'
  | 'unauthorized'
  | 'payment_required'
  | 'forbidden'
  | 'not_found'
  | 'method_not_allowed'
  | 'conflict'
  | 'too_large'
  | 'unsupported_media_type'
  | 'unprocessable'
  | 'too_many_requests'
  | 'unavailable'

export interface ErrorDetails {
  /** Seconds after which the same request may succeed; becomes `Retry-After`. */
  readonly retryAfterSeconds?: number
  /** Methods that the path allows; becomes `Allow`. */
  readonly allow?: readonly string[]
  /** Hashes of the blobs that a manifest deploy lacks; makes the body `{error, missing}`. */
  readonly missing?: readonly string[]
}

/** The only error whose message a caller sees. The message says what is wrong and what to do. */
export class AppError extends Error {
  override readonly name = 'AppError'
  readonly kind: ErrorKind
  readonly details: ErrorDetails

  constructor(kind: ErrorKind, message: string, details: ErrorDetails = {}) {
    super(message)
    this.kind = kind
    this.details = details
  }
}

export const invalid = (message: string) => new AppError('invalid', message)
export const notFound = (message: string) => new AppError('not_found', message)
export const conflict = (message: string) => new AppError('conflict', message)
export const paymentRequired = (message: string) => new AppError('payment_required', message)
export const unprocessable = (message: string) => new AppError('unprocessable', message)
export const tooManyRequests = (message: string, retryAfterSeconds: number) =>
  new AppError('too_many_requests', message, { retryAfterSeconds })
export const unavailable = (message: string, retryAfterSeconds = 5) => new AppError('unavailable', message, { retryAfterSeconds })

/** Milliseconds as `retryAfterSeconds`: whole seconds, at least one. */
export const secondsUntil = (instant: Date, now: Date) => Math.max(1, Math.ceil((instant.getTime() - now.getTime()) / 1000))
