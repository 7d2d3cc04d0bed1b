import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'

/** Looks at every object of a storage on disk: their hashes by name, and the paths whose bytes, inflated, have another hash. */
export async function readObjects(storage: string): Promise<{ hashes: Set<string>; wrong: string[] }> {
  const objects = join(storage, 'objects')
  const hashes = new Set<string>()
  const wrong: string[] = []
  for (const entry of await readdir(objects, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const isVariant = path.endsWith('.gz')
    const name = path.slice(objects.length).replaceAll('/', '').replace('.gz', '')
    const bytes = await readFile(path)
    const sha256 = createHash('sha256')
      .update(isVariant ? gunzipSync(bytes) : bytes)
      .digest('hex')
    if (sha256 !== name) wrong.push(path)
    if (!isVariant) hashes.add(name)
  }
  return { hashes, wrong }
}
