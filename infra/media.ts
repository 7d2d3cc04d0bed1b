import mime from 'mime'

const inUtf8 = /^(?:text\/|application\/(?:json|manifest\+json|ld\+json|geo\+json)$)/

/** Files without extension whose readers insist on a type, below `.well-known/` (the registry of well-known URIs, RFC 8615). */
const wellKnownTypes: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'api-catalog': 'application/linkset+json',
    'apple-app-site-association': 'application/json',
    'apple-developer-merchantid-domain-association': 'text/plain',
    'atproto-did': 'text/plain',
    discord: 'text/plain',
    'host-meta': 'application/xrd+xml',
    'matrix/client': 'application/json',
    'matrix/server': 'application/json',
    'matrix/support': 'application/json',
    nodeinfo: 'application/json',
    'oauth-authorization-server': 'application/json',
    'oauth-protected-resource': 'application/json',
    'openid-configuration': 'application/json',
    'passkey-endpoints': 'application/json',
    'smart-configuration': 'application/json',
    'traffic-advice': 'application/trafficadvice+json',
    'uma2-configuration': 'application/json',
    'web-identity': 'application/json',
    webauthn: 'application/json',
    webfinger: 'application/jrd+json',
  }).map(([name, type]) => [`.well-known/${name}`, type]),
)

/** The `Content-Type` of a file by its path in the deploy; text is said to be UTF-8. */
export function mediaTypeOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1)
  // the package takes a bare name such as "html" for an extension
  const type = name.includes('.') ? mime.getType(name) : typeWithoutExtension(path)
  if (type === null) return 'application/octet-stream'
  const known = contentTypes.get(type)
  if (known !== undefined) return known
  const contentType = inUtf8.test(type) ? `${type}; charset=utf-8` : type
  contentTypes.set(type, contentType)
  return contentType
}

/** By media type, of which there are few: the edge remembers one for each of many files. */
const contentTypes = new Map<string, string>()

/** Apple's devices ask for the association of an app at the root, too. */
const typeWithoutExtension = (path: string) =>
  path === 'apple-app-site-association' ? 'application/json' : (wellKnownTypes.get(path) ?? null)
