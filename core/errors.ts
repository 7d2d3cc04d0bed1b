/** What went wrong, in the caller's terms. The HTTP status of each kind exists once: `api/http-errors.ts`. */
export type ErrorKind =
  | 'invalid'
  | 'unauthorized'
  | 'payment_required'
  | 'forbidden'
  | 'not_found'
  | 'method_not_allowed'
  | 'conflict'
  | 'too_large'
  | 'unsupported_media_type'
  | 'unprocessable'
  | 'too_many_requests'
  | 'unavailable'

interface CodeMeaning {
  /** The kinds of errors that have the code; none for internal faults. */
  readonly kinds: readonly ErrorKind[]
  readonly meaning: string
}

const code = <const Kinds extends readonly ErrorKind[]>(kinds: Kinds, meaning: string) => ({ kinds, meaning })

/**
 * Every code that a response may have in its header `Plinth-Error`. Programs depend on them: a code keeps its meaning, and new ones may follow.
 * An error without a code of its own has the name of its kind.
 */
export const errorCodes = {
  invalid: code(['invalid'], 'A member is missing or has a value that is not accepted.'),
  invalid_body: code(['invalid'], 'The body of a form does not parse under its media type.'),
  too_many_fields: code(['invalid'], 'The form has more than 30 fields.'),
  invalid_json: code(['invalid'], 'The body is not JSON, or is nested too deeply or has too many values.'),
  invalid_archive: code(['invalid'], 'The body is not an archive that can be deployed.'),
  missing_blobs: code(['invalid'], 'The project lacks blobs of the manifest; the body lists them.'),
  confirmation_required: code(['invalid'], 'The operation asks for confirm: true.'),
  plan_short_subdomain: code(['invalid', 'payment_required'], 'Subdomains this short need a higher plan.'),
  unauthorized: code(['unauthorized'], 'The key or token is missing, unknown or revoked.'),
  payment_required: code(['payment_required'], 'The plan does not allow the request.'),
  plan_autoreply: code(['payment_required'], 'Auto-replies need a higher plan.'),
  plan_email_access: code(['payment_required'], 'Login by emailed codes needs a higher plan, or the option of the site.'),
  plan_members_access: code(['payment_required'], 'Closing a site to all but its members needs a higher plan.'),
  plan_paid_access: code(['payment_required'], 'Closing a site to all but paying members needs a higher plan.'),
  plan_password_access: code(['payment_required'], 'Closing a site with a password needs a higher plan.'),
  plan_permanent_links: code(['payment_required'], 'Permanent links need a higher plan.'),
  plan_previews: code(['payment_required'], 'Previews need a higher plan.'),
  plan_subscribers_access: code(['payment_required'], 'Closing a site to all but subscribers needs a higher plan.'),
  quota_exhausted: code(
    ['payment_required'],
    'The form submissions of the plan are used up, and so is the room for hidden ones.',
  ),
  suspended: code(['payment_required'], 'The project is suspended.'),
  forbidden: code(['forbidden'], 'The request is not allowed from here.'),
  origin_required: code(['forbidden'], 'A form was posted without the header Origin.'),
  origin_not_allowed: code(['forbidden'], 'A form was posted from a page that is not of its site.'),
  scope_too_low: code(['forbidden'], 'The key has a lower scope than the operation needs.'),
  not_found: code(['not_found'], 'The project has no such object, or there is no such path.'),
  site_not_found: code(['not_found'], 'The endpoint of a form names no site, or one in the trash.'),
  method_not_allowed: code(
    ['method_not_allowed'],
    'The path does not take the method; the header Allow lists those that it takes.',
  ),
  conflict: code(['conflict'], 'The request conflicts with the current state.'),
  quota_sites: code(['payment_required', 'conflict'], 'The project has as many sites as its plan allows.'),
  quota_domains: code(['conflict'], 'The project has as many domains as its plan allows.'),
  quota_storage: code(['conflict'], 'The content does not fit the storage of the plan.'),
  quota_names: code(
    ['conflict'],
    'The project holds as many names as its plan allows, including those of deleted sites or domains.',
  ),
  quota_access_emails: code(['conflict'], 'The site lists as many addresses as it may.'),
  quota_webhooks: code(['conflict'], 'The project has as many webhooks as it may have.'),
  seats_taken: code(['conflict'], 'The site has no seat left for a member.'),
  member_status: code(['conflict'], 'The status of the member does not allow the action.'),
  name_taken: code(['conflict'], 'The subdomain belongs to another site.'),
  name_reserved: code(['conflict'], 'The subdomain is reserved for the platform.'),
  provider_missing: code(['conflict'], 'The operator has not configured the payment provider.'),
  domain_taken: code(['conflict'], 'The domain is attached to a site already.'),
  in_trash: code(['conflict'], 'The site is in the trash.'),
  wrong_status: code(['conflict'], 'The status of the deploy does not allow the request.'),
  source_gone: code(['conflict'], 'The source of the deploy is not kept any more.'),
  files_deleted: code(['conflict'], 'The files of the deploy were deleted.'),
  webhook_disabled: code(['conflict'], 'The webhook is disabled.'),
  not_connected: code(['conflict'], 'No repository is connected to the site.'),
  too_large: code(['too_large'], 'The body is too large.'),
  body_too_large: code(['too_large'], 'The body of a form is larger than 50 KB.'),
  unsupported_media_type: code(['unsupported_media_type'], 'The media type, charset or encoding of the body is not accepted.'),
  unsupported_content_type: code(['unsupported_media_type'], 'The body of a form has another media type, charset or encoding.'),
  unprocessable: code(['unprocessable'], 'A member does not match the schema.'),
  too_many_requests: code(['too_many_requests'], 'There were too many requests.'),
  rate_limited: code(['too_many_requests'], 'The site or the address of the sender has posted too many forms in a minute.'),
  quota_build_minutes: code(['too_many_requests'], 'The build minutes of the month are used up.'),
  rate_deploys: code(['too_many_requests'], 'The project has deployed as often in an hour as its plan allows.'),
  rate_domains: code(['too_many_requests'], 'The project has added too many domains in an hour.'),
  rate_look_ups: code(['too_many_requests'], 'The domain, or too many of the project, were looked up moments ago.'),
  rate_subdomain_changes: code(['too_many_requests'], 'The site has cancelled too many changes of its subdomain.'),
  rate_redeliveries: code(['too_many_requests'], 'The project has repeated too many deliveries of webhooks in an hour.'),
  rate_requests: code(['too_many_requests'], 'The project has too many requests under way.'),
  unavailable: code(['unavailable'], 'A part of the platform does not answer.'),
  busy: code(['unavailable'], 'The server has too much to do.'),
  request_timeout: code([], 'The body arrived too slowly or broke off.'),
  internal_error: code([], 'An internal error of the platform.'),
} as const satisfies Record<ErrorKind, CodeMeaning> & Record<string, CodeMeaning>

export type ErrorCode = keyof typeof errorCodes

/** The codes that errors of the kind may have. */
export type CodeOf<Kind extends ErrorKind> = {
  [Code in ErrorCode]: Kind extends (typeof errorCodes)[Code]['kinds'][number] ? Code : never
}[ErrorCode]

export interface ErrorDetails {
  /** The name of the kind when absent. */
  readonly code?: ErrorCode | undefined
  /** Seconds after which the same request may succeed; becomes `Retry-After`. */
  readonly retryAfterSeconds?: number
  /** Methods that the path allows; becomes `Allow`. */
  readonly allow?: readonly string[]
  /** Hashes of the blobs that a manifest deploy lacks; makes the body `{error, missing}`. */
  readonly missing?: readonly string[]
}

/** The only error whose message a caller sees. The message says what is wrong and what to do. */
export class AppError extends Error {
  override readonly name = 'AppError'
  readonly kind: ErrorKind
  readonly code: ErrorCode
  readonly details: ErrorDetails

  constructor(kind: ErrorKind, message: string, details: ErrorDetails = {}) {
    super(message)
    this.kind = kind
    this.code = details.code ?? kind
    this.details = details
  }
}

export const invalid = (message: string, code?: CodeOf<'invalid'>) => new AppError('invalid', message, { code })
export const notFound = (message: string) => new AppError('not_found', message)
export const conflict = (message: string, code?: CodeOf<'conflict'>) => new AppError('conflict', message, { code })
export const paymentRequired = (message: string, code?: CodeOf<'payment_required'>) =>
  new AppError('payment_required', message, { code })
export const unprocessable = (message: string) => new AppError('unprocessable', message)
export const tooManyRequests = (message: string, retryAfterSeconds: number, code?: CodeOf<'too_many_requests'>) =>
  new AppError('too_many_requests', message, { retryAfterSeconds, code })
export const unavailable = (message: string, retryAfterSeconds = 5, code?: CodeOf<'unavailable'>) =>
  new AppError('unavailable', message, { retryAfterSeconds, code })

/** Milliseconds as `retryAfterSeconds`: whole seconds, at least one. */
export const secondsUntil = (instant: Date, now: Date) => Math.max(1, Math.ceil((instant.getTime() - now.getTime()) / 1000))
