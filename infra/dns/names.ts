import { domainToASCII, domainToUnicode } from 'node:url'
import { getPublicSuffix } from 'tldts'

/**
 * Converts a name to lower-case punycode, keeping a leading `*.`; empty when it has no such form.
 * Parts that a URL parser would cut off or decode are refused first: a path, a port, user information, percent signs.
 */
export function toAsciiDomain(text: string): string {
  const name = text.trim()
  if (/[\s\p{Cc}/\\?#@%:[\]]/u.test(name)) return ''
  const ascii = domainToASCII(name)
  // the parser accepts a label `xn--…` that is no punycode; decoding leaves it unchanged
  const isBroken = ascii.split('.').some((label) => label.startsWith('xn--') && domainToUnicode(label) === label)
  return isBroken ? '' : ascii
}

/** Whether others can register names under this one, by the Public Suffix List with its private part, as certificate authorities use it. */
export const isPublicSuffix = (name: string) => getPublicSuffix(name, { allowPrivateDomains: true }) === name
