import { ActivityFailure } from '@temporalio/workflow'

/** The message of the failure inside Temporal's wrappers. */
export function causeOf(error: unknown): string {
  const cause = error instanceof ActivityFailure ? (error.cause ?? error) : error
  return cause instanceof Error ? cause.message : String(cause)
}
