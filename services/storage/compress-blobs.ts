import { type BackgroundEncoding, mayHaveBackgroundVariants } from '../../core/encodings.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { compressible } from '../../core/media.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { hashOfInflated } from '../../infra/cas/hashes.ts'
import type { Compressor } from '../../infra/compression/compressor.ts'
import type { Text, Variants } from '../../infra/compression/encode-bytes.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import { mediaTypeOf } from '../../infra/media.ts'
import type { Services } from '../services.ts'
import type { Blob } from './blobs.ts'
import { findUncompressed, markCompressed } from './compressed-blobs.ts'

export interface CompressionOptions {
  readonly compressor: Pick<Compressor, 'compress'>
  /** Whether the time is over; asked before each batch of files. */
  readonly isOver: () => boolean
}

export interface Compressed {
  /** False when the time was over before the last file. */
  readonly done: boolean
  readonly files: number
  /** Bytes of the files, and of their smallest variants. */
  readonly bytes: number
  readonly compressed_bytes: number
}

/** Files that are compressed together. */
const batchFiles = 32
/** What one batch takes, about a second of processor time, is lost when the process is ended. */
const batchBytes = 1024 * 1024

/** Makes brotli and zstd variants of those files of a project that may have them and have not been compressed for it. May be repeated. */
export async function compressBlobs(
  services: Services,
  projectId: string,
  files: readonly ManifestEntry[],
  { compressor, isOver }: CompressionOptions,
): Promise<Compressed> {
  const { db, cas } = services
  const texts = new Map<string, Blob>()
  for (const file of files) {
    if (mayHaveBackgroundVariants(file.size) && compressible(mediaTypeOf(file.path))) texts.set(file.sha256, file)
  }
  const uncompressed = await findUncompressed(db, projectId, [...texts.keys()])
  const total = { files: 0, bytes: 0, compressed_bytes: 0 }
  for (const batch of batchesOf([...texts.values()].filter(({ sha256 }) => uncompressed.has(sha256)))) {
    if (isOver()) return { ...total, done: false }
    const compressed: string[] = []
    for (const { sha256, text, variants } of await compressBatch(cas, batch, compressor)) {
      await storeVariants(cas, sha256, text, variants)
      compressed.push(sha256)
      total.files += 1
      total.bytes += text.bytes.length
      total.compressed_bytes += variants.br?.length ?? text.smallest
    }
    await markCompressed(services, projectId, compressed)
  }
  return { ...total, done: true }
}

interface CompressedText {
  readonly sha256: string
  readonly text: Text
  readonly variants: Variants
}

/** Leaves out objects that are missing or damaged: the verification of the storage looks after them. */
async function compressBatch(
  cas: Cas,
  batch: readonly Blob[],
  compressor: CompressionOptions['compressor'],
): Promise<CompressedText[]> {
  const read: { readonly sha256: string; readonly text: Text }[] = []
  for (const { sha256, size } of batch) {
    const text = await readText(cas, sha256, size)
    if (text) read.push({ sha256, text })
  }
  if (read.length === 0) return []
  const found = await compressor.compress(read.map(({ text }) => text))
  return read.map((one, i) => ({ ...one, variants: found[i] ?? {} }))
}

async function readText(cas: Cas, sha256: string, size: number): Promise<Text | undefined> {
  const object = await cas.open(sha256)
  if (!object) return undefined
  if (object.size !== size) {
    await object.close()
    return undefined
  }
  const bytes = await object.bytes()
  if (sha256Hex(bytes) !== sha256) return undefined
  const gzip = await cas.open(sha256, 'gzip')
  await gzip?.close()
  return { bytes, smallest: gzip?.size ?? size }
}

/** Stores the variants that decode to the text: edges send large ones without looking. */
async function storeVariants(cas: Cas, sha256: string, { bytes }: Text, variants: Variants): Promise<void> {
  for (const [encoding, variant] of Object.entries(variants) as [BackgroundEncoding, Uint8Array][]) {
    if ((await hashOfInflated(variant, encoding, bytes.length)) === sha256) await cas.putVariant(sha256, encoding, variant)
  }
}

function* batchesOf(blobs: readonly Blob[]): Generator<Blob[]> {
  let batch: Blob[] = []
  let bytes = 0
  for (const blob of blobs) {
    if (batch.length === batchFiles || (batch.length > 0 && bytes + blob.size > batchBytes)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(blob)
    bytes += blob.size
  }
  if (batch.length > 0) yield batch
}
