import { encodePath, parseRequestPath } from '../request-path.ts'

/** Texts, and the positions of captures. */
type Template = readonly (string | number)[]

/** The target of a rule. */
export interface Target {
  /** Empty for a target inside the site, else `https://host`. */
  readonly origin: string
  readonly path: Template
  /** Undefined when the query of the request passes on. */
  readonly query: Template | undefined
  readonly fragment: Template | undefined
}

/** Parses the target of a rule; a text says why it is none, to follow the place. */
export function parseTarget(text: string, names: readonly string[]): Target | string {
  const split = splitOrigin(text)
  if (typeof split === 'string') return split
  const { origin, rest } = split
  const hash = rest.indexOf('#')
  const beforeHash = hash === -1 ? rest : rest.slice(0, hash)
  const mark = beforeHash.indexOf('?')
  const path = mark === -1 ? beforeHash : beforeHash.slice(0, mark)
  const unknown = path.split('/').find((segment) => /^:[A-Za-z_]\w*$/.test(segment) && !names.includes(segment.slice(1)))
  if (unknown !== undefined) return `uses ${unknown.slice(0, 40)} in its target, which its path does not have`
  const target = {
    origin,
    path: parseTemplate(path || '/', names),
    query: mark === -1 ? undefined : parseTemplate(beforeHash.slice(mark + 1), names),
    fragment: hash === -1 ? undefined : parseTemplate(rest.slice(hash + 1), names),
  }
  const example = composeLocation(
    target,
    names.map(() => 'x'),
    '',
  )
  return example === undefined ? 'has a target that is not a valid path' : target
}

/** The host stands in the file, never in a capture, and is written as the browser reads it. */
function splitOrigin(text: string): { origin: string; rest: string } | string {
  if (/^\/(?!\/)/.test(text)) return { origin: '', rest: text }
  const [, scheme, authority] = /^(https?:)\/\/([^/?#\\]+)/i.exec(text) ?? []
  if (scheme === undefined || authority === undefined) return 'has a target that begins neither with one slash nor with https://'
  const url = URL.parse(`${scheme}//${authority}`)
  if (url === null || url.username !== '' || url.password !== '' || authority.includes('@'))
    return 'has a target with an invalid host'
  const rest = text.slice(scheme.length + 2 + authority.length)
  return rest.startsWith('\\') ? 'has a target with a backslash' : { origin: url.origin, rest }
}

/** `:name` stands for a capture when there is one of this name; other colons are ordinary characters. */
function parseTemplate(text: string, names: readonly string[]): Template {
  const pieces: (string | number)[] = []
  let literal = ''
  for (const part of text.split(/(:[A-Za-z_]\w*)/)) {
    const index = part.startsWith(':') ? names.indexOf(part.slice(1)) : -1
    if (index === -1) literal += part
    else {
      pieces.push(encodeLiteral(literal), index)
      literal = ''
    }
  }
  return [...pieces, encodeLiteral(literal)]
}

/** Escapes stay as they are. */
const encodeLiteral = (text: string) => text.replace(/[^\x21-\x7e]|["<>\\^`{|}]/gu, encodeURIComponent)

/**
 * The `Location` of a redirect: visible ASCII; begins with exactly one slash when the target is inside the site. Undefined when the captures
 * make no path that a browser would ask for as it stands.
 *
 * @param query that of the request, empty or beginning with `?`
 */
export function composeLocation(target: Target, captures: readonly string[], query: string): string | undefined {
  const fill = (template: Template, encode: (text: string) => string) =>
    template.map((piece) => (typeof piece === 'string' ? piece : encode(captures[piece] ?? ''))).join('')
  const filled = fill(target.path, encodePath)
  const path = target.origin === '' ? filled.replace(/\/{2,}/g, '/') : filled
  if (parseRequestPath(path) === undefined) return undefined
  const ownQuery = target.query && `?${fill(target.query, encodeURIComponent)}`
  const fragment = target.fragment ? `#${fill(target.fragment, encodeURIComponent)}` : ''
  return target.origin + path + (ownQuery ?? encodeLiteral(query)) + fragment
}
