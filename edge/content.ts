import { LRUCache } from 'lru-cache'
import { cachePolicy } from '../core/caching.ts'
import type { Manifest, ManifestEntry } from '../core/manifest.ts'
import { compressible } from '../core/media.ts'
import type { Cas, Encoding, OpenedObject } from '../infra/cas/cas.ts'
import { mediaTypeOf } from '../infra/media.ts'
import type { Tags } from './conditions.ts'

/** A published file with all that its responses have in common, made once per deploy. Headers are flat name, value lists. */
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

export interface ContentLimits {
  /** Files of all remembered manifests together. */
  readonly manifestEntries?: number
  /** All remembered bodies together. */
  readonly bodyBytes?: number
  /** Larger bodies are streamed. */
  readonly maxBodyBytes?: number
}

/** How long it is believed that an object has no twin: its blob may be published again under the name of a text. */
const absentTtlMs = 60_000
/** Roughly what an entry of the cache itself takes. */
const entryBytes = 256

/** Reads sites from the storage and remembers manifests and small bodies. Concurrent misses of one object are one read. */
export function openContent(cas: Cas, limits: ContentLimits = {}): Content {
  const { manifestEntries = 200_000, bodyBytes = 64 * 1024 * 1024, maxBodyBytes = 256 * 1024 } = limits

  const manifests = new LRUCache<string, LoadedFiles>({
    maxSize: manifestEntries,
    sizeCalculation: (files) => files.count + 1,
    ignoreFetchAbort: true,
    fetchMethod: async (sha256) => {
      const object = await cas.open(sha256)
      if (!object) throw new Error(`the manifest ${sha256} is not in the storage`)
      return loadedFiles(JSON.parse((await object.bytes()).toString()) as Manifest)
    },
  })

  const bodies = new LRUCache<string, Body, SiteFile>({
    maxSize: bodyBytes,
    sizeCalculation: (body) => (typeof body === 'string' ? 0 : body.length) + entryBytes,
    ignoreFetchAbort: true,
    fetchMethod: async (key, _stale, { context: file, options }) => {
      const encoding = key === file.tags.gzip ? 'gzip' : undefined
      const object = await openObject(file, encoding)
      if (object && object.size <= maxBodyBytes) return await object.bytes()
      await object?.close()
      options.ttl = absentTtlMs
      return object ? 'large' : 'absent'
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
    cachedFiles: (sha256) => manifests.get(sha256),
    loadFiles: (sha256) => manifests.forceFetch(sha256),
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

interface LoadedFiles extends SiteFiles {
  readonly count: number
}

/** Files are prepared when they are first asked for: a manifest may have 20,000, and most requests want few of them. */
function loadedFiles(manifest: Manifest): LoadedFiles {
  const entries = new Map<string, ManifestEntry | SiteFile>(manifest.files.map((entry) => [entry.path, entry]))
  return {
    count: entries.size,
    has: (path) => entries.has(path),
    get(path) {
      const entry = entries.get(path)
      if (!entry) throw new Error(`the deploy has no file ${path}`)
      if ('tags' in entry) return entry
      const file = prepareFile(entry)
      entries.set(path, file)
      return file
    },
  }
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
