import { parseRequestPath } from './request-path.ts'
import { directSource, maxTopValueLength } from './traffic.ts'

// The rules by which answered requests become views, downloads and bots.

/** Why a view is said to be by a program rather than by a person. The first that applies is the reason of a view. */
export const botReasons = ['ua_bot', 'no_ua', 'no_accept_language', 'probe_path', 'too_fast', 'prefetch'] as const
export type BotReason = (typeof botReasons)[number]

/** A visitor who opens more pages than this within one second is a program. */
export const maxPagesPerSecond = 10

/** What a file is to its visitors: a page, something that they keep, or a part of a page. */
export type FileKind = 'page' | 'download' | 'part'

const pageTypes = /^(?:text\/html|application\/xhtml\+xml)(?:;|$)/
/** Documents, archives, programs, sound and film. Everything else is loaded by pages. */
const downloadTypes =
  /^(?:audio\/|video\/|text\/(?:csv|calendar|vcard|tab-separated-values)(?:;|$)|application\/(?:pdf|zip|gzip|zstd|octet-stream|rtf|epub\+zip|msword|java-archive|vnd\.(?:ms-|openxmlformats-|oasis\.|rar|android\.|apple\.(?:installer|pages|numbers|keynote)|debian\.|amazon\.|sqlite3)|x-(?:7z-|apple-diskimage|bittorrent|bzip|debian-|gzip|gtar|iso9660-|java-archive|mobipocket-|ms|rar-|redhat-|rpm|tar|xz|zip)))/

/** What a file is by its `Content-Type`. */
export function fileKindOf(mediaType: string): FileKind {
  const type = mediaType.slice(0, 128).toLowerCase()
  if (pageTypes.test(type)) return 'page'
  return downloadTypes.test(type) ? 'download' : 'part'
}

/** What of an answered request decides for what it counts. */
export interface Outcome {
  readonly status: number
  readonly isHead: boolean
  readonly kind: FileKind
  /** Whether a partial response begins at the first byte: a download that is resumed counts once. */
  readonly fromStart: boolean
}

/** What a request counts as, besides its bytes. */
export function countedAs({ status, isHead, kind, fromStart }: Outcome): 'view' | 'download' | 'not_found' | 'nothing' {
  if (isHead) return 'nothing'
  if (status === 404) return 'not_found'
  if (status === 304) return kind === 'page' ? 'view' : 'nothing'
  if (status < 200 || status > 299 || (status === 206 && !fromStart)) return 'nothing'
  return kind === 'page' ? 'view' : kind === 'download' ? 'download' : 'nothing'
}

/** Files of programs that never run here. Only those who look for weaknesses ask for them, even where a site answers every path with its page. */
const certainProbes =
  /^\/(?:wp-login\.php|wp-admin\/|xmlrpc\.php|wp-config\.php|\.env(?:\.|$)|\.git\/|\.aws\/|\.svn\/|\.ssh\/|phpmyadmin|vendor\/phpunit|_ignition\/|actuator\/|boaform|shell\.php|eval-stdin\.php|phpinfo\.php|cgi-bin\/)/i
/** Paths that a static site may have, such as one that was exported from WordPress. */
const likelyProbes =
  /^\/(?:wp-|wordpress\/|\.(?:ds_store|htpasswd|htaccess|vscode\/)|pma\/|administrator\/|solr\/|owa\/|autodiscover\/|config\.(?:php|json)$|info\.php$|server-status$|[\w-]{1,32}\.(?:php\d?|aspx?|jsp|cgi)$)/i

/** Whether a request looks for a weakness of a program that sites here never run. */
export const isProbe = (path: string, status: number) => certainProbes.test(path) || (status === 404 && likelyProbes.test(path))

/** Escapes of one character take at most 12 bytes. */
const maxTornBytes = 12

/** The decoded path of a raw request target that may have been cut anywhere, as a value of the tops. */
export function pagePathOf(rawTarget: string): string {
  const query = rawTarget.indexOf('?')
  const raw = query === -1 ? rawTarget : rawTarget.slice(0, query)
  for (let torn = 0; torn <= maxTornBytes; torn++) {
    const target = parseRequestPath(raw.slice(0, raw.length - torn))
    if (target) return topValueOf(target.path)
  }
  return '/'
}

const plain = /^[\x20-\x7e]*$/

/** A text as a value of the tops: without control characters and halves of characters, and not too long. */
export function topValueOf(text: string): string {
  const short = text.length > maxTopValueLength ? text.slice(0, maxTopValueLength) : text
  return plain.test(short) ? short : short.toWellFormed().replace(/\p{Cc}/gu, '\ufffd')
}

/** The host of a `Referer`; undefined when there is none or it is not of the web. */
export function refererHostOf(referer: string): string | undefined {
  if (referer === '') return undefined
  const url = URL.parse(referer)
  if (!url || !/^(?:https?|android-app):$/.test(url.protocol) || url.hostname === '') return undefined
  return topValueOf(url.hostname)
}

/** The source of a view: the site that referred to it. A site does not refer to itself. */
export const sourceOf = (refererHost: string | undefined, isOwnHost: boolean): string =>
  refererHost === undefined || isOwnHost ? directSource : refererHost
