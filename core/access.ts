/** How a site can be closed. */
export const accessModes = ['password', 'email', 'subscribers', 'members', 'paid'] as const
export type AccessMode = (typeof accessModes)[number]

export const minPasswordLength = 4
export const maxPasswordLength = 128

const digits = '0123456789'
/** Without 0 and O, and without 1, I, i, L, l and o. */
const distinct = 'ABCDEFGHJKMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789'

/** The generated passwords, by how hard they are to guess. */
export const passwordLevels = {
  easy: { alphabet: digits, length: 6 },
  medium: { alphabet: distinct, length: 10 },
  strong: { alphabet: distinct, length: 20 },
} as const
export type PasswordLevel = keyof typeof passwordLevels

/** @param randomBelow a random whole number from 0, below the given one */
export function makePassword(level: PasswordLevel, randomBelow: (limit: number) => number): string {
  const { alphabet, length } = passwordLevels[level]
  return Array.from({ length }, () => alphabet.charAt(randomBelow(alphabet.length))).join('')
}

const dayMs = 24 * 3_600_000
/** The longest extension of the end of a lock in one call. */
export const maxExpiryDays = 365
/** The end of a lock is at most this far ahead. */
const maxExpiryMs = 10 * 365 * dayMs

/** One of three changes: so many days more, another end, or none. */
export type ExpiryChange =
  | { readonly kind: 'days'; readonly days: number }
  | { readonly kind: 'until'; readonly until: Date }
  | { readonly kind: 'clear' }

/**
 * The end of a lock after a change: days count from its current end, or from now when it has none or that is over.
 * @returns what is wrong with the change, as the end of a sentence, instead of an end that is over or too far ahead
 */
export function expiryAfter(
  current: Date | null,
  change: ExpiryChange,
  now: Date,
): { readonly end: Date | null } | { readonly refusal: string } {
  if (change.kind === 'clear') return { end: null }
  const from = Math.max(current?.getTime() ?? 0, now.getTime())
  const end = change.kind === 'until' ? change.until : new Date(from + change.days * dayMs)
  if (end <= now) return { refusal: 'until must be in the future; open_site_access removes the lock' }
  if (end.getTime() > now.getTime() + maxExpiryMs)
    return { refusal: 'the end would be more than ten years ahead; clear: true removes it' }
  return { end }
}
