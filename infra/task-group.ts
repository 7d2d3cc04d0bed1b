/**
 * Tasks that run beside their caller, at most `limit` at once. Unlike p-limit it queues nothing: a caller that reads a stream waits for room
 * before it reads on.
 */
export function createTaskGroup(limit: number) {
  const running = new Set<Promise<void>>()
  return {
    /** Waits until another task may begin. @throws what an earlier one has thrown */
    async room(): Promise<void> {
      if (running.size >= limit) await Promise.race(running)
    },
    add(task: Promise<void>): void {
      running.add(task)
      // a failure is thrown by the next wait for room, or at the end
      task.then(
        () => running.delete(task),
        () => undefined,
      )
    },
    /** Waits for all tasks, whether they fail or not. */
    async settled(): Promise<void> {
      await Promise.allSettled(running)
    },
    /** Waits for all tasks. @throws what the first that failed has thrown */
    async finished(): Promise<void> {
      await Promise.all(running)
    },
  }
}
