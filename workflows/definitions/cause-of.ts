import { ActivityFailure } from '@temporalio/workflow'

/** What an activity that has failed says of it, without Temporal's words around it. */
export function causeOf(error: unknown): string {
  const cause = error instanceof ActivityFailure ? (error.cause ?? error) : error
  return cause instanceof Error ? cause.message : String(cause)
}
