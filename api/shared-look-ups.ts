interface Run<T> {
  readonly running: Promise<T>
  /** The next run, shared by all callers that come during the current one. */
  next?: Promise<T>
}

/**
 * Makes a look-up that runs at most once at a time for each name. Callers that come during a run share the next one, so that every result was
 * read after it was requested, and any number of concurrent callers costs two runs. When a run fails, its waiting callers fail as well: while
 * PostgreSQL does not answer, another run would make them wait for as long again.
 */
export function shareLookUps<T>(lookUp: (name: string) => Promise<T>): (name: string) => Promise<T> {
  const runs = new Map<string, Run<T>>()

  async function run(name: string): Promise<T> {
    const entry: Run<T> = { running: lookUp(name) }
    runs.set(name, entry)
    try {
      const found = await entry.running
      if (!entry.next) runs.delete(name)
      return found
    } catch (error) {
      runs.delete(name)
      throw error
    }
  }

  return (name) => {
    const entry = runs.get(name)
    if (!entry) return run(name)
    entry.next ??= entry.running.then(() => run(name))
    return entry.next
  }
}
