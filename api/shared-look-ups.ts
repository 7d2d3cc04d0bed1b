/**
 * Makes a look-up that runs at most once at a time for each name. Those who ask while it runs share the next run, so every answer was read
 * after it was asked for, and however many ask at once cost two runs.
 */
export function shareLookUps<T>(lookUp: (name: string) => Promise<T>): (name: string) => Promise<T> {
  const runs = new Map<string, { readonly running: Promise<T>; next?: Promise<T> }>()

  async function run(name: string): Promise<T> {
    const running = lookUp(name)
    const entry: { readonly running: Promise<T>; next?: Promise<T> } = { running }
    runs.set(name, entry)
    try {
      return await running
    } finally {
      if (!entry.next) runs.delete(name)
    }
  }

  return (name) => {
    const entry = runs.get(name)
    if (!entry) return run(name)
    entry.next ??= entry.running.then(
      () => run(name),
      () => run(name),
    )
    return entry.next
  }
}
