/** Where the pages of closed sites send their forms. The edge answers below `brand`, the api everything else. */
export const gatePaths = {
  password: '/__svc/login',
  email: '/__svc/login/email',
  code: '/__svc/login/code',
  /** Finishes the registration of a visitor whose address is confirmed. */
  register: '/__svc/register',
  /** Consents to the documents of the site as they are now. */
  consent: '/__svc/consent',
  /** Begins a payment; its address below shows how it goes. */
  pay: '/__svc/pay',
  payment: '/__svc/payment',
  /** Shows a link to the bot of a messenger, which answers with a code. */
  messenger: '/__svc/login/messenger',
  messengerCode: '/__svc/login/messenger/code',
  /** Checks again that a visitor is a subscriber. */
  renew: '/__svc/renew',
  logout: '/__svc/logout',
  brand: '/__svc/brand/',
} as const

/** The cookie of a visit over https: only the host itself can set it, and only over https. */
const secureVisitCookie = '__Host-svc_s'
/** The cookie of a visit over http, which a secure page ignores. */
const plainVisitCookie = 'svc_s'
/** Other sites of the same domain can add cookies of the plain name, so a request may have several. */
const maxVisitCookies = 5

/** The values of the first cookies of a request that may hold a visit. @param header Cookie */
export function visitCookies(header: string, isSecure: boolean): string[] {
  const name = isSecure ? secureVisitCookie : plainVisitCookie
  const values: string[] = []
  for (let start = 0; start < header.length && values.length < maxVisitCookies; ) {
    const semicolon = header.indexOf(';', start)
    const end = semicolon === -1 ? header.length : semicolon
    const pair = header.slice(start, end).trim()
    if (pair.startsWith(`${name}=`)) values.push(pair.slice(name.length + 1))
    start = end + 1
  }
  return values
}

/** How long a visit lasts, unless its lock ends earlier. */
export const visitPeriodMs = 30 * 24 * 3_600_000

/** How long after its end the visit of a subscriber can be renewed; its cookie is kept for the length of a usual visit. */
const renewablePeriodMs = visitPeriodMs - 24 * 3_600_000

/** Whether the visit of a subscriber that lasts until the instant holds, or has not been over for too long to be renewed. */
export const isRenewable = (until: Date, now: Date) => now.getTime() < until.getTime() + renewablePeriodMs

/** The `Set-Cookie` of a visit for so many seconds; 0 ends it. */
export function visitCookie(value: string, maxAgeSeconds: number, isSecure: boolean): string {
  const name = isSecure ? secureVisitCookie : plainVisitCookie
  return `${name}=${value}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`
}
