import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { invalid, unprocessable } from '../core/errors.ts'
import { maxBlobBytes, maxManifestEntries } from '../core/limits.ts'
import { judgePath, type ManifestEntry, sha256Pattern } from '../core/manifest.ts'
import type { ObjectBatch, StoredObject } from '../infra/cas/cas.ts'
import { inParallel } from '../infra/cas/files.ts'
import { compressByPath } from '../infra/cas/published-files.ts'
import { unknownBlob } from '../services/storage/blobs.ts'
import type { LongText, LongTexts } from './long-texts.ts'

/** One entry of a deploy-files request: text, base64, or a reference to a stored blob. */
export interface FileEntry {
  readonly path: string
  readonly content?: string | undefined
  readonly encoding?: 'base64' | undefined
  readonly sha256?: string | undefined
}

type Content = { readonly bytes: Buffer } | { readonly open: () => Readable } | { readonly sha256: string }
export type FileSource = { readonly path: string } & Content

const writers = 8
/** How much of a refused path a message shows. */
const shownPathLength = 200

/**
 * Returns the files to publish, by normalised path, and the paths that are left out.
 * @param read the content of an entry; `label` names it in messages
 * @throws AppError `invalid` for a list that no site can have: empty, too long, with invalid or repeated paths
 */
export function readEntries<Entry extends { readonly path: string }, Content>(
  entries: readonly Entry[],
  read: (entry: Entry, label: string) => Content,
): { files: (Content & { path: string })[]; skipped_paths: string[] } {
  if (entries.length === 0) throw invalid('files is empty; send the full set of files')
  if (entries.length > maxManifestEntries) {
    throw invalid(`files has ${entries.length} entries; at most ${maxManifestEntries} are allowed, send an archive instead`)
  }
  const files = new Map<string, Content & { path: string }>()
  const skipped_paths: string[] = []
  for (const [index, entry] of entries.entries()) {
    const label = `files.${index}`
    const verdict = judgePath(entry.path)
    if (verdict.kind === 'bad')
      throw invalid(`${label}: the path ${JSON.stringify(entry.path.slice(0, shownPathLength))} ${verdict.reason}`)
    const { path } = verdict
    if (files.has(path)) throw invalid(`${label}: ${path} is listed twice`)
    const content = read(entry, label)
    if (verdict.kind === 'skip') skipped_paths.push(path)
    else files.set(path, { ...content, path })
  }
  refuseFolderFiles(files)
  return { files: [...files.values()], skipped_paths }
}

/** @throws AppError `invalid` for files that the specification refuses to publish without a build */
export function requireStaticSite(files: readonly { readonly path: string }[]): void {
  const has = (path: string) => files.some((file) => file.path === path)
  if (!has('index.html')) throw invalid('index.html is missing at the root; send the full set of files, not only what changed')
  if (has('package.json'))
    throw invalid('package.json is there: this route publishes files as they are; send an archive to have it built')
}

/** @throws AppError `unprocessable` for an entry with both or none of content and sha256, `invalid` for invalid content */
export function readContent(entry: FileEntry, label: string, texts?: LongTexts): Content {
  const { content, encoding, sha256 } = entry
  if ((content === undefined) === (sha256 === undefined)) throw unprocessable(`${label}: give either content or sha256`)
  if (sha256 !== undefined) return readHash({ sha256 }, label)
  const long = texts?.get(content ?? '')
  if (long)
    return {
      open: () =>
        encoding ? base64Stream(long, `${label}: content`) : Readable.from(textBytes(long, label), { objectMode: false }),
    }
  if (encoding === undefined) {
    return { bytes: bytesOfText(content ?? '', label) }
  }
  return { bytes: decodeBase64(content ?? '', `${label}: content`) }
}

/** @throws AppError `invalid` for half a surrogate pair, for which Buffer would write a question mark */
function bytesOfText(text: string, label: string): Buffer {
  if (!text.isWellFormed()) throw invalid(`${label}: content is not valid Unicode; send bytes as base64`)
  return Buffer.from(text, 'utf8')
}

async function* textBytes(text: LongText, label: string): AsyncGenerator<Buffer> {
  for await (const piece of text.pieces()) yield bytesOfText(piece, label)
}

/** Counts the bytes of a long text in base64. @throws AppError `invalid` when it is not base64 */
export async function countBase64Bytes(text: LongText, label: string): Promise<number> {
  let bytes = 0
  for await (const piece of base64Bytes(text, label)) bytes += piece.length
  return bytes
}

/** Decodes a long text in base64; the stream fails with `invalid` where it is not base64. */
export const base64Stream = (text: LongText, label: string) => Readable.from(base64Bytes(text, label), { objectMode: false })

async function* base64Bytes(text: LongText, label: string): AsyncGenerator<Buffer> {
  let rest = ''
  let ended = false
  for await (const piece of text.pieces()) {
    const digits = rest + piece.replaceAll(/\s/g, '')
    const whole = digits.length - (digits.length % 4)
    if (ended && digits !== '') throw notBase64(label)
    ended = digits.slice(0, whole).endsWith('=')
    rest = digits.slice(whole)
    yield decodeBase64(digits.slice(0, whole), label)
  }
  if (ended && /[^=]/.test(rest)) throw notBase64(label)
  yield decodeBase64(rest, label)
}

/** @throws AppError `invalid` */
export function readHash({ sha256 }: { readonly sha256: string }, label: string): { sha256: string } {
  if (!sha256Pattern.test(sha256)) throw invalid(`${label}: sha256 must be 64 lower-case hex characters`)
  return { sha256 }
}

/** @throws AppError `invalid` when the text is not base64; Node's decoder would skip invalid characters */
export function decodeBase64(text: string, label: string): Buffer {
  const bytes = Buffer.from(text, 'base64')
  const digits = digitsOf(text)
  if (bytes.length !== Math.floor((digits * 3) / 4) || digits % 4 === 1) throw notBase64(label)
  return bytes
}

/** Counts the characters besides white space and the padding at the end. */
function digitsOf(text: string): number {
  const digits = text.replace(/\s+/g, '')
  let end = digits.length
  while (end > 0 && digits[end - 1] === '=') end -= 1
  return end
}

const notBase64 = (label: string) => invalid(`${label} is not valid base64`)

/** In the sorted list the content of a folder directly follows it, so that no path has to be split: a long one has 500 folders. */
function refuseFolderFiles(files: ReadonlyMap<string, unknown>): void {
  const names = [...files.keys()].map((path) => `${path}/`).sort()
  for (const [index, name] of names.entries()) {
    if (names[index + 1]?.startsWith(name)) throw invalid(`${name.slice(0, -1)} is both a file and a folder`)
  }
}

/**
 * Determines hash and size of each content and reference. Long texts are read for this (50 MB in 0.3 s), so that quotas refuse before
 * anything is stored.
 * @param sizes the sizes of the project's blobs, by hash
 * @throws AppError `invalid` for a reference to a blob that is too large or not the project's, and for invalid content
 */
export async function measureFiles(files: readonly FileSource[], sizes: ReadonlyMap<string, number>): Promise<StoredObject[]> {
  const blobs: StoredObject[] = []
  for (const file of files) {
    if ('sha256' in file) blobs.push({ sha256: file.sha256, size: referencedSize(file, sizes) })
    else blobs.push(await measure('open' in file ? file.open() : [file.bytes]))
  }
  return blobs
}

async function measure(pieces: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<StoredObject> {
  const hash = createHash('sha256')
  let size = 0
  for await (const piece of pieces) {
    hash.update(piece)
    size += piece.length
  }
  return { sha256: hash.digest('hex'), size }
}

/**
 * Adds the contents to the batch and returns the manifest's entries.
 * @param sizes the sizes of the project's blobs, by hash
 */
export async function storeFiles(
  objects: ObjectBatch,
  files: readonly FileSource[],
  sizes: ReadonlyMap<string, number>,
): Promise<ManifestEntry[]> {
  const entries: ManifestEntry[] = []
  await inParallel(writers, files, async (file) => {
    const { path } = file
    if ('sha256' in file) entries.push({ path, sha256: file.sha256, size: referencedSize(file, sizes) })
    else entries.push({ path, ...(await objects.add('open' in file ? file.open() : file.bytes, compressByPath(path))) })
  })
  return entries
}

function referencedSize(file: { path: string; sha256: string }, sizes: ReadonlyMap<string, number>): number {
  const size = sizes.get(file.sha256)
  if (size === undefined) throw unknownBlob(file)
  if (size > maxBlobBytes)
    throw invalid(`${file.path}: a blob of more than ${maxBlobBytes} bytes cannot be referenced; send an archive`)
  return size
}
