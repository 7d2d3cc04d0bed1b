interface Run<T> {
  readonly running: Promise<T>
  /** For those who ask while it runs. */
  next?: Promise<T>
}

/**
 * Makes a look-up that runs at most once at a time for each name. Those who ask while it runs share the next run, so every answer was read
 * after it was asked for, and however many ask at once cost two runs. When a run fails they fail with it: while PostgreSQL is silent, another
 * run would let them wait for as long again.
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
