import type { Context as Koa } from 'koa'
import { AppError, type ErrorCode, type ErrorKind, errorCodes, unavailable } from '../core/errors.ts'
import { isDatabaseAway, isLockTimeout } from '../infra/db/errors.ts'

/** The HTTP status of each kind of error; defined only here. */
export const statusOf = {
  invalid: 400,
  unauthorized: 401,
  payment_required: 402,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  too_large: 413,
  unsupported_media_type: 415,
  unprocessable: 422,
  too_many_requests: 429,
  unavailable: 503,
} as const satisfies Record<ErrorKind, number>

/** Every status of an error. */
export const errorStatuses = [...Object.values(statusOf), 500].sort((a, b) => a - b)

/** The codes of the errors with a status, as the header `Plinth-Error` has them. The first is the general one. */
export function codesOf(status: number): ErrorCode[] {
  const isOf = (code: ErrorCode) => errorCodes[code].kinds.some((kind) => statusOf[kind] === status)
  return status === 500 ? ['internal_error'] : (Object.keys(errorCodes) as ErrorCode[]).filter(isOf)
}

/** The code of a visible error, or of an internal fault. */
export const codeOf = (error: AppError | undefined): ErrorCode => error?.code ?? 'internal_error'

/** The error that the caller may see; undefined for an internal fault, which is a 500. */
export function visibleError(error: unknown): AppError | undefined {
  if (error instanceof AppError) return error
  if (isDatabaseAway(error)) return unavailable('the database does not answer or has no room left; try again in a few seconds')
  if (isLockTimeout(error))
    return unavailable('earlier requests of the project are still being processed; try again in a few seconds')
  return undefined
}

/** The body of every error, with the one exception of the specification. */
export function errorBody(error: AppError | undefined): object {
  const message = error?.message ?? internalMessage
  return error?.details.missing ? { error: message, missing: error.details.missing } : { message }
}

export const internalMessage = 'something went wrong on our side; try again, and tell the operator if it repeats'

export function setErrorHeaders(koa: Koa, error: AppError | undefined): void {
  koa.set('plinth-error', codeOf(error))
  if (error?.kind === 'unauthorized') koa.set('www-authenticate', 'Bearer')
  if (error?.details.retryAfterSeconds !== undefined) koa.set('retry-after', String(error.details.retryAfterSeconds))
  if (error?.details.allow) koa.set('allow', error.details.allow.join(', '))
}
