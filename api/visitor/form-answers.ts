import type { IncomingMessage } from 'node:http'
import { prefersHtml } from '../../core/accept.ts'
import type { AppError } from '../../core/errors.ts'
import { formReasons } from '../../core/forms.ts'
import { preferredLanguage } from '../../core/page-language.ts'
import type { Counter } from '../../infra/limits.ts'
import { type WebPage, webPage, webPagePolicy } from '../../infra/web-page.ts'
import { explainBlock, type Posting, type RateBlock, rateKeys } from '../../services/forms/rates.ts'
import { codeOf, internalMessage, statusOf } from '../http-errors.ts'
import { refusalPage, thankYouPage } from './form-pages.ts'

type Headers = Readonly<Record<string, string>>

/** The answer to a post, besides the headers that depend on its origin. */
export interface FormAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

/** The headers that let pages of the origin read the answer. */
export const allowOrigin = (origin: string): Headers => ({
  'access-control-allow-origin': origin,
  'access-control-allow-methods': 'POST',
  'access-control-allow-headers': 'content-type, accept, x-requested-with',
  'access-control-expose-headers': 'plinth-error, retry-after',
  'access-control-max-age': '600',
  vary: 'Origin',
})

/** @param location where a browser is sent; undefined: it gets a page that links to the site */
export function thanksAnswer(origin: string, location: string | undefined, { headers }: IncomingMessage): FormAnswer {
  if (!prefersHtml(headers.accept)) return jsonAnswer(200, { ok: true })
  if (location !== undefined) return { status: 303, headers: { location }, body: '' }
  return pageAnswer(200, thankYouPage(languageOf(headers), origin))
}

/** @param error undefined for an internal fault */
export const refusalAnswer = (error: AppError | undefined, request: IncomingMessage): FormAnswer =>
  refuse(request, {
    status: error ? statusOf[error.kind] : 500,
    reason: codeOf(error),
    message: error?.message ?? internalMessage,
    retryAfterSeconds: error?.details.retryAfterSeconds,
  })

/** The block of a site or of an address that get no further post through, as far as this process knows; a flood costs it no query. */
export function findBlock(blocks: Counter, posting: Posting, now: Date): RateBlock | undefined {
  const { site, address } = rateKeys(posting)
  for (const key of [site, address]) {
    const until = blocks.blockedUntil(key, now)
    if (until) return { key, until }
  }
  return undefined
}

/** The answer to a post of a site or an address that has used up its rate. It is made without an error, whose stack would cost more than the rest. */
export const blockAnswer = (block: RateBlock, now: Date, request: IncomingMessage): FormAnswer =>
  refuse(request, { status: statusOf[formReasons.rate_limited], reason: 'rate_limited', ...explainBlock(block, now) })

interface Refusal {
  readonly status: number
  readonly reason: string
  readonly message: string
  readonly retryAfterSeconds?: number | undefined
}

function refuse({ headers }: IncomingMessage, { status, reason, message, retryAfterSeconds }: Refusal): FormAnswer {
  const answer = prefersHtml(headers.accept)
    ? pageAnswer(status, refusalPage(languageOf(headers), status, reason))
    : jsonAnswer(status, { message, reason })
  const retryAfter = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
  return { ...answer, headers: { ...answer.headers, 'plinth-error': reason, ...retryAfter } }
}

const languageOf = (headers: IncomingMessage['headers']) => preferredLanguage(headers['accept-language'])

const jsonAnswer = (status: number, body: object): FormAnswer => ({
  status,
  headers: { 'content-type': 'application/json; charset=utf-8' },
  body: JSON.stringify(body),
})

const pageAnswer = (status: number, page: WebPage): FormAnswer => ({
  status,
  headers: {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': webPagePolicy,
    'referrer-policy': 'no-referrer',
  },
  body: webPage(page),
})
