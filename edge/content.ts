import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { cachePolicy } from '../core/caching.ts'
import type { ManifestEntry } from '../core/manifest.ts'
import { compressible } from '../core/media.ts'
import type { Cas, Encoding, OpenedObject } from '../infra/cas/cas.ts'
import { hashOfInflated } from '../infra/cas/hashes.ts'
import { findEntry, isManifest } from '../infra/cas/manifests.ts'
import { FairQueue } from '../infra/fair-queue.ts'
import { mediaTypeOf } from '../infra/media.ts'
import type { Tags } from './conditions.ts'

/** A published file with all that its responses have in common, made once while it is remembered. Headers are flat name, value lists. */
export interface SiteFile extends ManifestEntry {
  readonly tags: Tags
  /** Text, of which the storage may keep a gzip twin. */
  readonly mayHaveTwin: boolean
  /** Of every response with its bytes as they are. Content-Length is not among them. */
  readonly plainHeaders: readonly string[]
  /** Of every response with its gzip twin. */
  readonly gzipHeaders: readonly string[]
  /** Of a 304, without the tag. */
  readonly unchangedHeaders: readonly string[]
}

interface SiteFiles {
  has(path: string): boolean
  /** @throws when the deploy has no such file */
  get(path: string): SiteFile
}

/** `absent`: there is no such encoding. `large`: to be streamed from {@link Content.open}. */
type Body = Buffer | 'absent' | 'large'

export interface Content {
  /** The files of a deploy, from memory. */
  cachedFiles(manifestSha256: string): SiteFiles | undefined
  /** As {@link cachedFiles}, read when needed. @throws when the manifest is missing or the storage fails */
  loadFiles(manifestSha256: string): Promise<SiteFiles>
  cachedBody(file: SiteFile, encoding?: Encoding): Body | undefined
  /** @throws when the object is missing, has another size than the manifest says, or the storage fails */
  loadBody(file: SiteFile, encoding?: Encoding): Promise<Body>
  /** For bodies that are `large`. The caller streams or closes it. @throws as {@link loadBody} */
  open(file: SiteFile, encoding?: Encoding): Promise<OpenedObject>
}

/** What is remembered, in bytes. The process takes about three times their sum at most. */
export interface ContentLimits {
  /** All small manifests together, and all large ones. */
  readonly manifestBytes?: number
  /** Larger manifests are remembered apart, so that no number of them makes the edge forget small ones. */
  readonly smallManifestBytes?: number
  /** All prepared files together. */
  readonly fileBytes?: number
  /** All remembered bodies together. */
  readonly bodyBytes?: number
  /** Larger bodies are streamed. */
  readonly maxBodyBytes?: number
}

/** How long it is believed that an object has no twin: its blob may be published again under the name of a text. */
const absentTtlMs = 60_000
const MiB = 1024 * 1024
/** Gzip variants of larger files are not remembered: to compare them with their hash they have to be inflated. */
const maxInflatedBytes = 4 * MiB
/** Roughly what an entry of the cache itself takes. */
const entryBytes = 256
/** Roughly what a prepared file takes beside its path: three lists of headers, two tags, the key. */
const preparedBytes = 1500
/** Large manifests that are read at the same time: one of an older version may have 22 MB. */
const largeReadsAtOnce = 2

/** Reads sites from the storage and remembers manifests and small bodies. Concurrent misses of one object are one read. */
export function openContent(cas: Cas, limits: ContentLimits = {}): Content {
  const { manifestBytes = 48 * MiB, smallManifestBytes = 256 * 1024, fileBytes = 16 * MiB } = limits
  const { bodyBytes = 64 * MiB, maxBodyBytes = 256 * 1024 } = limits

  const files = new LRUCache<string, SiteFile>({
    maxSize: fileBytes,
    sizeCalculation: ({ path }) => preparedBytes + 4 * path.length,
  })
  function filesOf(sha256: string, manifest: Buffer): LoadedFiles {
    const find = (path: string) => {
      const key = `${sha256}/${path}`
      const known = files.get(key)
      if (known) return known
      const entry = findEntry(manifest, path)
      if (!entry) return undefined
      const file = prepareFile(entry)
      files.set(key, file)
      return file
    }
    return {
      bytes: manifest.length,
      has: (path) => find(path) !== undefined,
      get(path) {
        const file = find(path)
        if (!file) throw new Error(`the deploy has no file ${path}`)
        return file
      },
    }
  }
  const readFiles = async (sha256: string, manifest: OpenedObject): Promise<LoadedFiles> => {
    const bytes = await manifest.bytes()
    if (!isManifest(bytes) || hashOf(bytes) !== sha256) throw new Error(`the manifest ${sha256} is damaged`)
    return filesOf(sha256, bytes)
  }
  const manifests = new LRUCache<string, LoadedFiles | 'large'>({
    maxSize: manifestBytes,
    sizeCalculation: (files) => (files === 'large' ? 0 : files.bytes) + entryBytes,
    ignoreFetchAbort: true,
    fetchMethod: async (sha256) => {
      const manifest = await openManifest(sha256)
      if (manifest.size <= smallManifestBytes) return await readFiles(sha256, manifest)
      await manifest.close()
      return 'large'
    },
  })
  const largeReads = new FairQueue({ slots: largeReadsAtOnce })
  const largeManifests = new LRUCache<string, LoadedFiles>({
    maxSize: manifestBytes,
    sizeCalculation: ({ bytes }) => bytes + entryBytes,
    ignoreFetchAbort: true,
    fetchMethod: (sha256) => largeReads.run('', async () => readFiles(sha256, await openManifest(sha256))),
  })

  async function openManifest(sha256: string): Promise<OpenedObject> {
    const object = await cas.open(sha256)
    if (!object) throw new Error(`the manifest ${sha256} is not in the storage`)
    return object
  }

  const bodies = new LRUCache<string, Body, SiteFile>({
    maxSize: bodyBytes,
    sizeCalculation: (body) => (typeof body === 'string' ? 0 : body.length) + entryBytes,
    ignoreFetchAbort: true,
    fetchMethod: async (key, _stale, { context: file, options }) => {
      const encoding = key === file.tags.gzip ? 'gzip' : undefined
      const object = await openObject(file, encoding)
      options.ttl = absentTtlMs
      if (!object) return 'absent'
      if (object.size > maxBodyBytes || (encoding && file.size > maxInflatedBytes)) {
        await object.close()
        return 'large'
      }
      const bytes = await object.bytes()
      // what is remembered outlives the discovery of damage in the storage
      if (!encoding && hashOf(bytes) !== file.sha256) throw new Error(`the object ${file.sha256} is damaged`)
      if (encoding && (await hashOfInflated([bytes])) !== file.sha256) return 'absent'
      options.ttl = 0
      return bytes
    },
  })

  async function openObject(file: SiteFile, encoding?: Encoding): Promise<OpenedObject | undefined> {
    const object = await cas.open(file.sha256, encoding)
    if (encoding) return object
    if (!object) throw new Error(`the object ${file.sha256} is not in the storage`)
    if (object.size === file.size) return object
    await object.close()
    throw new Error(`the object ${file.sha256} has ${object.size} bytes instead of ${file.size}`)
  }

  /** Bodies are remembered under their tags, which name content and encoding. */
  const keyOf = (file: SiteFile, encoding?: Encoding) => (encoding ? file.tags[encoding] : file.tags.plain)
  const isLarge = (file: SiteFile, encoding?: Encoding) => !encoding && file.size > maxBodyBytes

  return {
    cachedFiles(sha256) {
      const found = manifests.get(sha256)
      return found === 'large' ? largeManifests.get(sha256) : found
    },
    async loadFiles(sha256) {
      const found = await manifests.forceFetch(sha256)
      return found === 'large' ? await largeManifests.forceFetch(sha256) : found
    },
    cachedBody: (file, encoding) => (isLarge(file, encoding) ? 'large' : bodies.get(keyOf(file, encoding))),
    async loadBody(file, encoding) {
      return isLarge(file, encoding) ? 'large' : await bodies.forceFetch(keyOf(file, encoding), { context: file })
    },
    async open(file, encoding) {
      const object = await openObject(file, encoding)
      if (!object) throw new Error(`the ${encoding} form of ${file.sha256} is not in the storage any more`)
      return object
    },
  }
}

const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

interface LoadedFiles extends SiteFiles {
  /** Of the manifest. */
  readonly bytes: number
}

function prepareFile(entry: ManifestEntry): SiteFile {
  const type = mediaTypeOf(entry.path)
  const mayHaveTwin = compressible(type)
  const tags = { plain: `"${entry.sha256}"`, gzip: `"${entry.sha256}-gzip"` }
  const vary = mayHaveTwin ? ['Vary', 'Accept-Encoding'] : []
  const cacheControl = ['Cache-Control', cachePolicy(entry.path)]
  const headers = ['Content-Type', type, ...cacheControl, ...vary, 'X-Content-Type-Options', 'nosniff']
  return {
    ...entry,
    tags,
    mayHaveTwin,
    plainHeaders: [...headers, 'ETag', tags.plain, 'Accept-Ranges', 'bytes'],
    gzipHeaders: [...headers, 'ETag', tags.gzip, 'Content-Encoding', 'gzip'],
    unchangedHeaders: [...cacheControl, ...vary],
  }
}
