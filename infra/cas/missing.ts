import type { Cas } from './cas.ts'

const lookers = 32

/** Finds the objects that the storage does not have. */
export async function findMissing(cas: Cas, hashes: readonly string[]): Promise<string[]> {
  const missing: string[] = []
  const queue = hashes.values()
  const look = async () => {
    for (const sha256 of queue) if (!(await cas.stat(sha256))) missing.push(sha256)
  }
  await Promise.all(Array.from({ length: Math.min(lookers, hashes.length) }, look))
  return missing
}
