import { isPlainAddress } from './emails.ts'

/** Addresses that a code lets into a site. */
export const maxAccessEmails = 1000
/** The longest text with addresses: room for all that a site may list, with their names left out. */
export const maxRawEmailsLength = 256 * 1024
export const maxEmailLabelLength = 80

export const shownInvalid = 100
const shownInvalidLength = 100

/** The parts of a text between lines, commas and semicolons. */
export const splitEmails = (raw: string): string[] =>
  raw
    .split(/[\r\n,;]/)
    .map((part) => part.trim())
    .filter((part) => part !== '')

/** The form in which an address is stored, also one that would not be listed any more. */
export const storedForm = (text: string) => text.trim().toLowerCase()

/** The address as it is stored: in lower case. Undefined when the text is not one plain address. */
export function readEmail(text: string): string | undefined {
  const email = storedForm(text)
  return isPlainAddress(email) ? email : undefined
}

export interface SortedEmails {
  /** Each address once, in lower case. */
  readonly emails: readonly string[]
  /** How many addresses there were more than once. */
  readonly repeated: number
  /** The first texts that are not addresses, shortened. */
  readonly invalid: readonly string[]
}

export function sortEmails(texts: readonly string[]): SortedEmails {
  const emails = new Set<string>()
  const invalid: string[] = []
  let repeated = 0
  for (const text of texts) {
    const email = readEmail(text)
    if (email === undefined) {
      if (invalid.length < shownInvalid) invalid.push(text.slice(0, shownInvalidLength).toWellFormed())
    } else if (emails.has(email)) repeated += 1
    else emails.add(email)
  }
  return { emails: [...emails], repeated, invalid }
}
