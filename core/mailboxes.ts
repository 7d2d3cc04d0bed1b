// Limits count mailboxes, not spellings: one person can write an address in any number of ways.

/** Providers that ignore dots in the local part. */
const ignoringDots = new Set(['gmail.com', 'googlemail.com'])

/** Domains that lead to the mailboxes of another domain. */
const sameProvider = new Map([['googlemail.com', 'gmail.com']])

/**
 * The mailbox that an address reaches, as the key of a limit: in lower case and without `+tag`, and without dots where the provider ignores
 * them. It is never used to send an email, because other providers may treat these spellings as different mailboxes.
 * @param address a plain address
 */
export function mailboxOf(address: string): string {
  const at = address.lastIndexOf('@')
  const domain = address.slice(at + 1).toLowerCase()
  const [local = ''] = address.slice(0, at).toLowerCase().split('+', 1)
  const name = ignoringDots.has(domain) ? local.replaceAll('.', '') : local
  return `${name}@${sameProvider.get(domain) ?? domain}`
}
