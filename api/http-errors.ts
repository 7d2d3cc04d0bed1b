import { AppError, type ErrorKind, unavailable } from '../core/errors.ts'
import { isDatabaseAway, isLockTimeout } from '../infra/db/database.ts'

/** The only place where a kind of error has an HTTP status. */
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

/** What the caller may see of an error; undefined for a fault of ours, which is a 500. */
export function visibleError(error: unknown): AppError | undefined {
  if (error instanceof AppError) return error
  if (isDatabaseAway(error)) return unavailable('the database does not answer or has no room left; try again in a few seconds')
  if (isLockTimeout(error))
    return unavailable('earlier requests of the project are still being worked on; try again in a few seconds')
  return undefined
}

/** The form of every error, and the one exception that the specification makes. */
export function errorBody(error: AppError | undefined): object {
  const message = error?.message ?? internalMessage
  return error?.details.missing ? { error: message, missing: error.details.missing } : { message }
}

export const internalMessage = 'something went wrong on our side; try again, and tell the operator if it repeats'
