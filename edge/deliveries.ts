import { attachmentOf, deliveryPath, logoPath } from '../core/delivery-files.ts'
import { preferredLanguage } from '../core/page-language.ts'
import type { DeliveryTokens } from '../infra/crypto/delivery-tokens.ts'
import type { RouteFile } from '../services/feeds/delivery.ts'
import type { DownloadCounts } from '../services/feeds/download-counts.ts'
import type { Route } from '../services/feeds/routes.ts'
import type { Answered } from './answered.ts'
import type { Content } from './content.ts'
import { deliveryPage } from './delivery-page.ts'
import { fixedFile, fixedImage, secured } from './fixed-files.ts'
import { unknownDelivery } from './pages.ts'
import { type Exchange, sendFile, sendPage } from './respond.ts'
import type { SiteFile } from './site-files.ts'

export interface DeliveryOptions {
  /** When undefined, no link opens. */
  readonly deliveryTokens?: DeliveryTokens | undefined
  /** When undefined, downloads are not counted. */
  readonly downloadCounts?: Pick<DownloadCounts, 'add'> | undefined
  readonly content: Content
}

export interface Deliveries {
  /** Answers a request below {@link deliveryPath} of a site. @param path of the request, decoded */
  answer(exchange: Exchange, route: Route, path: string): Answered
}

/** Shows the files of a site to everyone with a link (addendum E16). */
export function createDeliveries({ deliveryTokens, downloadCounts, content }: DeliveryOptions): Deliveries {
  return {
    answer(exchange, route, path) {
      const [token = '', id, ...more] = path.slice(deliveryPath.length).split('/')
      const lang = preferredLanguage(exchange.req.headers['accept-language'])
      const missing = () => sendPage(exchange, unknownDelivery[lang])
      const { delivery_files: files, delivery_page: page } = route
      const logo = logoOf(route)
      if (path === logo?.path) return sendFile(exchange, content, logo, 200)
      const until = deliveryTokens?.endOf(route.site_id, token)
      if (!until || until.getTime() <= Date.now() || files.length === 0 || more.length > 0) return missing()
      if (id === undefined) {
        const pathOf = ({ id }: RouteFile) => `${deliveryPath}${token}/${id}`
        return sendPage(exchange, deliveryPage({ lang, page, files, until, logoPath: logo?.path, pathOf }))
      }
      const file = files.find((file) => file.id === id)
      if (!file) return missing()
      // only the edge itself knows whether a download was complete
      exchange.caddySends = false
      if (isWhole(exchange)) exchange.res.once('finish', () => count(exchange, file))
      return sendFile(exchange, content, downloadOf(file), 200)
    },
  }

  /** Called when the last byte was handed to the connection. */
  function count({ res }: Exchange, { id }: RouteFile): void {
    if (res.statusCode === 200 || res.statusCode === 206) downloadCounts?.add(id)
  }
}

/** Whether the request asks for the first byte: a download that is resumed counts once. */
const isWhole = ({ req }: Exchange) =>
  req.method === 'GET' && (req.headers.range === undefined || /^bytes=\s*0-/i.test(req.headers.range.slice(0, 20)))

/** The response with a file: saved whatever its type is, and never shown. */
function downloadOf({ name, content_type, sha256, size }: RouteFile): SiteFile {
  const headers = [
    ['Content-Type', content_type, 'Content-Disposition', attachmentOf(name), 'Cache-Control', 'private, no-store', ...secured],
    ['Referrer-Policy', 'no-referrer', 'X-Robots-Tag', 'noindex', 'Cross-Origin-Resource-Policy', 'same-origin'],
  ].flat()
  return fixedFile({ path: name, sha256, size }, headers)
}

function logoOf({ delivery_page: page }: Route): SiteFile | undefined {
  if (!page || page.logo_sha256 === null) return undefined
  return fixedImage(logoPath(page.logo_sha256), page.logo_sha256, page.logo_size)
}
