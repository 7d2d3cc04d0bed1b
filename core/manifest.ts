import { maxPathBytes } from './limits.ts'
import { isServiceFile } from './service-files.ts'

/** One published file. `size` in bytes. */
export interface ManifestEntry {
  readonly path: string
  readonly sha256: string
  readonly size: number
}

/** The full file set of a deploy, sorted by path; paths are unique and have no leading slash. Stored in the CAS as JSON. */
export interface Manifest {
  readonly files: readonly ManifestEntry[]
}

export const sha256Pattern = /^[0-9a-f]{64}$/

export type PathVerdict =
  | { readonly kind: 'keep'; readonly path: string }
  /** A file that the platform never publishes; listed in `skipped_paths`. */
  | { readonly kind: 'skip'; readonly path: string }
  /** A path that cannot name a file of the site. In a JSON list it is refused; in an archive the entry is skipped. */
  | { readonly kind: 'bad'; readonly reason: string }

/** Normalises and checks a path of an upload that is published (addendum E7). */
export function judgePath(raw: string): PathVerdict {
  const verdict = normalisePath(raw)
  if (verdict.kind === 'bad') return verdict
  return isServiceFile(verdict.path) ? { kind: 'skip', path: verdict.path } : verdict
}

/** As {@link judgePath}, for the source of a build: only repositories and installed packages are left out. */
export function judgeSourcePath(raw: string): PathVerdict {
  const verdict = normalisePath(raw)
  if (verdict.kind === 'bad') return verdict
  const segments = verdict.path.split('/')
  const left = segments.includes('.git') || segments.includes('node_modules')
  return left ? { kind: 'skip', path: verdict.path } : verdict
}

/** A control character of ASCII: anything but its printable characters and what follows them. */
const control = /[^ -~\u0080-\uffff]/

function normalisePath(raw: string): Exclude<PathVerdict, { kind: 'skip' }> {
  const bad = (reason: string) => ({ kind: 'bad', reason }) as const
  // decoders put U+FFFD in the place of bytes that are not UTF-8
  if (!raw.isWellFormed() || raw.includes('\ufffd')) return bad('is not valid UTF-8')
  // NFC may shorten a path, but never by this much
  if (raw.length > 4 * maxPathBytes) return bad(`is longer than ${maxPathBytes} bytes`)
  const path = raw.normalize('NFC').replace(/^\/+/, '')
  if (path === '') return bad('is empty')
  if (exceeds(path, maxPathBytes)) return bad(`is longer than ${maxPathBytes} bytes`)
  if (path.includes('\\')) return bad('contains a backslash')
  if (control.test(path)) return bad('contains a control character')
  for (const segment of path.split('/')) {
    if (segment === '') return bad('has an empty segment')
    if (segment === '.' || segment === '..') return bad(`contains "${segment}"`)
    if (exceeds(segment, maxSegmentBytes)) return bad('has a segment longer than 255 bytes')
  }
  return { kind: 'keep', path }
}

const maxSegmentBytes = 255

/** Whether the text is longer in UTF-8; a UTF-16 unit has at most 3 bytes, so short texts are not read. */
const exceeds = (text: string, bytes: number) => 3 * text.length > bytes && utf8Length(text) > bytes

function utf8Length(text: string): number {
  let bytes = 0
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
  }
  return bytes
}
