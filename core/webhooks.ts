import { isPrivateName } from './git-remotes.ts'

// Outbound webhooks (addendum E33), signed as Standard Webhooks say: https://www.standardwebhooks.com

/** Every event that a webhook may be called for. */
export const webhookEvents = [
  'deploy.succeeded',
  'deploy.failed',
  'domain.live',
  'certificate.failing',
  'form.received',
  'site.trashed',
] as const
export type WebhookEvent = (typeof webhookEvents)[number]

export const maxWebhookUrlLength = 2048

export type WebhookUrlVerdict =
  | {
      readonly kind: 'ok'
      readonly url: string
      /** The host without brackets; whether an IP address is public has to be checked by the caller. */
      readonly host: string
    }
  | { readonly kind: 'bad'; readonly reason: string }

/**
 * Checks and normalises the URL of a webhook. The addresses of its name are checked at each delivery.
 * @param allowPrivate permits every port, plain http and private names
 */
export function judgeWebhookUrl(text: string, { allowPrivate }: { readonly allowPrivate: boolean }): WebhookUrlVerdict {
  const bad = (reason: string) => ({ kind: 'bad', reason }) as const
  if (text.length > maxWebhookUrlLength) return bad(`is longer than ${maxWebhookUrlLength} characters`)
  if (/[\s\p{Cc}\\]/u.test(text)) return bad('contains white space, a control character or a backslash')
  const url = URL.parse(text)
  if (!url || !/^https?:\/\//i.test(text)) return bad('must be an address that starts with https://')
  if (allowPrivate ? !/^https?:$/.test(url.protocol) : url.protocol !== 'https:') return bad('must start with https://')
  if (url.username !== '' || url.password !== '') return bad('contains a user or a password; put a secret into the path instead')
  if (url.port !== '' && !allowPrivate) return bad('names a port; only 443 is used')
  if (url.hash !== '') return bad('has a fragment, which is never sent')
  if (url.href.length > maxWebhookUrlLength) return bad(`is longer than ${maxWebhookUrlLength} characters`)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (!allowPrivate && host === url.hostname && isPrivateName(host)) return bad('has a name that only a private network knows')
  return { kind: 'ok', url: url.href, host }
}

export const maxWebhooksPerProject = 20
/** Deliveries of one webhook that wait for their next try; events beyond these are not delivered. */
export const maxWaitingDeliveries = 500
/** Tries of one project that are under way at once, in all processes. */
export const maxTriesUnderWay = 4
/** A webhook that has failed for this long without any success is disabled. */
export const webhookFailurePeriodMs = 24 * 3_600_000
/** Events and their deliveries are kept this long. */
export const webhookEventPeriodMs = 30 * 24 * 3_600_000
/** Deliveries that a project may repeat in any hour. */
export const maxRedeliveriesPerHour = 100

/** The pauses between the tries, in units of the first one: with 5 s these are 5 s, 5 min, 30 min, 2 h, 4 h, 7 h and 10 h 25 min; a day in all. */
const pauses = [1, 60, 360, 1440, 2880, 5040, 7500] as const

/** The tries of one delivery. */
export const maxTries = pauses.length + 1

/** The pause after this many failed tries; undefined after the last one. */
export function deliveryPauseMs(tries: number, firstPauseMs: number): number | undefined {
  const units = pauses[tries - 1]
  return units && units * firstPauseMs
}

export const isDelivered = (status: number | null) => status !== null && status >= 200 && status < 300

/** The id of a message, the same for every delivery of its event. */
export const messageId = (eventId: string) => `msg_${eventId}`
