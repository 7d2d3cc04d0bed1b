import { isPlainAddress, oneLine, senderParts } from './emails.ts'
import type { FieldValue, SubmissionData } from './forms.ts'
import { piecesWithoutLinks, type TextPiece, withoutInvisible, withoutLinks } from './plain-text.ts'
import { type PlanName, planAllows } from './plans.ts'

// The reply to a visitor who posts a form. What the visitor wrote becomes text of one line without links wherever the owner has named a field: the
// visitor may have named somebody else's address.

/** Characters of one field in the body and in the subject of a reply, and of all fields of one of them. */
export const maxFieldLength = 500
const maxSubjectFieldLength = 60
export const maxFieldsLength = 5000
const maxSubjectLength = 200
const maxSenderNameLength = 64

/** Why a submission gets no reply. */
export const skipReasons = {
  gone: 'the submission or its site is gone',
  unverified: 'the submission is spam, archived or hidden',
  disabled: 'the auto-reply is off',
  empty: 'the auto-reply has neither a body nor files',
  trashed: 'the site is in the trash',
  suspended: 'the project is suspended',
  plan: 'the plan has no auto-replies',
  address: 'the form has no usable email address',
  automatic: 'the address is one that nobody reads',
  repeated: 'the mailbox got a reply from this site within 24 hours',
  mailbox: 'the mailbox got the most replies of all sites within 24 hours',
  exhausted: 'the replies of the month are used up',
} as const
export type SkipReason = keyof typeof skipReasons

/** A submission with all that decides about its reply. */
export interface RepliedSubmission {
  readonly data: SubmissionData
  /** Verified, and not hidden. */
  readonly shown: boolean
  readonly site_name: string
  readonly trashed: boolean
  readonly plan: PlanName
  readonly suspended: boolean
  readonly enabled: boolean
  readonly subject: string
  readonly body: string
  readonly email_field: string
  /** Whether the site has files for its visitors. */
  readonly has_files: boolean
}

/** The recipient of the reply to a submission, or why it gets none. How many replies were sent before is not asked here. */
export function judgeSubmission(
  submission: RepliedSubmission,
  platformSender: string,
): { readonly recipient: string } | { readonly reason: SkipReason } {
  const { data, shown, trashed, plan, suspended, enabled, body, email_field, has_files } = submission
  if (!shown) return { reason: 'unverified' }
  if (trashed) return { reason: 'trashed' }
  if (!enabled) return { reason: 'disabled' }
  if (suspended) return { reason: 'suspended' }
  if (!planAllows(plan, 'autoreply')) return { reason: 'plan' }
  if (body.trim() === '' && !has_files) return { reason: 'empty' }
  const recipient = replyAddress(data, email_field)
  if (recipient === undefined) return { reason: 'address' }
  const isOwn = recipient === senderParts(platformSender).address.toLowerCase()
  return isOwn || isAutomaticAddress(recipient) ? { reason: 'automatic' } : { recipient }
}

/** A field's name in double braces: wherever it is in a text, and at one place. */
export const placeholder = /\{\{([^{}\r\n]{1,64})\}\}/g
const placeholderHere = /\{\{([^{}\r\n]{1,64})\}\}/y

/** The placeholder that begins at an index of the text, and the name of its field. */
export function placeholderAt(text: string, index: number): { readonly length: number; readonly name: string } | undefined {
  placeholderHere.lastIndex = index
  const [whole, name] = placeholderHere.exec(text) ?? []
  return whole === undefined || name === undefined ? undefined : { length: whole.length, name }
}

/** The text of a field by its name; empty when there is none. */
export type FieldText = (name: string) => string

/**
 * Reads fields of a submission as text of one line, which may still look like links. Beyond a number of characters in all, they are empty.
 * @param maxLength the most characters of one field, at most {@link maxFieldLength}
 */
export function createFieldText(data: SubmissionData, maxLength = maxFieldLength): FieldText {
  let left = maxFieldsLength
  return (name) => {
    const key = name.trim()
    const text = Object.hasOwn(data, key) ? cut(lineOf(data[key] ?? null), Math.min(maxLength, left)) : ''
    left -= text.length
    return text
  }
}

function lineOf(value: FieldValue): string {
  if (typeof value === 'string') return lineOfText(value.slice(0, 4 * maxFieldLength))
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (!Array.isArray(value)) return ''
  const items = (value as readonly FieldValue[]).slice(0, maxFieldLength)
  return lineOfText(
    items
      .map((item) => (Array.isArray(item) ? '' : lineOf(item)))
      .filter((item) => item !== '')
      .join(', ')
      .slice(0, 4 * maxFieldLength),
  )
}

const lineOfText = (text: string) => oneLine(withoutInvisible(text)).toWellFormed()

/** The first characters, with an ellipsis for the others. */
function cut(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text
  if (maxLength < 1) return ''
  const isWithinPair = /[\ud800-\udbff]/.test(text.charAt(maxLength - 2))
  return `${text.slice(0, maxLength - (isWithinPair ? 2 : 1))}…`
}

/** The subject of a reply: one line, with the fields in their places; the site's name when it would be empty. */
export function replySubject(subject: string, siteName: string, data: SubmissionData): string {
  const fieldText = createFieldText(data, maxSubjectFieldLength)
  const pieces: TextPiece[] = []
  let end = 0
  for (const { index, 0: whole, 1: name = '' } of subject.matchAll(placeholder)) {
    pieces.push({ text: subject.slice(end, index), isForeign: false }, { text: fieldText(name), isForeign: true })
    end = index + whole.length
  }
  pieces.push({ text: subject.slice(end), isForeign: false })
  return cut(lineOfText(piecesWithoutLinks(pieces).join('')) || lineOfText(siteName), maxSubjectLength)
}

/**
 * The sender of a reply: the platform's address under the name of the site, which is no link either. A name that looks like an address would
 * deceive.
 */
export function replySender(siteName: string, platformSender: string): string {
  const name = cut(withoutLinks(lineOfText(siteName.replace(/[<>"@\\]+/g, ' '))), maxSenderNameLength)
  return name === '' ? platformSender : `${name} <${senderParts(platformSender).address}>`
}

/** The address that a submission names in the field, in lower case: exactly one plain address. Undefined for anything else. */
export function replyAddress(data: SubmissionData, field: string): string | undefined {
  const value = Object.hasOwn(data, field) ? data[field] : undefined
  const address = typeof value === 'string' && value.length <= 320 ? value.trim().toLowerCase() : ''
  return isPlainAddress(address) ? address : undefined
}

const automaticNames = new Set([
  'abuse',
  'bounce',
  'bounces',
  'daemon',
  'hostmaster',
  'list',
  'lists',
  'listserv',
  'mail-daemon',
  'mailer-daemon',
  'mailerdaemon',
  'mailman',
  'majordomo',
  'nobody',
  'postmaster',
])
const automaticPatterns = [
  /^(?:no|not|donot|dont|do[-_.]not)[-_.]?reply/,
  /[-_.](?:no[-_.]?reply|bounces?|request|owner)$/,
  /^(?:bounces?|list|owner)[-_.=]/,
]

/** Whether nobody reads what is sent there, or a machine would answer (RFC 3834, section 2). */
export function isAutomaticAddress(address: string): boolean {
  const name = (address.split('@')[0] ?? '').split('+')[0] ?? ''
  return automaticNames.has(name) || automaticPatterns.some((pattern) => pattern.test(name))
}
