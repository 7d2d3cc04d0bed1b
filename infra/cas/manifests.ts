import type { Manifest, ManifestEntry } from '../../core/manifest.ts'
import type { Cas, ObjectBatch } from './cas.ts'

/**
 * Adds the file set of a deploy, sorted by path, so that equal sets have equal hashes and {@link findEntry} needs no index. Returns its
 * sha256.
 */
export async function storeManifest(objects: Pick<ObjectBatch, 'add'>, files: readonly ManifestEntry[]): Promise<string> {
  const sorted = files.toSorted((a, b) => (a.path < b.path ? -1 : 1))
  const manifest: Manifest = { files: sorted.map(({ path, sha256, size }) => ({ path, sha256, size })) }
  const json = Buffer.from(JSON.stringify(manifest))
  return (await objects.add(json)).sha256
}

/** @throws Error when the object is missing, although every manifest of a row is stored */
export async function readManifest(cas: Cas, sha256: string): Promise<Manifest> {
  const object = await cas.open(sha256)
  if (!object) throw new Error(`the manifest ${sha256} is missing from the storage`)
  return JSON.parse((await object.bytes()).toString('utf8')) as Manifest
}

const manifestStart = '{"files":['
const manifestEnd = ']}'
/** The beginning of every entry. It occurs nowhere else, because a quote inside a path is escaped. */
const entryStart = Buffer.from('{"path":"')
/** The text after every path. It cannot occur inside one. */
const pathEnd = Buffer.from('","sha256":"')

/** Whether the bytes begin and end as {@link storeManifest} writes them; bytes that were cut off do not. */
export const isManifest = (bytes: Buffer): boolean =>
  bytes.toString('latin1', 0, manifestStart.length) === manifestStart &&
  bytes.toString('latin1', bytes.length - manifestEnd.length) === manifestEnd

/**
 * Looks up a file in the bytes of a stored manifest by binary search. They are never parsed as a whole: for a deploy with 20,000 of the
 * longest paths (22 MB) that would block the process for 150 ms, while the 15 steps of a search take microseconds.
 * @throws Error when the bytes are not those of a manifest
 */
export function findEntry(manifest: Buffer, path: string): ManifestEntry | undefined {
  // the wanted entry begins at `from` or later, and before `to`
  let from = manifestStart.length
  let to = manifest.length - manifestEnd.length
  while (from < to) {
    const start = manifest.lastIndexOf(entryStart, (from + to) >>> 1)
    const pathStart = start + entryStart.length
    const pathStop = manifest.indexOf(pathEnd, pathStart)
    if (start < from || pathStop === -1) throw new Error('the manifest is damaged')
    const found = unescaped(manifest.toString('utf8', pathStart, pathStop))
    if (found === path) return entryAt(manifest, start, pathStop)
    if (path < found) to = start
    else from = endOfEntry(manifest, pathStop) + 1
  }
  return undefined
}

const unescaped = (text: string) => (text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text)

const entryAt = (manifest: Buffer, start: number, pathStop: number) =>
  JSON.parse(manifest.toString('utf8', start, endOfEntry(manifest, pathStop))) as ManifestEntry

const closingBrace = 0x7d

/** The offset after the closing brace, where a comma or the end of the list follows. */
function endOfEntry(manifest: Buffer, pathStop: number): number {
  const brace = manifest.indexOf(closingBrace, pathStop)
  if (brace === -1) throw new Error('the manifest is damaged')
  return brace + 1
}
