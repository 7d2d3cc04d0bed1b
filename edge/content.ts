import { LRUCache } from 'lru-cache'
import type { Encoding } from '../core/encodings.ts'
import type { Cas, OpenedObject } from '../infra/cas/cas.ts'
import { maxTabledBytes } from '../infra/cas/entry-table.ts'
import { hashOfInflated } from '../infra/cas/hashes.ts'
import { sha256Hex } from '../infra/crypto/sha256.ts'
import { createLoads } from './loads.ts'
import { entryBytes, type ManifestLimits, openManifests } from './manifests.ts'
import type { SiteFile, SiteFiles } from './site-files.ts'

/** `absent`: there is no such encoding. `large`: to be sent from {@link Content.open}. */
type Body = Buffer | 'absent' | 'large'

export interface Content {
  /** The files of a deploy: at once when they are in memory. @throws when the manifest is missing or the storage fails */
  files(manifestSha256: string): SiteFiles | Promise<SiteFiles>
  /**
   * The bytes of a file: at once when they are in memory.
   * @throws when the object is missing, has another size than the manifest says, or the storage fails
   */
  body(file: SiteFile, encoding?: Encoding): Body | Promise<Body>
  /** Opens a body that is `large`. The caller sends or closes it. @throws as {@link body} */
  open(file: SiteFile, encoding?: Encoding): Promise<OpenedObject>
}

/** Limits of the memory, in bytes. The process takes about three times their sum at most. */
export interface ContentLimits extends Partial<ManifestLimits> {
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
  smallManifestBytes: maxTabledBytes,
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

/** Reads sites from the storage and remembers manifests and small bodies. Concurrent misses of one object are one read. */
export function openContent(cas: Cas, given: ContentLimits = {}): Content {
  const limits = { ...defaultLimits, ...given }
  return { files: openManifests(cas, limits), ...openBodies(cas, limits) }
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

  const bodies = new LRUCache<string, Body>({
    maxSize: bodyBytes,
    sizeCalculation: (body) => (typeof body === 'string' ? 0 : body.length) + entryBytes,
  })
  const loadOnce = createLoads<Body>()

  async function load(key: string, file: SiteFile, encoding?: Encoding): Promise<Body> {
    const isLarge = file.size > smallBodyBytes
    if (isLarge) largeReads += 1
    try {
      const body = await readBody(cas, maxBodyBytes, file, encoding)
      bodies.set(key, body, body === 'absent' ? { ttl: absentTtlMs } : undefined)
      return body
    } finally {
      if (isLarge) largeReads -= 1
    }
  }

  return {
    body(file, encoding) {
      const key = keyOf(file, encoding)
      return bodies.get(key) ?? (isStreamed(file, encoding) ? 'large' : loadOnce(key, () => load(key, file, encoding)))
    },
    async open(file, encoding) {
      const object = await openObject(cas, file, encoding)
      if (!object) throw new Error(`the ${encoding} variant of ${file.sha256} is not in the storage any more`)
      return object
    },
  } satisfies Pick<Content, 'body' | 'open'>
}

/** @throws as {@link Content.body} */
async function readBody(cas: Cas, maxBodyBytes: number, file: SiteFile, encoding?: Encoding): Promise<Body> {
  const object = await openObject(cas, file, encoding)
  if (!object) return 'absent'
  if (object.size > maxBodyBytes || (encoding && file.size > maxInflatedBytes)) {
    await object.close()
    return 'large'
  }
  const bytes = await object.bytes()
  // checked here, because remembered bytes would outlive the discovery of damage in the storage
  if (!encoding && sha256Hex(bytes) !== file.sha256) throw new Error(`the object ${file.sha256} is damaged`)
  if (encoding && (await hashOfInflated(bytes, encoding, file.size)) !== file.sha256) return 'absent'
  return bytes
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
