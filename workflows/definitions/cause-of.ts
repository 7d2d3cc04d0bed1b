import { ActivityFailure, ApplicationFailure } from '@temporalio/workflow'
import { platformFailures } from '../contract/failures.ts'

/** The message of the failure inside Temporal's wrappers. */
export function causeOf(error: unknown): string {
  const cause = insideOf(error)
  return cause instanceof Error ? cause.message : String(cause)
}

const insideOf = (error: unknown) => (error instanceof ActivityFailure ? (error.cause ?? error) : error)

const platformTypes: ReadonlySet<unknown> = new Set(Object.values(platformFailures))

/** Whether an activity has failed because of the platform, which says nothing about whom it called. */
export function isPlatformFault(error: unknown): boolean {
  const cause = insideOf(error)
  return cause instanceof ApplicationFailure && platformTypes.has(cause.type)
}
