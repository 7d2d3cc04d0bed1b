/** A literal segment, decoded like the path of a request; undefined stands for a placeholder. */
type Segment = string | undefined

/** A path with placeholders and at most one splat. */
export interface PathPattern {
  /** The segments before the splat or the end. */
  readonly segments: readonly Segment[]
  readonly splat: Splat | undefined
  /** The names of what a match captures, in its order; the splat is called `splat`. */
  readonly names: readonly string[]
}

/** A star with the rest of its segment, and the segments after it. */
interface Splat {
  readonly head: string
  readonly tail: string
  readonly after: readonly Segment[]
  /** The pattern ends with a slash, so that the splat does not take it. */
  readonly isClosed: boolean
}

export const placeholderName = (text: string) => (/^:[A-Za-z_]\w*$/.test(text) ? text.slice(1) : undefined)

/** The one path that the pattern matches, with and without a slash at its end; undefined when it matches several. */
export function fixedPath({ names, segments, splat }: PathPattern): string | undefined {
  return names.length === 0 && !splat ? segments.map((segment) => `/${segment ?? ''}`).join('') : undefined
}

const maxSegments = 50

/** Parses the path of a rule; a text says why it is none, to follow the place. */
export function parsePathPattern(text: string): PathPattern | string {
  if (!text.startsWith('/')) return 'has a path that does not begin with a slash'
  if (/[?#]/.test(text)) return 'has a ? or # in its path; write conditions on the query after it, as in /store id=:id'
  const raws = text.split('/').filter((segment) => segment !== '')
  if (raws.length > maxSegments) return `has a path of more than ${maxSegments} segments`
  const stars = raws.filter((raw) => raw.includes('*'))
  const [star] = stars
  const [head = '', tail = '', ...more] = star?.split('*') ?? []
  if (stars.length > 1 || more.length > 0) return 'has more than one star in its path'
  const at = star === undefined ? raws.length : raws.indexOf(star)
  const parse = (part: readonly string[]) => part.map((raw) => (placeholderName(raw) === undefined ? decodeText(raw) : undefined))
  const segments = parse(raws.slice(0, at))
  const splat =
    star === undefined
      ? undefined
      : { head: decodeText(head), tail: decodeText(tail), after: parse(raws.slice(at + 1)), isClosed: text.endsWith('/') }
  const literals = [...segments, ...(splat ? [...splat.after, splat.head, splat.tail] : [])]
  if (literals.some((literal) => literal !== undefined && !isInPaths(literal))) return 'has a path that no request can have'
  const names = raws.flatMap((raw, index) => (index === at ? 'splat' : (placeholderName(raw) ?? [])))
  if (new Set(names).size < names.length) return 'uses a placeholder twice in its path'
  return { segments, splat, names }
}

/**
 * As the path of a request is decoded; a slash for what cannot be decoded. More combining characters in a row than the stream-safe format of
 * Unicode has (UAX 15) take quadratic time to normalise, and no language has them.
 */
function decodeText(raw: string): string {
  try {
    const text = decodeURIComponent(raw)
    return /\p{M}{31}/u.test(text) ? '/' : text.normalize('NFC')
  } catch {
    return '/'
  }
}

/** Whether a request with the text in a segment is not refused. */
const isInPaths = (text: string) => text !== '.' && text !== '..' && !/[\p{Cc}\\/]/u.test(text)

/** The path of a request in its parts, so that many patterns are tried without parsing it again. */
export interface SplitPath {
  readonly segments: readonly string[]
  readonly hasSlashAtEnd: boolean
}

export function splitPath(path: string): SplitPath {
  const segments = path.split('/').slice(1)
  const hasSlashAtEnd = segments.at(-1) === ''
  return { segments: hasSlashAtEnd ? segments.slice(0, -1) : segments, hasSlashAtEnd }
}

/**
 * What a path gives the placeholders and the splat; undefined when it does not match. A slash at the end of the path counts only for a splat
 * at the end of the pattern. A splat may be empty and spans any number of segments. There is nothing to try twice: what follows the star is compared from
 * the end of the path.
 */
export function matchPath({ segments, splat }: PathPattern, path: SplitPath): string[] | undefined {
  const { length } = path.segments
  if (splat ? length < segments.length + splat.after.length : length !== segments.length) return undefined
  if (!hasSegments(path, 0, segments)) return undefined
  const captures = capturesOf(path, 0, segments)
  if (!splat) return captures
  const { head, tail, after, isClosed } = splat
  const end = length - after.length
  if (!hasSegments(path, end, after)) return undefined
  const isOpen = after.length === 0 && tail === '' && !isClosed && path.hasSlashAtEnd && end > segments.length
  const spanned = path.segments.slice(segments.length, end).join('/') + (isOpen ? '/' : '')
  if (spanned.length < head.length + tail.length || !spanned.startsWith(head) || !spanned.endsWith(tail)) return undefined
  captures.push(spanned.slice(head.length, spanned.length - tail.length), ...capturesOf(path, end, after))
  return captures
}

function hasSegments(path: SplitPath, from: number, wanted: readonly Segment[]): boolean {
  for (let index = 0; index < wanted.length; index++) {
    if (wanted[index] !== undefined && wanted[index] !== path.segments[from + index]) return false
  }
  return true
}

const capturesOf = (path: SplitPath, from: number, wanted: readonly Segment[]) =>
  wanted.flatMap((segment, index) => (segment === undefined ? (path.segments[from + index] ?? []) : []))
