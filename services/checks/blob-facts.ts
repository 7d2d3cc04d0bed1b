import { LRUCache } from 'lru-cache'
import { isPage } from '../../core/checks.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { compressible } from '../../core/media.ts'
import type { ObjectBatch } from '../../infra/cas/cas.ts'
import { mediaTypeOf } from '../../infra/media.ts'
import type { FactsReader } from './facts-reader.ts'
import type { BlobFacts } from './facts-thread.ts'

/** The most bytes of a file that are read. */
const maxReadBytes = 1024 * 1024
/** Files of unknown kinds are read up to this size. */
const maxUnknownBytes = 64 * 1024
const maxCacheBytes = 16 * 1024 * 1024

/** How many bytes of the file are read. */
export const bytesToRead = ({ size }: Pick<ManifestEntry, 'size'>) => Math.min(size, maxReadBytes)

/** Whether the content of the file may lead to a recommendation. */
export function tellsSomething({ path, size }: ManifestEntry): boolean {
  const type = mediaTypeOf(path)
  if (/^(?:image\/(?!svg)|video\/|audio\/|font\/|application\/(?:wasm|vnd\.ms-fontobject|zip|pdf))/.test(type)) return false
  return compressible(type) || size <= maxUnknownBytes
}

type Objects = Pick<ObjectBatch, 'open'>

/** Returns the facts of a few files, in order. Their bytes are in memory at the same time. */
type ReadBlobs = (
  files: readonly ManifestEntry[],
  from: { readonly objects: Objects; readonly payer: string },
) => Promise<BlobFacts[]>

/**
 * Facts depend on the content alone, so they are remembered by its hash: the next deploy of a site reads only changed files. Files that could
 * not be read in time are remembered as well, without facts.
 */
export function createBlobReader(reader: FactsReader): ReadBlobs {
  const known = new LRUCache<string, BlobFacts>({ maxSize: maxCacheBytes, sizeCalculation: sizeInMemory })
  return async (files, { objects, payer }) => {
    const asked = files.map((file) => {
      const page = isPage(file.path)
      const key = page ? `page ${file.sha256}` : file.sha256
      return { file, page, key, facts: known.get(key) }
    })
    const unknown = asked.filter(({ facts }) => !facts)
    if (unknown.length === 0) return asked.map(({ facts }) => facts ?? {})
    const toRead = await Promise.all(unknown.map(async ({ file, page }) => ({ bytes: await readStart(objects, file), page })))
    const read = await reader.read(toRead, payer)
    const found = new Map(unknown.map(({ key }, i) => [key, read[i] ?? {}]))
    for (const [key, facts] of found) known.set(key, facts)
    return asked.map(({ key, facts }) => facts ?? found.get(key) ?? {})
  }
}

async function readStart(objects: Objects, { path, sha256 }: ManifestEntry): Promise<Buffer> {
  const object = await objects.open(sha256)
  if (!object) throw new Error(`the content of ${path}, ${sha256}, is missing from the storage`)
  if (object.size <= maxReadBytes) return await object.bytes()
  return Buffer.concat(await object.stream(0, maxReadBytes - 1).toArray())
}

/** Roughly the bytes of the facts; a page with many links takes most. */
function sizeInMemory({ page }: BlobFacts): number {
  if (!page) return 200
  return page.links.reduce((sum, link) => sum + 40 + link.length, 500)
}
