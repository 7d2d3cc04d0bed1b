import { invalid, unprocessable } from '../core/errors.ts'
import { maxBlobBytes, maxManifestEntries } from '../core/limits.ts'
import { judgePath, type ManifestEntry, sha256Pattern } from '../core/manifest.ts'
import type { Cas } from '../infra/cas/cas.ts'
import { putPublishedFile } from '../infra/cas/published-files.ts'

/** One entry of a deploy-files request: text, base64, or a reference to a stored blob. */
export interface FileEntry {
  readonly path: string
  readonly content?: string | undefined
  readonly encoding?: 'base64' | undefined
  readonly sha256?: string | undefined
}

export type FileSource = { readonly path: string } & ({ readonly bytes: Buffer } | { readonly sha256: string })

const writers = 8

/**
 * The files to publish and the paths that are left out.
 * @throws AppError `invalid` for what the specification refuses in a static publish, `unprocessable` for an entry with both or none of content and sha256
 */
export function readEntries(entries: readonly FileEntry[]): { files: FileSource[]; skipped_paths: string[] } {
  if (entries.length === 0) throw invalid('files is empty; send the full set of files')
  if (entries.length > maxManifestEntries) {
    throw invalid(`files has ${entries.length} entries; at most ${maxManifestEntries} are allowed, send an archive instead`)
  }
  const files = new Map<string, FileSource>()
  const skipped_paths: string[] = []
  for (const [index, entry] of entries.entries()) {
    const verdict = judgePath(entry.path)
    if (verdict.kind === 'bad') throw invalid(`files.${index}: the path ${JSON.stringify(entry.path)} ${verdict.reason}`)
    const { path } = verdict
    if (files.has(path)) throw invalid(`files.${index}: ${path} is there twice`)
    const source = { path, ...readContent(entry, index) }
    if (verdict.kind === 'skip') skipped_paths.push(path)
    else files.set(path, source)
  }
  refuseFolderFiles(files)
  if (!files.has('index.html'))
    throw invalid('index.html is missing at the root; send the full set of files, not only what changed')
  if (files.has('package.json'))
    throw invalid('package.json is there: this route publishes files as they are; send an archive to have it built')
  return { files: [...files.values()], skipped_paths }
}

function readContent(entry: FileEntry, index: number): { bytes: Buffer } | { sha256: string } {
  const { content, encoding, sha256 } = entry
  if ((content === undefined) === (sha256 === undefined)) throw unprocessable(`files.${index}: give either content or sha256`)
  if (sha256 !== undefined) {
    if (!sha256Pattern.test(sha256)) throw invalid(`files.${index}: sha256 must be 64 lower-case hex characters`)
    return { sha256 }
  }
  if (encoding === undefined) {
    // half a surrogate pair has no bytes; Buffer would write a question mark
    if (!content?.isWellFormed()) throw invalid(`files.${index}: content is not valid Unicode; send bytes as base64`)
    return { bytes: Buffer.from(content, 'utf8') }
  }
  return { bytes: decodeBase64(content ?? '', `files.${index}: content`) }
}

/** @throws AppError `invalid` when the text is not base64; Node's decoder would skip what it does not know */
export function decodeBase64(text: string, place: string): Buffer {
  const bytes = Buffer.from(text, 'base64')
  const digits = text.replace(/\s|=+\s*$/g, '').length
  if (bytes.length !== Math.floor((digits * 3) / 4) || digits % 4 === 1) throw invalid(`${place} is not valid base64`)
  return bytes
}

function refuseFolderFiles(files: ReadonlyMap<string, unknown>): void {
  for (const path of files.keys()) {
    for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1)) {
      const folder = path.slice(0, slash)
      if (files.has(folder)) throw invalid(`${folder} is both a file and a folder`)
    }
  }
}

/**
 * Stores what is not stored and returns the manifest's entries.
 * @param sizes of the blobs that the project has, by hash
 */
export async function storeFiles(
  cas: Cas,
  files: readonly FileSource[],
  sizes: ReadonlyMap<string, number>,
): Promise<ManifestEntry[]> {
  const entries: ManifestEntry[] = []
  const queue = files.values()
  const write = async () => {
    for (const file of queue) {
      if ('sha256' in file) entries.push({ path: file.path, sha256: file.sha256, size: referencedSize(file, sizes) })
      else entries.push({ path: file.path, ...(await putPublishedFile(cas, file.path, file.bytes)) })
    }
  }
  await Promise.all(Array.from({ length: writers }, write))
  return entries
}

function referencedSize(file: { path: string; sha256: string }, sizes: ReadonlyMap<string, number>): number {
  const size = sizes.get(file.sha256)
  if (size === undefined) throw unknownBlob(file)
  if (size > maxBlobBytes)
    throw invalid(`${file.path}: a blob of more than ${maxBlobBytes} bytes cannot be referenced; send an archive`)
  return size
}

export const unknownBlob = (file: { path: string; sha256: string }) =>
  invalid(`${file.path}: the project has no blob ${file.sha256}; send the file's content`)
