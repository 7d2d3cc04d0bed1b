/** PostgreSQL counts as away when it has answered nothing for this long. */
const silenceMs = 1000
/** The longest wait for a PostgreSQL that answers. Reading 400,000 sites for the first time takes as long. */
const longestMs = 10_000
/** Time is counted in steps, so that time in which this process did not run, and could hear no answer, is one of them. */
const stepMs = 50

export interface CatchUp {
  /** PostgreSQL has answered. */
  readonly answered: () => void
  /** Everything has been read. */
  readonly done: () => void
  /** Resolves when everything has been read, when PostgreSQL has not answered for a second, or after ten seconds. */
  readonly over: Promise<void>
}

/** How long an edge that starts waits for what has changed since its snapshot: an older page, or one of a site that was closed, must not come back. */
export function startCatchUp(): CatchUp {
  const { promise: over, resolve } = Promise.withResolvers<void>()
  let silentMs = 0
  let waitedMs = 0
  const timer = setInterval(() => {
    silentMs += stepMs
    waitedMs += stepMs
    if (silentMs >= silenceMs || waitedMs >= longestMs) end()
  }, stepMs)
  function end(): void {
    clearInterval(timer)
    resolve()
  }
  return {
    answered() {
      silentMs = 0
    },
    done: end,
    over,
  }
}
