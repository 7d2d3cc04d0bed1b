/** A path with placeholders and at most one splat at its end, decoded like the path of a request. */
export interface PathPattern {
  /** The segments before the first placeholder or splat: `/a/b`; empty for none. */
  readonly prefix: string
  /** The segments behind the prefix; undefined stands for a placeholder. */
  readonly rest: readonly (string | undefined)[]
  /** The names of what a match captures, in its order; the splat is the last and is called `splat`. */
  readonly names: readonly string[]
  readonly hasSplat: boolean
}

export const isFixed = ({ rest, hasSplat }: PathPattern) => rest.length === 0 && !hasSplat

const placeholder = /^:[A-Za-z_]\w*$/

/** Parses the path of a rule; a text says why it is none, to follow the place. */
export function parsePathPattern(text: string): PathPattern | string {
  if (!text.startsWith('/')) return 'has a path that does not begin with a slash'
  const raws = text.split('/').filter((segment) => segment !== '')
  const hasSplat = raws.at(-1) === '*'
  if (hasSplat) raws.pop()
  const segments: (string | undefined)[] = []
  const names: string[] = []
  for (const raw of raws) {
    if (raw.includes('*')) return 'has a star that is not the whole last segment of the path; write it as /*'
    if (placeholder.test(raw)) {
      names.push(raw.slice(1))
      segments.push(undefined)
      continue
    }
    const segment = decodeSegment(raw)
    if (segment === undefined) return `has a path with the segment "${raw.slice(0, 40)}", which no request has`
    segments.push(segment)
  }
  if (hasSplat) names.push('splat')
  if (new Set(names).size < names.length) return 'uses a placeholder twice in its path'
  const first = segments.indexOf(undefined)
  const literal = first === -1 ? segments : segments.slice(0, first)
  const rest = first === -1 ? [] : segments.slice(first)
  return { prefix: literal.map((segment) => `/${segment}`).join(''), rest, names, hasSplat }
}

/** As the path of a request is decoded: undefined for what a request is refused for. */
function decodeSegment(raw: string): string | undefined {
  try {
    const segment = decodeURIComponent(raw).normalize('NFC')
    return /[\p{Cc}\\/?#]/u.test(segment) || segment === '.' || segment === '..' ? undefined : segment
  } catch {
    return undefined
  }
}

/**
 * What a path gives the placeholders and the splat; undefined when it does not match. A slash at the end of the path counts only for the
 * splat, which may also be empty. Takes one pass over the path.
 */
export function matchPath(pattern: PathPattern, path: string): string[] | undefined {
  const { prefix, rest, hasSplat } = pattern
  if (!path.startsWith(prefix)) return undefined
  const captures: string[] = []
  let at = prefix.length
  for (const segment of rest) {
    if (path[at] !== '/') return undefined
    const slash = path.indexOf('/', at + 1)
    const end = slash === -1 ? path.length : slash
    if (segment === undefined ? end === at + 1 : path.slice(at + 1, end) !== segment) return undefined
    if (segment === undefined) captures.push(path.slice(at + 1, end))
    at = end
  }
  if (at < path.length && path[at] !== '/') return undefined
  if (hasSplat) captures.push(path.slice(at + 1))
  else if (at < path.length - 1) return undefined
  return captures
}
