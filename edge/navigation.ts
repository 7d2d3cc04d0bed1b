import type { IncomingHttpHeaders } from 'node:http'

/** Longer headers than clients send are not read. */
const maxAcceptLength = 1000

/** Whether a browser requests a page. Over plain http it sends no `Sec-Fetch` headers, so other headers decide. */
export function isNavigation(headers: IncomingHttpHeaders): boolean {
  if (headers['sec-fetch-dest'] !== undefined) return headers['sec-fetch-dest'] === 'document'
  if (headers['sec-fetch-mode'] !== undefined || headers['sec-fetch-site'] !== undefined) return false
  return headers['upgrade-insecure-requests'] === '1'
}

/** Whether an `Accept` names HTML with a weight above zero. Images, scripts and most programs accept anything, but do not name it. */
export function acceptsHtml({ accept = '' }: IncomingHttpHeaders): boolean {
  if (accept.length > maxAcceptLength) return false
  return accept.split(',').some((item) => {
    const [type, ...parameters] = item.split(';').map((part) => part.trim().toLowerCase())
    return type === 'text/html' && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
  })
}
