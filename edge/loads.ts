/** Loads values by their keys. Who asks for a value that is being loaded waits for that load. */
export function createLoads<Value>(): (key: string, load: () => Promise<Value>) => Promise<Value> {
  const running = new Map<string, Promise<Value>>()
  return (key, load) => {
    const known = running.get(key)
    if (known) return known
    const loading = load().finally(() => running.delete(key))
    running.set(key, loading)
    return loading
  }
}
