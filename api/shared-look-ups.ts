interface Run<T> {
  readonly running: Promise<T>
  /** For those who ask while it runs. */
  next?: Promise<T>
}

/**
 * Makes a look-up that runs at most once at a time for each name. Those who ask while it runs share the next run, so every answer was read
 * after it was asked for, and however many ask at once cost two runs.
 */
export function shareLookUps<T>(lookUp: (name: string) => Promise<T>): (name: string) => Promise<T> {
  const runs = new Map<string, Run<T>>()

  async function run(name: string): Promise<T> {
    const entry: Run<T> = { running: lookUp(name) }
    runs.set(name, entry)
    try {
      return await entry.running
    } finally {
      if (!entry.next) runs.delete(name)
    }
  }

  return (name) => {
    const entry = runs.get(name)
    if (!entry) return run(name)
    const runNext = () => run(name)
    entry.next ??= entry.running.then(runNext, runNext)
    return entry.next
  }
}
