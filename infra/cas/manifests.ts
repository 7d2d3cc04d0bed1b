import { buffer } from 'node:stream/consumers'
import type { Manifest, ManifestEntry } from '../../core/manifest.ts'
import { type PreparedRules, prepareRules } from '../../core/site-rules/prepare.ts'
import type { SiteRules } from '../../core/site-rules/rules.ts'
import type { Cas, ObjectBatch, OpenedObject } from './cas.ts'

/**
 * Adds the file set of a deploy, sorted by path, so that equal sets have equal hashes and {@link findEntry} needs no index. The rules come
 * after the files. Returns its sha256.
 */
export async function storeManifest(
  objects: Pick<ObjectBatch, 'add'>,
  files: readonly ManifestEntry[],
  rules?: SiteRules,
): Promise<string> {
  return (await objects.add(manifestBytes(files, rules))).sha256
}

/** The bytes that {@link storeManifest} stores. */
export function manifestBytes(files: readonly ManifestEntry[], rules?: SiteRules): Buffer {
  const sorted = files.toSorted((a, b) => (a.path < b.path ? -1 : 1))
  // an undefined member is left out of the JSON
  const manifest = { files: sorted.map(({ path, sha256, size }) => ({ path, sha256, size })), rules }
  return Buffer.from(JSON.stringify(manifest))
}

/** @throws Error when the object is missing, although every manifest of a row is stored */
export async function readManifest(cas: Cas, sha256: string): Promise<Manifest> {
  return JSON.parse((await readBytes(cas, sha256)).toString('utf8')) as Manifest
}

/** Enough entries for a batch of an answer. */
const sliceBytes = 128 * 1024

/**
 * Reads the entries of a manifest in batches, in the order of their paths, and keeps nothing open between two of them.
 * @param after the path of an entry; those up to it are left out
 * @throws Error when the object is missing or damaged
 */
export async function* readManifestEntries(cas: Cas, sha256: string, after = ''): AsyncGenerator<ManifestEntry[]> {
  let unread: Buffer = Buffer.alloc(0)
  for (let start = manifestStart.length; ; start += sliceBytes) {
    const object = await openManifest(cas, sha256)
    const end = Math.min(start + sliceBytes, object.size)
    unread = Buffer.concat([unread, await buffer(object.stream(start, end - 1))])
    const rulesAt = unread.indexOf(rulesStart)
    const isLast = rulesAt !== -1 || end === object.size
    const wholeEnd = rulesAt !== -1 ? rulesAt : isLast ? unread.length - manifestEnd.length : unread.lastIndexOf(nextEntry)
    const entries = JSON.parse(`[${unread.toString('utf8', 0, Math.max(0, wholeEnd))}]`) as ManifestEntry[]
    yield after === '' ? entries : entries.filter(({ path }) => path > after)
    if (isLast) return
    if (wholeEnd > 0) unread = unread.subarray(wholeEnd + 1)
  }
}

/** As {@link readManifest}, but its files are not parsed. @throws Error when it is damaged, too */
export async function readStoredManifest(cas: Cas, sha256: string): Promise<StoredManifest> {
  const manifest = splitManifest(await readBytes(cas, sha256))
  if (!manifest) throw new Error(`the manifest ${sha256} is damaged`)
  return manifest
}

const readBytes = async (cas: Cas, sha256: string): Promise<Buffer> => await (await openManifest(cas, sha256)).bytes()

async function openManifest(cas: Cas, sha256: string): Promise<OpenedObject> {
  const object = await cas.open(sha256)
  if (!object) throw new Error(`the manifest ${sha256} is missing from the storage`)
  return object
}

const manifestStart = '{"files":['
const manifestEnd = ']}'
/** Where the files end and the rules begin. It occurs nowhere else, because a quote inside a text is escaped, and rules have no such member. */
const rulesStart = Buffer.from('],"rules":')
const rulesEnd = '}}'
/** The beginning of every entry. It occurs nowhere else among the files, because a quote inside a path is escaped. */
export const entryStart = Buffer.from('{"path":"')
/** The comma between two entries, with the beginning of the second. */
const nextEntry = Buffer.concat([Buffer.from(','), entryStart])
/** The text after every path. It cannot occur inside one. */
export const pathEnd = Buffer.from('","sha256":"')

/** The bytes of a stored manifest. */
export interface StoredManifest {
  /** The entries, for {@link findEntry}. */
  readonly files: Buffer
  /** JSON of {@link SiteRules}. */
  readonly rules: Buffer | undefined
}

/**
 * Splits the bytes of a manifest, which are not parsed. Undefined when they do not begin and end as {@link storeManifest} writes them; only the
 * hash tells whether they are all there.
 */
export function splitManifest(bytes: Buffer): StoredManifest | undefined {
  const start = manifestStart.length
  if (bytes.toString('latin1', 0, start) !== manifestStart) return undefined
  const end = bytes.toString('latin1', bytes.length - manifestEnd.length)
  if (end === manifestEnd) return { files: bytes.subarray(start, -manifestEnd.length), rules: undefined }
  const split = bytes.lastIndexOf(rulesStart)
  if (end !== rulesEnd || split < start) return undefined
  return { files: bytes.subarray(start, split), rules: bytes.subarray(split + rulesStart.length, -1) }
}

/** Undefined when the deploy has no rules. */
export const rulesOf = ({ rules }: StoredManifest): PreparedRules | undefined =>
  rules && prepareRules(JSON.parse(rules.toString('utf8')) as SiteRules)

/**
 * Looks up a file by binary search in the entries of a manifest. They are never parsed as a whole: for a deploy with 20,000 of the
 * longest paths (22 MB) that would block the process for 150 ms, while the 15 steps of a search take microseconds.
 * @throws Error when the bytes are not those of a manifest
 */
export function findEntry(files: Buffer, path: string): ManifestEntry | undefined {
  // the wanted entry begins at `from` or later, and before `to`
  let from = 0
  let to = files.length
  while (from < to) {
    const start = files.lastIndexOf(entryStart, (from + to) >>> 1)
    const pathStart = start + entryStart.length
    const pathStop = files.indexOf(pathEnd, pathStart)
    if (start < from || pathStop === -1) throw new Error('the manifest is damaged')
    const found = unescaped(files.toString('utf8', pathStart, pathStop))
    if (found === path) return entryAt(files, start, pathStop)
    if (path < found) to = start
    else from = endOfEntry(files, pathStop) + 1
  }
  return undefined
}

/** A text as it was before it was written as JSON. */
export const unescaped = (text: string) => (text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text)

const entryAt = (files: Buffer, start: number, pathStop: number) =>
  JSON.parse(files.toString('utf8', start, endOfEntry(files, pathStop))) as ManifestEntry

const closingBrace = 0x7d

/** The offset after the closing brace, where a comma or the end of the list follows. */
function endOfEntry(files: Buffer, pathStop: number): number {
  const brace = files.indexOf(closingBrace, pathStop)
  if (brace === -1) throw new Error('the manifest is damaged')
  return brace + 1
}
