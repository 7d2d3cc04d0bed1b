/** Work that goes on beside that of its caller, a few pieces at once. */
export function sideBySide(limit: number) {
  const running = new Set<Promise<void>>()
  return {
    /** Waits until another piece may begin. @throws what an earlier one has thrown */
    async room(): Promise<void> {
      if (running.size >= limit) await Promise.race(running)
    },
    add(piece: Promise<void>): void {
      running.add(piece)
      // a failure is thrown by the next race, or at the end
      piece.then(
        () => running.delete(piece),
        () => undefined,
      )
    },
    /** Waits for all, whatever becomes of them. */
    async settled(): Promise<void> {
      await Promise.allSettled(running)
    },
    /** @throws what the first that failed has thrown */
    async ended(): Promise<void> {
      await Promise.all(running)
    },
  }
}
