import type { ErrorKind } from './errors.ts'
import { wildcardOf } from './hosts.ts'
import { storableText } from './storable-texts.ts'
import { isUuid } from './uuid.ts'

export const submissionStatuses = ['verified', 'spam', 'archive'] as const
export type SubmissionStatus = (typeof submissionStatuses)[number]

/** A value of JSON as it is stored: without NUL characters, halves of surrogate pairs and infinite numbers. */
export type FieldValue = string | number | boolean | null | readonly FieldValue[] | { readonly [name: string]: FieldValue }

/** The content of a submission by the names of its fields, which may be any text, `__proto__` included. */
export type SubmissionData = Readonly<Record<string, FieldValue>>

/** Why a post is refused, as `reason` in the body and as `Plinth-Error`, with the kind of the error. */
export const formReasons = {
  origin_required: 'forbidden',
  origin_not_allowed: 'forbidden',
  site_not_found: 'not_found',
  suspended: 'payment_required',
  quota_exhausted: 'payment_required',
  unsupported_content_type: 'unsupported_media_type',
  invalid_body: 'invalid',
  too_many_fields: 'invalid',
  body_too_large: 'too_large',
  rate_limited: 'too_many_requests',
} as const satisfies Record<string, ErrorKind>
export type FormReason = keyof typeof formReasons

export const maxFormBodyBytes = 50 * 1024
const maxFormFields = 30
/** The values of all fields together: a field of a form may be repeated, and a value of JSON may have parts. */
export const maxFormValues = 1000
/** A submission sooner than this after its form was shown is treated as spam. */
const tooSoonMs = 3000
const maxNextLength = 2000
const maxUserAgentLength = 300

/** A post as it was sent. */
export interface FormPost {
  readonly data: SubmissionData
  /** A field that people do not see is filled in. */
  readonly trapped: boolean
  /** Milliseconds since 1970 at which the form was shown; undefined when the form does not say. */
  readonly shownAt: number | undefined
  readonly requestId: string | undefined
  /** Where the visitor wants to be sent; not checked yet. */
  readonly next: string | undefined
}

/** A field without a name of the platform, and one that the platform reads and does not store. */
const trapPrefix = '_hp_'
const serviceFields = new Set(['_submit_time', '_request_id', '_next'])
const isServiceField = (name: string) => name.startsWith(trapPrefix) || serviceFields.has(name)

export type Reading =
  | { readonly ok: true; readonly post: FormPost }
  | { readonly ok: false; readonly reason: 'invalid_body' | 'too_many_fields' }

/** Reads the fields of an encoded form; a repeated name becomes a list. */
export function readFormFields(entries: Iterable<readonly [string, string]>): Reading {
  const fields = new Map<string, string | string[]>()
  let values = 0
  for (const [rawName, rawValue] of entries) {
    values += 1
    if (values > maxFormValues) return { ok: false, reason: 'too_many_fields' }
    const [name, value] = [storableText(rawName), storableText(rawValue)]
    const given = fields.get(name)
    if (given === undefined) fields.set(name, value)
    else if (typeof given === 'string') fields.set(name, [given, value])
    else given.push(value)
  }
  return readFields(fields)
}

/** Reads the fields of a parsed JSON document, which must be an object. */
export function readFormJson(value: unknown): Reading {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { ok: false, reason: 'invalid_body' }
  const fields = new Map<string, FieldValue>()
  for (const [name, member] of Object.entries(value)) {
    const field = storableValue(member)
    if (field === undefined) return { ok: false, reason: 'invalid_body' }
    fields.set(storableText(name), field)
  }
  return readFields(fields)
}

function readFields(fields: ReadonlyMap<string, FieldValue>): Reading {
  const content = [...fields].filter(([name]) => !isServiceField(name))
  if (content.length > maxFormFields) return { ok: false, reason: 'too_many_fields' }
  const trapped = [...fields].some(([name, value]) => name.startsWith(trapPrefix) && isFilled(value))
  const requestId = textOf(fields.get('_request_id'))?.trim().toLowerCase()
  return {
    ok: true,
    post: {
      // defines members, so that `__proto__` is a name like any other
      data: Object.fromEntries(content),
      trapped,
      shownAt: timeOf(textOf(fields.get('_submit_time'))),
      requestId: requestId !== undefined && isUuid(requestId) ? requestId : undefined,
      next: textOf(fields.get('_next')),
    },
  }
}

/** The first text of a field; undefined when it has none. */
function textOf(value: FieldValue | undefined): string | undefined {
  const [first] = Array.isArray(value) ? (value as readonly FieldValue[]) : [value]
  if (typeof first === 'number') return String(first)
  return typeof first === 'string' ? first : undefined
}

function timeOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*-?\d{1,16}(?:\.\d{1,16})?\s*$/.test(text) ? Number(text) : undefined
}

function isFilled(value: FieldValue): boolean {
  if (typeof value === 'string') return value.trim() !== ''
  if (Array.isArray(value)) return (value as readonly FieldValue[]).some(isFilled)
  return value !== null && value !== false
}

/** The value of a field as plain text: a list of texts has a line for each. */
export function fieldText(value: FieldValue): string {
  if (value === null) return ''
  if (typeof value !== 'object') return String(value)
  const isListOfTexts = Array.isArray(value) && value.every((item) => typeof item === 'string')
  return isListOfTexts ? value.join('\n') : JSON.stringify(value)
}

/** Undefined when it holds a number that is too large for JSON's usual numbers. The parser bounds the depth. */
function storableValue(value: unknown): FieldValue | undefined {
  if (typeof value === 'string') return storableText(value)
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined
  if (typeof value === 'boolean' || value === null) return value
  if (Array.isArray(value)) {
    const items = value.map(storableValue)
    return items.some((item) => item === undefined) ? undefined : (items as FieldValue[])
  }
  const members = Object.entries(value as object).map(([name, member]) => [storableText(name), storableValue(member)] as const)
  return members.some(([, member]) => member === undefined)
    ? undefined
    : (Object.fromEntries(members) as { [name: string]: FieldValue })
}

/** Whether a post came sooner after its form was shown than people need to fill it in. A time to come is sooner, too. */
export const isTooSoon = ({ shownAt }: Pick<FormPost, 'shownAt'>, now: Date) =>
  shownAt !== undefined && now.getTime() - shownAt < tooSoonMs

/** The User-Agent header as it is stored. */
export const userAgentText = (header: string) => (header === '' ? null : storableText(header.slice(0, maxUserAgentLength)))

/** Where the sites of an installation are served. */
export interface PublicAddress {
  /** The base URL of the platform, whose scheme and port its own hosts have. */
  readonly base: string
  readonly platformDomain: string
  readonly httpsPort: number
}

/** The names at which a site is served. */
export interface ServedNames {
  readonly subdomain: string
  /** Verified custom domains; a wildcard stands for the hosts one label below. */
  readonly domains: readonly string[]
}

/**
 * Whether an Origin header names an origin of the site itself. The platform's own hosts have the scheme and port of the base URL, and over an
 * http base also https; custom domains are reached over both schemes, at the public ports of the platform or at the usual ones.
 */
export function isOwnOrigin(origin: string, { subdomain, domains }: ServedNames, address: PublicAddress): boolean {
  const url = origin.length > maxOriginLength ? null : URL.parse(origin)
  // browsers send the serialised origin; anything that is written differently is not from a page
  if (url?.origin !== origin || url.hostname.includes('*')) return false
  const base = new URL(address.base)
  const place = `${url.protocol}${url.port}`
  const own = [`${base.protocol}${base.port}`, ...(base.protocol === 'http:' ? [securePlace(address)] : [])]
  if (url.hostname === `${subdomain}.${address.platformDomain}`) return own.includes(place)
  const isCustom = domains.some((domain) => domain === url.hostname || domain === wildcardOf(url.hostname))
  return isCustom && [...own, 'http:', 'https:'].includes(place)
}

const maxOriginLength = 300
const securePlace = ({ httpsPort }: PublicAddress) => (httpsPort === 443 ? 'https:' : `https:${httpsPort}`)

/** The address that `_next` names, when it is one of the site's own; a path is taken from the page that sent the form. */
export function nextLocation(next: string, origin: string, isOwn: (origin: string) => boolean): string | undefined {
  if (next.length > maxNextLength || !/^(?:\/|https?:\/\/)/i.test(next)) return undefined
  const url = URL.parse(next, origin)
  if (url === null || url.username !== '' || url.password !== '') return undefined
  return isOwn(url.origin) ? url.href : undefined
}
