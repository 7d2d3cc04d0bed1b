import { cancellationSignal, heartbeat } from '@temporalio/activity'

/** A cancellation arrives in the response to a heartbeat; the SDK sends at most one per 0.8 of the heartbeat timeout. */
export const heartbeatMs = 2000

/**
 * Sends heartbeats while an activity works, so that Temporal knows that it is alive and can cancel it.
 * @param details the details that operators see with each heartbeat
 */
export async function withHeartbeat<Result>(
  work: (signal: AbortSignal) => Promise<Result>,
  details?: () => unknown,
): Promise<Result> {
  const timer = setInterval(() => heartbeat(details?.()), heartbeatMs)
  try {
    return await work(cancellationSignal())
  } finally {
    clearInterval(timer)
  }
}
