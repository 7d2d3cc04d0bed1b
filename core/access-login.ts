/** The lifetime of an emailed code. */
export const codePeriodMs = 10 * 60_000
/** Wrong tries after which a code is burned. */
export const maxCodeTries = 5
export const codeDigits = 6
/** Logins that are kept of each listed address, and tries of other addresses that are kept of each site. */
export const maxLoginsKept = 20
export const maxForeignAttemptsKept = 100

/** What a login with a code of a listed address came to; `limit_reached`: the code was right, but all opens were used up. */
export const loginResults = ['success', 'wrong_code', 'limit_reached'] as const
/** What a row of the login log tells. `unlisted`: somebody asked for a code to an address that is not listed. */
export type LoginResult = (typeof loginResults)[number] | 'unlisted'

/** An address as it is shown to owners who did not list it: `a***@e***.com`. */
export function maskedEmail(email: string): string {
  const at = email.lastIndexOf('@')
  const domain = email.slice(at + 1)
  const dot = domain.lastIndexOf('.')
  return `${email.slice(0, 1)}***@${domain.slice(0, 1)}***${dot > 0 ? domain.slice(dot) : ''}`
}

/** The first mark in a User-Agent that fits names the browser: those that imitate another one come first. */
const browsers = [
  ['Edg', 'Edge'],
  ['OPR/', 'Opera'],
  ['YaBrowser/', 'Yandex Browser'],
  ['SamsungBrowser/', 'Samsung Internet'],
  ['Firefox/', 'Firefox'],
  ['FxiOS/', 'Firefox'],
  ['CriOS/', 'Chrome'],
  ['Chrome/', 'Chrome'],
  ['Safari/', 'Safari'],
] as const
const systems = [
  ['iPhone', 'iPhone'],
  ['iPad', 'iPad'],
  ['Android', 'Android'],
  ['Windows', 'Windows'],
  ['CrOS', 'ChromeOS'],
  ['Mac OS X', 'macOS'],
  ['Linux', 'Linux'],
] as const
const maxUserAgentLength = 300

/** What a User-Agent header says in a few words: `Chrome on Windows`. Nothing of the header itself is in them. */
export function deviceOf(userAgent: string): string {
  const text = userAgent.slice(0, maxUserAgentLength)
  const nameIn = (marks: readonly (readonly [mark: string, name: string])[]) => marks.find(([mark]) => text.includes(mark))?.[1]
  const [browser, system] = [nameIn(browsers), nameIn(systems)]
  if (browser !== undefined && system !== undefined) return `${browser} on ${system}`
  return browser ?? system ?? 'Unknown device'
}
