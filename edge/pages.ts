import type { PageLanguage } from '../core/page-language.ts'
import { webPage, webPagePolicy } from '../infra/web-page.ts'

/** A complete response that does not depend on the request. Headers are a flat list of names and values, without Content-Length. */
export interface Page {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: Buffer
}

const never = ['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff']

function htmlPage(status: number, title: string, text: string, headers: readonly string[] = [], lang: PageLanguage = 'en'): Page {
  const body = Buffer.from(webPage({ status, title, text, lang }))
  const type = ['Content-Type', 'text/html; charset=utf-8', 'Content-Security-Policy', webPagePolicy]
  return { status, body, headers: [...type, ...never, ...headers] }
}

function textPage(status: number, text: string, headers: readonly string[] = []): Page {
  const type = ['Content-Type', 'text/plain; charset=utf-8']
  return { status, body: Buffer.from(`${text}\n`), headers: [...type, ...never, ...headers] }
}

const ofLinks = ['Referrer-Policy', 'no-referrer', 'X-Robots-Tag', 'noindex', 'Vary', 'Accept-Language']

/** The page of links to files that do not open: the same one for unknown, foreign, ended and malformed links. */
export const unknownDelivery: Readonly<Record<PageLanguage, Page>> = {
  en: htmlPage(
    404,
    'This link does not open',
    'It may have ended, or its files were removed. Ask the sender for a new one.',
    ofLinks,
  ),
  ru: htmlPage(
    404,
    'Ссылка не открывается',
    'Срок её действия закончился, или файлы удалены. Попросите у отправителя новую.',
    ofLinks,
    'ru',
  ),
}

/** The platform's own pages. No cache may keep them. */
export const pages = {
  unknownSite: htmlPage(
    404,
    'There is no site at this address',
    'Check the address for a typing mistake. The site may also have been removed.',
  ),
  notPublished: htmlPage(
    404,
    'Nothing is published here yet',
    'The owner has reserved this address and has not published the site yet.',
  ),
  unavailable: htmlPage(
    503,
    'This site is temporarily unavailable',
    'It has been switched off for now. Please come back later.',
    ['Retry-After', '3600'],
  ),
  tryAgain: htmlPage(
    503,
    'This site cannot be reached right now',
    'The problem is on our side. Please try again in a few seconds.',
    ['Retry-After', '5'],
  ),
  /** The same page for unknown, malformed and revoked links. */
  unknownPreview: htmlPage(
    404,
    'This preview link does not open',
    'It may have been revoked, or the deploy has been published since. Ask the sender for a new one.',
  ),
  /** For programs and for the parts of pages; browsers that open a page see the login page. */
  closed: textPage(401, 'This site is closed. Open it in a browser to log in, or send the header X-Plinth-Bypass.'),
  accessEnded: textPage(401, 'Access to this site has ended.'),
  missingFile: textPage(404, 'There is no such file on this site.'),
  badRequest: textPage(400, 'The host or the path of the request is not valid.'),
  noServiceWorker: textPage(403, 'A preview may not install a service worker.'),
  methodNotAllowed: textPage(405, 'Only GET and HEAD are allowed here.', ['Allow', 'GET, HEAD']),
  tooManyDownloads: textPage(429, 'Too many large files are being downloaded from your address. Try again when some are done.', [
    'Retry-After',
    '10',
  ]),
  tooManyRequests: textPage(429, 'Too many requests from your address are under way. Try again when some are done.', [
    'Retry-After',
    '2',
  ]),
  preconditionFailed: textPage(412, 'The file has changed.'),
} as const satisfies Record<string, Page>
