import { LRUCache } from 'lru-cache'
import { type Encoding, encodings } from '../core/encodings.ts'
import type { Cas, OpenedObject } from '../infra/cas/cas.ts'
import { hashOfInflated } from '../infra/cas/hashes.ts'
import { rulesOf, splitManifest } from '../infra/cas/manifests.ts'
import { sha256Hex } from '../infra/crypto/sha256.ts'
import { FairQueue } from '../infra/fair-queue.ts'
import { createFileCache, type SiteFile, type SiteFiles } from './site-files.ts'

/** `absent`: there is no such encoding. `large`: to be streamed from {@link Content.open}. */
type Body = Buffer | 'absent' | 'large'

export interface Content {
  /** The files of a deploy: at once when they are in memory. @throws when the manifest is missing or the storage fails */
  files(manifestSha256: string): SiteFiles | Promise<SiteFiles>
  /**
   * The bytes of a file: at once when they are in memory.
   * @throws when the object is missing, has another size than the manifest says, or the storage fails
   */
  body(file: SiteFile, encoding?: Encoding): Body | Promise<Body>
  /** Opens a body that is `large`. The caller streams or closes it. @throws as {@link body} */
  open(file: SiteFile, encoding?: Encoding): Promise<OpenedObject>
}

/** Limits of the memory, in bytes. The process takes about three times their sum at most. */
export interface ContentLimits {
  /** All small manifests together, and all large ones. */
  readonly manifestBytes?: number
  /** Larger manifests are remembered apart, so that no number of them makes the edge forget small ones. */
  readonly smallManifestBytes?: number
  /** All prepared files together. */
  readonly fileBytes?: number
  /** All remembered bodies together. */
  readonly bodyBytes?: number
  /** Larger bodies are remembered when they are asked for again soon, and streamed until then. */
  readonly smallBodyBytes?: number
  /** Larger bodies are always streamed. */
  readonly maxBodyBytes?: number
}

const MiB = 1024 * 1024
const defaultLimits: Required<ContentLimits> = {
  manifestBytes: 48 * MiB,
  smallManifestBytes: 256 * 1024,
  fileBytes: 16 * MiB,
  bodyBytes: 64 * MiB,
  smallBodyBytes: 256 * 1024,
  maxBodyBytes: 4 * MiB,
}

/** How long the absence of a variant is remembered: the blob may be published again under the name of a text. */
const absentTtlMs = 60_000
/** Variants of larger files are not remembered: to compare them with their hash they have to be inflated. */
const maxInflatedBytes = 4 * MiB
/** Large files of which it is known that they were asked for lately, so that files which are asked for once do not displace others. */
const maxAskedFor = 1000
/** Large bodies that are read into memory at the same time. */
const largeBodiesAtOnce = 8
/** Roughly what an entry of the cache itself takes. */
const entryBytes = 256
/** How much more memory prepared rules take than their JSON. */
const preparedRulesFactor = 5
/** Large manifests that are read at the same time: one of an older version may have 22 MB. */
const largeReadsAtOnce = 2

/** Reads sites from the storage and remembers manifests and small bodies. Concurrent misses of one object are one read. */
export function openContent(cas: Cas, given: ContentLimits = {}): Content {
  const limits = { ...defaultLimits, ...given }
  return { ...openManifests(cas, limits), ...openBodies(cas, limits) }
}

interface LoadedFiles {
  readonly files: SiteFiles
  readonly memoryBytes: number
}

function openManifests(cas: Cas, limits: Required<ContentLimits>): Pick<Content, 'files'> {
  const filesOf = createFileCache(limits.fileBytes)

  async function openManifest(sha256: string): Promise<OpenedObject> {
    const object = await cas.open(sha256)
    if (!object) throw new Error(`the manifest ${sha256} is not in the storage`)
    return object
  }
  async function readFiles(sha256: string, manifest: OpenedObject): Promise<LoadedFiles> {
    const bytes = await manifest.bytes()
    const parts = splitManifest(bytes)
    if (!parts || sha256Hex(bytes) !== sha256) throw new Error(`the manifest ${sha256} is damaged`)
    const memoryBytes = bytes.length + preparedRulesFactor * (parts.rules?.length ?? 0)
    return { files: filesOf(sha256, parts.files, rulesOf(parts)), memoryBytes }
  }

  const small = new LRUCache<string, LoadedFiles | 'large'>({
    maxSize: limits.manifestBytes,
    sizeCalculation: (loaded) => (loaded === 'large' ? 0 : loaded.memoryBytes) + entryBytes,
    ignoreFetchAbort: true,
    fetchMethod: async (sha256) => {
      const manifest = await openManifest(sha256)
      if (manifest.size > limits.smallManifestBytes) {
        await manifest.close()
        return 'large'
      }
      const loaded = await readFiles(sha256, manifest)
      return loaded.memoryBytes <= limits.smallManifestBytes ? loaded : 'large'
    },
  })
  const largeReads = new FairQueue({ slots: largeReadsAtOnce })
  const large = new LRUCache<string, LoadedFiles>({
    maxSize: limits.manifestBytes,
    sizeCalculation: ({ memoryBytes }) => memoryBytes + entryBytes,
    ignoreFetchAbort: true,
    fetchMethod: (sha256) => largeReads.run('', async () => readFiles(sha256, await openManifest(sha256))),
  })

  async function load(sha256: string): Promise<SiteFiles> {
    const found = await small.forceFetch(sha256)
    return (found === 'large' ? await large.forceFetch(sha256) : found).files
  }

  return {
    files(sha256) {
      const found = small.get(sha256)
      return (found === 'large' ? large.get(sha256) : found)?.files ?? load(sha256)
    },
  }
}

/** Bodies are remembered under their ETags, which name content and encoding. */
const keyOf = (file: SiteFile, encoding?: Encoding) => (encoding ? file.etags[encoding] : file.etags.plain)

function openBodies(cas: Cas, { bodyBytes, smallBodyBytes, maxBodyBytes }: Required<ContentLimits>) {
  const askedFor = new LRUCache<string, true>({ max: maxAskedFor })
  let largeReads = 0

  /** Whether a body that is not in memory has to be streamed. The size of a variant is known only when it has been opened. */
  function isStreamed(file: SiteFile, encoding?: Encoding): boolean {
    if (encoding || file.size <= smallBodyBytes) return false
    if (file.size > maxBodyBytes || largeReads >= largeBodiesAtOnce) return true
    if (askedFor.has(file.sha256)) return false
    askedFor.set(file.sha256, true)
    return true
  }

  const bodies = new LRUCache<string, Body, SiteFile>({
    maxSize: bodyBytes,
    sizeCalculation: (body) => (typeof body === 'string' ? 0 : body.length) + entryBytes,
    ignoreFetchAbort: true,
    fetchMethod: async (key, _stale, { context: file, options }) => {
      const encoding = encodings.find((one) => file.etags[one] === key)
      const object = await openObject(cas, file, encoding)
      options.ttl = absentTtlMs
      if (!object) return 'absent'
      if (object.size > maxBodyBytes || (encoding && file.size > maxInflatedBytes)) {
        await object.close()
        return 'large'
      }
      const bytes = await object.bytes()
      // checked here, because remembered bytes would outlive the discovery of damage in the storage
      if (!encoding && sha256Hex(bytes) !== file.sha256) throw new Error(`the object ${file.sha256} is damaged`)
      if (encoding && (await hashOfInflated(bytes, encoding, file.size)) !== file.sha256) return 'absent'
      options.ttl = 0
      return bytes
    },
  })

  async function read(key: string, file: SiteFile): Promise<Body> {
    const isLarge = file.size > smallBodyBytes
    if (isLarge) largeReads += 1
    try {
      return await bodies.forceFetch(key, { context: file })
    } finally {
      if (isLarge) largeReads -= 1
    }
  }

  return {
    body(file, encoding) {
      const key = keyOf(file, encoding)
      return bodies.get(key) ?? (isStreamed(file, encoding) ? 'large' : read(key, file))
    },
    async open(file, encoding) {
      const object = await openObject(cas, file, encoding)
      if (!object) throw new Error(`the ${encoding} variant of ${file.sha256} is not in the storage any more`)
      return object
    },
  } satisfies Pick<Content, 'body' | 'open'>
}

/** Undefined when there is no such encoding. @throws when the plain bytes are missing or have another size than the manifest says */
async function openObject(cas: Cas, file: SiteFile, encoding?: Encoding): Promise<OpenedObject | undefined> {
  const object = await cas.open(file.sha256, encoding)
  if (encoding) return object
  if (!object) throw new Error(`the object ${file.sha256} is not in the storage`)
  if (object.size === file.size) return object
  await object.close()
  throw new Error(`the object ${file.sha256} has ${object.size} bytes instead of ${file.size}`)
}
