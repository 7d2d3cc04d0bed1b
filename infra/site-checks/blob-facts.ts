import { LRUCache } from 'lru-cache'
import { isPage, type PageFacts } from '../../core/checks.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { compressible } from '../../core/media.ts'
import type { ObjectBatch } from '../cas/cas.ts'
import { mediaTypeOf } from '../media.ts'
import type { FactsReader } from './facts-reader.ts'

/** Of a file, at most this much is looked at. */
const maxReadBytes = 1024 * 1024
/** Files of kinds that may be anything are looked at when they are this small. */
const maxUnknownBytes = 64 * 1024
const maxCacheBytes = 16 * 1024 * 1024

/** What the bytes of a file tell, wherever it is published. */
export interface BlobFacts {
  readonly page?: PageFacts
  /** The kind of a secret in it. */
  readonly secret?: string
}

/** Whether the content of the file is worth a look. */
export function tellsSomething({ path, size }: ManifestEntry): boolean {
  const type = mediaTypeOf(path)
  if (/^(?:image\/(?!svg)|video\/|audio\/|font\/|application\/(?:wasm|vnd\.ms-fontobject|zip|pdf))/.test(type)) return false
  return compressible(type) || size <= maxUnknownBytes
}

type Objects = Pick<ObjectBatch, 'open'>

/**
 * Facts depend on the content alone, so they are remembered by its hash: the next deploy of a site reads only what changed. What could not
 * be read in time is remembered as well, as a file without facts.
 */
export function createBlobReader(reader: FactsReader): (file: ManifestEntry, objects: Objects) => Promise<BlobFacts> {
  const known = new LRUCache<string, BlobFacts>({ maxSize: maxCacheBytes, sizeCalculation: sizeInMemory })
  return async (file, objects) => {
    const page = isPage(file.path)
    const key = page ? `page ${file.sha256}` : file.sha256
    const remembered = known.get(key)
    if (remembered) return remembered
    const facts = await reader.read({ bytes: await readStart(objects, file), page })
    known.set(key, facts)
    return facts
  }
}

async function readStart(objects: Objects, { path, sha256 }: ManifestEntry): Promise<Buffer> {
  const object = await objects.open(sha256)
  if (!object) throw new Error(`the content of ${path}, ${sha256}, is missing from the storage`)
  if (object.size <= maxReadBytes) return await object.bytes()
  return Buffer.concat(await object.stream(0, maxReadBytes - 1).toArray())
}

/** Bytes, roughly: what a page of many links takes counts most. */
function sizeInMemory({ page }: BlobFacts): number {
  if (!page) return 200
  return page.links.reduce((sum, link) => sum + 40 + link.length, 500)
}
