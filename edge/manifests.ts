import { LRUCache } from 'lru-cache'
import type { Cas, OpenedObject } from '../infra/cas/cas.ts'
import { createEntryTable, findInTable, maxTabledBytes } from '../infra/cas/entry-table.ts'
import { findEntry, rulesOf, splitManifest } from '../infra/cas/manifests.ts'
import { sha256Hex } from '../infra/crypto/sha256.ts'
import { FairQueue } from '../infra/fair-queue.ts'
import { createLoads } from './loads.ts'
import { createFileCache, type SiteFiles } from './site-files.ts'

/** Limits of the memory, in bytes. */
export interface ManifestLimits {
  /** All small manifests together, and all large ones. */
  readonly manifestBytes: number
  /** Larger manifests are remembered apart, so that no number of them makes the edge forget small ones. */
  readonly smallManifestBytes: number
  /** All prepared files together. */
  readonly fileBytes: number
}

/** Roughly what an entry of a cache itself takes, with its key and the objects beside its bytes. */
export const entryBytes = 512
/** How much more memory prepared rules take than their JSON. */
const preparedRulesFactor = 5
/** Large manifests that are read at the same time: one of an older version may have 22 MB. */
const largeReadsAtOnce = 2
/**
 * Buffers that small manifests are read into, one after the other. A new one for each read would be 6 MB a second with 10,000 sites, and V8
 * collects its whole heap when what lies outside of it grows. No more than four threads read at a time.
 */
const readBufferCount = 8

interface LoadedFiles {
  readonly files: SiteFiles
  readonly memoryBytes: number
}

/** The files of deploys: at once when they are in memory. */
export function openManifests(cas: Cas, limits: ManifestLimits): (sha256: string) => SiteFiles | Promise<SiteFiles> {
  const filesOf = createFileCache(limits.fileBytes)
  const maxSmallBytes = Math.min(limits.smallManifestBytes, maxTabledBytes)

  async function openManifest(sha256: string): Promise<OpenedObject> {
    const object = await cas.open(sha256)
    if (!object) throw new Error(`the manifest ${sha256} is not in the storage`)
    return object
  }

  const readBuffers = Array.from({ length: readBufferCount }, () => Buffer.allocUnsafeSlow(maxSmallBytes))
  async function readSmall(sha256: string, manifest: OpenedObject): Promise<LoadedFiles> {
    const buffer = readBuffers.pop()
    try {
      const { files, rules, rulesBytes } = splitVerified(sha256, await manifest.bytes(buffer))
      const table = createEntryTable(files)
      const find = (path: string) => findInTable(table, path)
      return { files: filesOf(sha256, find, rules), memoryBytes: table.length + rulesBytes }
    } finally {
      if (buffer) readBuffers.push(buffer)
    }
  }
  async function readLarge(sha256: string): Promise<LoadedFiles> {
    const manifest = await openManifest(sha256)
    const bytes = await manifest.bytes()
    const { files, rules, rulesBytes } = splitVerified(sha256, bytes)
    const find = (path: string) => findEntry(files, path)
    return { files: filesOf(sha256, find, rules), memoryBytes: bytes.length + rulesBytes }
  }

  const small = new LRUCache<string, LoadedFiles | 'large'>({
    maxSize: limits.manifestBytes,
    sizeCalculation: (loaded) => (loaded === 'large' ? 0 : loaded.memoryBytes) + entryBytes,
  })
  const large = new LRUCache<string, LoadedFiles>({
    maxSize: limits.manifestBytes,
    sizeCalculation: ({ memoryBytes }) => memoryBytes + entryBytes,
  })
  const loadOnce = createLoads<SiteFiles>()
  const largeReads = new FairQueue({ slots: largeReadsAtOnce })

  async function loadSmall(sha256: string): Promise<LoadedFiles | 'large'> {
    const manifest = await openManifest(sha256)
    if (manifest.size > maxSmallBytes) {
      await manifest.close()
      return 'large'
    }
    const loaded = await readSmall(sha256, manifest)
    return loaded.memoryBytes <= maxSmallBytes ? loaded : 'large'
  }
  async function load(sha256: string): Promise<SiteFiles> {
    const known = small.get(sha256) ?? (await loadSmall(sha256))
    small.set(sha256, known)
    if (known !== 'large') return known.files
    const loaded = await largeReads.run('', () => readLarge(sha256))
    large.set(sha256, loaded)
    return loaded.files
  }

  return (sha256) => {
    const found = small.get(sha256)
    return (found === 'large' ? large.get(sha256) : found)?.files ?? loadOnce(sha256, () => load(sha256))
  }
}

/** @throws when the bytes are not those of the manifest */
function splitVerified(sha256: string, bytes: Buffer) {
  const parts = splitManifest(bytes)
  if (!parts || sha256Hex(bytes) !== sha256) throw new Error(`the manifest ${sha256} is damaged`)
  return { files: parts.files, rules: rulesOf(parts), rulesBytes: preparedRulesFactor * (parts.rules?.length ?? 0) }
}
