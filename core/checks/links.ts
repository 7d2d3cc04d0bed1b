import { decide } from '../serving.ts'
import type { PreparedRules } from '../site-rules/prepare.ts'

/** Longer addresses cannot name a file and would only cost time. */
const maxLinkLength = 4096

/** Links without escapes, dot segments, or characters that end the path: nearly all links of a site. */
const plain = /^\/?(?:[\w~-][\w.~-]*\/)*(?:[\w~-][\w.~-]*)?$/

/** Left by a template that a script fills in the browser. */
const placeholder = /\{\{|\$\{|<%|\{%|\ufffd/

/**
 * The path that a reference asks the site itself for: decoded, without query and fragment, with a leading slash or relative;
 * dot segments are left only at its start. Undefined when it leads to another host, to the page itself, or cannot be judged.
 */
export function internalPath(reference: string): string | undefined {
  if (reference.length > maxLinkLength) return undefined
  if (plain.test(reference)) return reference === '' ? undefined : reference
  const link = reference.replace(/[\t\n\r]/g, '').trim()
  if (placeholder.test(link) || isForeign(link)) return undefined
  const end = link.search(/[?#]/)
  const path = decode((end === -1 ? link : link.slice(0, end)).replaceAll('\\', '/'))
  return path === '' ? undefined : withoutDots(path)
}

/** `a//b/./../c` is `a/c`; what climbs out of a relative path stays at its start, what climbs out of the root is dropped. */
function withoutDots(path: string): string {
  const root = path.startsWith('/') ? '/' : ''
  const parts = path.split('/')
  const kept: string[] = []
  let ups = 0
  for (const part of parts) {
    if (part === '..') ups += kept.pop() === undefined ? 1 : 0
    else if (part !== '' && part !== '.') kept.push(part)
  }
  const isFolder = kept.length > 0 && ['', '.', '..'].includes(parts.at(-1) ?? '')
  const rest = kept.join('/') + (isFolder ? '/' : '')
  return root + (root ? '' : '../'.repeat(ups)) + rest || './'
}

/** With a scheme, or with a host and the page's scheme. */
const isForeign = (link: string) => /^\s*(?:[a-z][a-z0-9+.-]*:|[/\\]{2})/i.test(link)

/** Manifest paths are in NFC. What cannot be decoded is no file's name either. */
function decode(path: string): string {
  try {
    return decodeURIComponent(path).normalize('NFC')
  } catch {
    return path
  }
}

/** The folder that relative links of a page start from, with slashes at both ends; undefined when it is on another host. */
export function folderOfLinks(page: string, base: string | undefined): string | undefined {
  const folder = `/${page.slice(0, page.lastIndexOf('/') + 1)}`
  if (base === undefined) return folder
  if (base.length > maxLinkLength || placeholder.test(base) || isForeign(base)) return undefined
  const path = resolve(folder, internalPath(base) ?? '')
  return path.slice(0, path.lastIndexOf('/') + 1)
}

/** @param link as {@link internalPath} returns it */
export function resolve(folder: string, link: string): string {
  if (link.startsWith('/')) return link
  let from = folder
  let rest = link
  while (rest.startsWith('../')) {
    rest = rest.slice(3)
    from = from.slice(0, from.lastIndexOf('/', from.length - 2) + 1) || '/'
  }
  return rest === './' ? from : from + rest
}

export interface LinkTargets {
  readonly has: (path: string) => boolean
  /** The start page runs scripts that may show a page of their own at an address without a file. */
  readonly routesInBrowser: boolean
  /** The rules of the site itself. */
  readonly rules?: PreparedRules | undefined
}

/** More would not be asked for again. */
const maxJudged = 50_000

/** A function that tells whether visitors at a path get something else than they were promised. Pages link to the same few paths. */
export function judgeLinks(targets: LinkTargets): (path: string) => boolean {
  const judged = new Map<string, boolean>()
  return (path) => {
    const known = judged.get(path)
    if (known !== undefined) return known
    const broken = isBroken(path, targets)
    if (judged.size < maxJudged) judged.set(path, broken)
    return broken
  }
}

function isBroken(path: string, { has, routesInBrowser, rules }: LinkTargets): boolean {
  // logins and deliveries are answered by the platform
  if (/^\/__svc(?:\/|$)/i.test(path)) return false
  const decision = decide(path, has, { rules })
  if (decision.kind !== 'file') return decision.kind === 'missing'
  if (decision.status === 404) return true
  if (decision.rule) return false
  const isFallback = decision.path === 'index.html' && path !== '/' && path !== '/index.html' && path !== '/index'
  return isFallback && !routesInBrowser
}
