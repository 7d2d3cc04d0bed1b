import { domainToASCII, domainToUnicode } from 'node:url'
import { getPublicSuffix } from 'tldts'

/**
 * A name in lower-case punycode, `*.` at its start kept; empty when it has no such form.
 * What a URL would cut off or decode is refused first: a path, a port, user information, percent signs.
 */
export function toAsciiDomain(text: string): string {
  const name = text.trim()
  if (/[\s\p{Cc}/\\?#@%:[\]]/u.test(name)) return ''
  const ascii = domainToASCII(name)
  // an ACE label that is no punycode passes through: it stays as it is when read back
  const isBroken = ascii.split('.').some((label) => label.startsWith('xn--') && domainToUnicode(label) === label)
  return isBroken ? '' : ascii
}

/** Whether others can register names under this one, by the Public Suffix List with its private part, as certificate authorities use it. */
export const isPublicSuffix = (name: string) => getPublicSuffix(name, { allowPrivateDomains: true }) === name
