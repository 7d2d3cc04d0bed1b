import type { EmailKind } from './emails.ts'
import { storableText } from './storable-texts.ts'

/** The kinds of notifications; most are emails too. */
export type NotificationKind =
  | Extract<EmailKind, `domain_${string}` | 'deploy_failed' | 'certificate_failing' | 'form_submissions'>
  | 'webhook_disabled'
  | 'payment_problem'

export const notificationKinds = [
  'deploy_failed',
  'domain_live',
  'domain_uncertified',
  'domain_given_up',
  'domain_replaced',
  'domain_missing',
  'domain_lost',
  'certificate_failing',
  'webhook_disabled',
  'payment_problem',
  'form_submissions',
] as const satisfies readonly NotificationKind[]

/** Notifications are kept this long (addendum E35). */
export const notificationPeriodMs = 90 * 24 * 3_600_000
/** The newest notifications of a project that are kept. */
export const maxNotifications = 500
/** How many of these may be about form submissions: strangers cause them, and must not push the others out. */
export const maxFormNotifications = 100
const maxTitleLength = 200
const maxMessageLength = 2000

/** Shortens texts that hold what a tenant or a stranger wrote. */
export const notificationTexts = ({ title, message }: { readonly title: string; readonly message: string }) => ({
  title: shortened(title, maxTitleLength),
  message: shortened(message.trim(), maxMessageLength),
})

/** Cuts without halving a surrogate pair. */
const shortened = (text: string, length: number) => storableText(text.slice(0, length))
