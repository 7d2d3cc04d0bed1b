import mime from 'mime'

const inUtf8 = /^(?:text\/|application\/(?:json|manifest\+json|ld\+json|geo\+json)$)/

/** The `Content-Type` of a file by the extension of its name; text is said to be UTF-8. */
export function mediaTypeOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1)
  // the package takes a bare name such as "html" for an extension
  const type = name.includes('.') ? mime.getType(name) : null
  if (type === null) return 'application/octet-stream'
  return inUtf8.test(type) ? `${type}; charset=utf-8` : type
}
