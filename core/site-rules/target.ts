import { encodePath, encodeQuery, parseRequestPath, type RequestTarget } from '../request-path.ts'
import { placeholderName } from './path-pattern.ts'

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
  const unknown = path
    .split('/')
    .map(placeholderName)
    .find((name) => name !== undefined && !names.includes(name))
  if (unknown !== undefined) return `uses :${unknown.slice(0, 40)} in its target, which nothing before the target captures`
  const target = {
    origin,
    path: parseTemplate(path || '/', names),
    query: mark === -1 ? undefined : parseTemplate(beforeHash.slice(mark + 1), names),
    fragment: hash === -1 ? undefined : parseTemplate(rest.slice(hash + 1), names),
  }
  const example = names.map(() => 'x')
  return composeLocation(target, example, '') === undefined ? 'has a target whose path is not valid' : target
}

/** The host is what the file says, as a browser reads it; no capture reaches it. */
function splitOrigin(text: string): { origin: string; rest: string } | string {
  if (/^\/(?!\/)/.test(text)) return { origin: '', rest: text }
  const [, scheme, authority] = /^(https?:)\/\/([^/?#\\]+)/i.exec(text) ?? []
  if (scheme === undefined || authority === undefined) return 'has a target that begins neither with one slash nor with https://'
  const url = URL.parse(`${scheme}//${authority}`)
  const rest = text.slice(scheme.length + 2 + authority.length)
  if (url === null || authority.includes('@') || rest.startsWith('\\')) return 'has a target with a host that is not valid'
  return { origin: url.origin, rest }
}

/** `:name` stands for a capture when there is one of this name; other colons are ordinary characters. */
function parseTemplate(text: string, names: readonly string[]): Template {
  const pieces: (string | number)[] = []
  let literal = ''
  for (const part of text.split(/(:[A-Za-z_]\w*)/)) {
    const index = names.indexOf(placeholderName(part) ?? '')
    if (index === -1) {
      literal += part
      continue
    }
    pieces.push(encodeLiteral(literal), index)
    literal = ''
  }
  return [...pieces, encodeLiteral(literal)]
}

/** Escapes stay as they are. */
const encodeLiteral = (text: string) => text.replace(/[^\x21-\x7e]|["<>\\^`{|}]/gu, encodeURIComponent)

export interface Location {
  /** The value of the header: visible ASCII; begins with exactly one slash when the target is inside the site. */
  readonly location: string
  /** What a browser that follows a target inside the site asks for. */
  readonly next: RequestTarget | undefined
}

/** Many clients and proxies refuse a head of more than 16 KB. */
const maxLocationLength = 8 * 1024

/**
 * Where a rule leads. Undefined when the captures make a path that a browser would change, such as one with `..`, or too long a one.
 *
 * @param query that of the request, empty or beginning with `?`
 */
export function composeLocation(target: Target, captures: readonly string[], query: string): Location | undefined {
  const { origin, fragment } = target
  const ownQuery = target.query && `?${fill(target.query, captures, encodeURIComponent)}`
  const address = fill(target.path, captures, encodePath) + (ownQuery ?? encodeQuery(query))
  const hash = fragment ? `#${fill(fragment, captures, encodeURIComponent)}` : ''
  if (address.length + hash.length > maxLocationLength) return undefined
  if (origin !== '') return isAsWritten(origin, address) ? { location: origin + address + hash, next: undefined } : undefined
  const next = parseRequestPath(address)
  return next && { location: encodePath(next.path) + next.query + hash, next }
}

function fill(template: Template, captures: readonly string[], encode: (text: string) => string): string {
  return template.map((piece) => (typeof piece === 'string' ? piece : encode((captures[piece] ?? '').toWellFormed()))).join('')
}

/** Whether a browser takes the path as it stands. */
function isAsWritten(origin: string, address: string): boolean {
  const [path] = address.split('?', 1)
  return URL.parse(origin + address)?.pathname === path
}
