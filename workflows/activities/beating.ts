import { cancellationSignal, heartbeat } from '@temporalio/activity'

const beatMs = 2000

/** Tells Temporal that an activity goes on, and learns from it when it is not wanted any more. */
export async function beating<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const timer = setInterval(heartbeat, beatMs)
  try {
    return await work(cancellationSignal())
  } finally {
    clearInterval(timer)
  }
}
