import { folderOfLinks, resolve } from './checks/links.ts'
import type { Finding } from './checks/recommendation.ts'
import type { RuleFault } from './site-rules/rules.ts'

/** Facts about an HTML file that do not depend on its path. */
export interface PageFacts {
  /** Whether it is a whole document: it has a doctype, or an html, head or body tag. */
  readonly isDocument: boolean
  readonly hasTitle: boolean
  readonly hasLang: boolean
  readonly hasViewport: boolean
  readonly hasDescription: boolean
  readonly hasIcon: boolean
  /** Whether it asks search engines not to index it. */
  readonly isUnlisted: boolean
  /** Whether it redirects visitors at once. */
  readonly forwards: boolean
  /** Whether it runs scripts that may take over the navigation. */
  readonly mayRoute: boolean
  readonly imagesWithoutAlt: number
  /** Files that it loads over http: their number, and the first one. */
  readonly insecure: { readonly count: number; readonly first: string }
  /** The address of its base tag. */
  readonly base?: string | undefined
  /** References to the site's own files, as `internalPath` returns them, each once. */
  readonly links: readonly string[]
}

/** One published file with the facts of its content. */
export interface CheckedFile {
  readonly path: string
  readonly size: number
  readonly page?: PageFacts | undefined
  /** The kind of a secret that it contains. */
  readonly secret?: string | undefined
}

const MB = 1024 * 1024
const maxImageBytes = MB
const maxCodeBytes = MB
const maxFileBytes = 10 * MB

export const isPage = (path: string) => /\.html?$/i.test(path)
const isImage = (path: string) => /\.(?:png|jpe?g|gif|webp|avif|bmp|tiff?|ico)$/i.test(path)
const isCode = (path: string) => /\.(?:html?|css|m?js)$/i.test(path)
/** Files by which a search engine verifies the owner. */
const isProofOfOwner = (path: string) => /^(?:google|yandex_|pinterest-)[0-9a-f]+\.html$/.test(path)
const isErrorPage = (path: string) => /(?:^|\/)[45]\d\d(?:\.html?|\/index\.html)$/i.test(path)
/** Configuration of other servers. */
const foreignConfig: ReadonlySet<string> = new Set(['netlify.toml', 'vercel.json', '.htaccess'])

/** The recommendations for one file. `isBroken` comes from `judgeLinks` over the files of the whole site. */
export function checkFile(file: CheckedFile, isBroken: (path: string) => boolean): Finding[] {
  const { path, page } = file
  const findings = checkBytes(file)
  const add = (code: Finding['code'], message: string) => findings.push({ code, path, message })
  if (foreignConfig.has(path)) add('config_ignored', `${path} is not applied here.`)
  if (!page || isProofOfOwner(path)) return findings
  if ((page.isDocument || isIndex(path)) && !page.forwards) {
    if (!page.hasTitle && !page.isUnlisted) add('missing_title', 'The page has no title.')
    if (!page.hasViewport) add('missing_viewport', 'Phones show the page shrunk, because it names no viewport.')
    if (!page.hasLang) add('missing_lang', 'The page does not say which language it is in.')
    if (!page.hasDescription && !page.isUnlisted && !isErrorPage(path)) {
      add('missing_description', 'The page has no description.')
    }
  }
  const images = page.imagesWithoutAlt
  if (images > 0) add('img_no_alt', images === 1 ? 'An image has no alt text.' : `${images} images have no alt text.`)
  const { count, first } = page.insecure
  if (count > 0) add('mixed_content', `The page loads ${quantity(count, 'file')} over http: ${list([first], count)}.`)
  const broken = brokenLinks(path, page, isBroken)
  if (broken.length > 0) add('broken_link', `The page points to ${missing(broken.length)}: ${list(broken, broken.length)}.`)
  return findings
}

/** The recommendation for a line of `_redirects` or `_headers` that is left out. */
export const checkRule = ({ file, line, reason, about }: RuleFault): Finding => ({
  code: about === 'caching' ? 'cache_header_ignored' : 'rule_ignored',
  path: file,
  message: `Line ${line} of ${file} is left out: it ${reason}.`,
})

function checkBytes({ path, size, secret }: CheckedFile): Finding[] {
  const findings: Finding[] = []
  if (secret) findings.push({ code: 'secret_suspected', path, message: `The file seems to contain ${secret}.` })
  if (isImage(path)) {
    if (size > maxImageBytes) findings.push({ code: 'large_image', path, message: `The image has ${megabytes(size)}.` })
  } else if (size > (isCode(path) ? maxCodeBytes : maxFileBytes)) {
    findings.push({ code: 'large_file', path, message: `The file has ${megabytes(size)}; visitors wait for it.` })
  }
  return findings
}

/** The broken links of the page, as it writes them. */
function brokenLinks(path: string, page: PageFacts, isBroken: (path: string) => boolean): string[] {
  const folder = folderOfLinks(path, page.base)
  return page.links.filter((link) => {
    if (folder === undefined && !link.startsWith('/')) return false
    return isBroken(resolve(folder ?? '/', link))
  })
}

/** The recommendations for the site as a whole. `start` is its index.html, undefined when that was not read. */
export function checkSite(start: PageFacts | undefined, has: (path: string) => boolean, pageCount: number): Finding[] {
  const findings: Finding[] = []
  if (!start) return findings
  const isApp = start.mayRoute && pageCount <= 1
  if (!has('404.html') && !isApp) {
    findings.push({ code: 'no_404', path: '404.html', message: 'Visitors see the start page at addresses that do not exist.' })
  }
  if (!start.hasIcon && !has('favicon.ico')) {
    findings.push({ code: 'no_favicon', path: 'favicon.ico', message: 'The site has no icon.' })
  }
  return findings
}

const isIndex = (path: string) => path === 'index.html' || path.endsWith('/index.html')
const quantity = (count: number, noun: string) => (count === 1 ? `a ${noun}` : `${count} ${noun}s`)
const missing = (count: number) => (count === 1 ? 'something that is not there' : `${count} things that are not there`)
const megabytes = (bytes: number) => `${(bytes / MB).toFixed(1)} MB`

const maxExamples = 3
const maxExampleLength = 80

/** Lists some of the addresses, safe to print, and the number of the others. */
function list(addresses: readonly string[], count: number): string {
  const shown = addresses.slice(0, maxExamples).map(printable)
  const left = count - shown.length
  return left > 0 ? `${shown.join(', ')} and ${left} more` : shown.join(', ')
}

function printable(address: string): string {
  const visible = address.replace(/[\p{Cc}\p{Cf}]/gu, '')
  return (visible.length > maxExampleLength ? `${visible.slice(0, maxExampleLength)}…` : visible).toWellFormed()
}
