import { LRUCache } from 'lru-cache'
import type { Encoding } from '../core/encodings.ts'
import type { Cas, OpenedObject } from '../infra/cas/cas.ts'
import { maxTabledBytes } from '../infra/cas/entry-table.ts'
import { hashOfInflated } from '../infra/cas/hashes.ts'
import { sha256Hex } from '../infra/crypto/sha256.ts'
import { openLargeBodies } from './large-bodies.ts'
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
  /** All remembered bodies of small files together. */
  readonly bodyBytes?: number
  /** Larger files are remembered when they are asked for often, and streamed until then. */
  readonly smallBodyBytes?: number
  /**
   * All remembered bodies of large files together: no number of them makes the edge forget small ones. Those that have left while slow visitors
   * read them may take as much again.
   */
  readonly largeBodyBytes?: number
  /** Larger bodies are always streamed. */
  readonly maxBodyBytes?: number
}

const MiB = 1024 * 1024
/** An edge with 10,000 sites takes 392 MiB when all of this is full (`npm run bench scale -- --rounds 14 --rate 3000`). */
const defaultLimits: Required<ContentLimits> = {
  manifestBytes: 36 * MiB,
  smallManifestBytes: maxTabledBytes,
  fileBytes: 16 * MiB,
  bodyBytes: 44 * MiB,
  smallBodyBytes: 256 * 1024,
  largeBodyBytes: 32 * MiB,
  maxBodyBytes: 8 * MiB,
}

/** How long the absence of a variant is remembered: the blob may be published again under the name of a text. */
const absentTtlMs = 60_000
/** Variants of larger files are always streamed: to compare them with their hash they have to be inflated. */
const maxInflatedBytes = 4 * MiB
/** Large bodies that are read into memory at the same time. */
const largeBodiesAtOnce = 4

/** Reads sites from the storage and remembers manifests and small bodies. Concurrent misses of one object are one read. */
export function openContent(cas: Cas, given: ContentLimits = {}): Content {
  const limits = { ...defaultLimits, ...given }
  return { files: openManifests(cas, limits), ...openBodies(cas, limits) }
}

/** Bodies are remembered under their ETags, which name content and encoding. */
const keyOf = (file: SiteFile, encoding?: Encoding) => (encoding ? file.etags[encoding] : file.etags.plain)

function openBodies(cas: Cas, { bodyBytes, smallBodyBytes, largeBodyBytes, maxBodyBytes }: Required<ContentLimits>) {
  const bodies = new LRUCache<string, Body>({
    maxSize: bodyBytes,
    sizeCalculation: (body) => (typeof body === 'string' ? 0 : body.length) + entryBytes,
  })
  const largeBodies = openLargeBodies(largeBodyBytes)
  const loadOnce = createLoads<Body>()
  let largeReads = 0

  const isWorthMemory = (key: string, bytes: number) =>
    bytes <= maxBodyBytes && largeReads < largeBodiesAtOnce && largeBodies.admits(key, bytes)

  function remember(key: string, body: Body): Body {
    bodies.set(key, body, body === 'absent' ? { ttl: absentTtlMs } : undefined)
    return body
  }

  async function load(key: string, file: SiteFile, encoding?: Encoding): Promise<Body> {
    const object = await openObject(cas, file, encoding)
    if (!object) return remember(key, 'absent')
    if (object.size <= maxBodyBytes) return remember(key, await readBody(object, file, encoding))
    await object.close()
    return remember(key, 'large')
  }

  async function loadLarge(key: string, file: SiteFile, encoding?: Encoding): Promise<Body> {
    const object = await openObject(cas, file, encoding)
    if (!object) return remember(key, 'absent')
    const isNeverKept = object.size > maxBodyBytes || (encoding !== undefined && file.size > maxInflatedBytes)
    if (isNeverKept || !isWorthMemory(key, object.size)) {
      await object.close()
      return isNeverKept ? remember(key, 'large') : 'large'
    }
    largeReads += 1
    try {
      const body = await readBody(object, file, encoding)
      if (body === 'absent') return remember(key, body)
      largeBodies.keep(key, body)
      return body
    } finally {
      largeReads -= 1
    }
  }

  return {
    body(file, encoding) {
      const key = keyOf(file, encoding)
      if (file.size <= smallBodyBytes) return bodies.get(key) ?? loadOnce(key, () => load(key, file, encoding))
      const known = largeBodies.find(key) ?? (encoding && bodies.get(key))
      if (known) return known
      // the size of a variant is known when it has been opened
      return encoding || isWorthMemory(key, file.size) ? loadOnce(key, () => loadLarge(key, file, encoding)) : 'large'
    },
    async open(file, encoding) {
      const object = await openObject(cas, file, encoding)
      if (!object) throw new Error(`the ${encoding} variant of ${file.sha256} is not in the storage any more`)
      return object
    },
  } satisfies Pick<Content, 'body' | 'open'>
}

/** Reads a body and checks it, because remembered bytes would outlive the discovery of damage in the storage. @throws as {@link Content.body} */
async function readBody(object: OpenedObject, file: SiteFile, encoding?: Encoding): Promise<Buffer | 'absent'> {
  const bytes = await object.bytes()
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
