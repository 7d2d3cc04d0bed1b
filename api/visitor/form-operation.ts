import { z } from 'zod'
import type { ZodOpenApiOperationObject, ZodOpenApiResponseObject } from 'zod-openapi'
import type { ErrorCode } from '../../core/errors.ts'
import { formReasons, maxFormBodyBytes } from '../../core/forms.ts'
import { codesOf } from '../http-errors.ts'

// The form endpoint as the documents describe it. It is no operation of the registry: it has no key, and its fields are those of the owner's form.

export const submit_form = {
  id: 'submit_form',
  title: 'Submit a form',
  summary: 'Sends a form of a site, as its visitors do: without a key, from a page of the site.',
  tag: 'Forms',
  method: 'POST',
  path: '/f/{site_id}',
} as const

const description = `${submit_form.summary}

Needs no key. The header \`Origin\` must name the subdomain of the site or one of its verified domains, as browsers send it; scripts of such pages
may read the answer, and \`OPTIONS\` answers their preflight requests with 204. The answer is the same for submissions that are stored, dropped as
spam or repeated. A form has at most 30 fields besides those of the platform, which begin with an underscore; files are ignored.`

const serviceFields = {
  _submit_time: z.union([z.string(), z.number()]).optional().describe('When the form was shown, in milliseconds since 1970.'),
  _request_id: z.string().optional().describe('A UUID. A repeated post with the same one is stored once.'),
  _next: z.string().optional().describe('Where a browser is sent afterwards: a path, or an address of the site.'),
}
const FormJson = z.object(serviceFields).catchall(z.unknown()).meta({ id: 'FormJson' })
const FormFields = z
  .object(serviceFields)
  .catchall(z.union([z.string(), z.array(z.string())]))
  .meta({ id: 'FormFields' })

const bodies = {
  'application/json': { schema: FormJson, example: { name: 'Ada', message: 'It stands.' } },
  'application/x-www-form-urlencoded': { schema: FormFields },
  'multipart/form-data': { schema: FormFields },
}

const pageForBrowsers = { 'text/html': { schema: { type: 'string' as const } } }

function refusal(status: number, text: string): ZodOpenApiResponseObject {
  const reasons = codesOf(status).filter((code) => Object.hasOwn(formReasons, code))
  const codes: ErrorCode[] = reasons.length > 0 ? reasons : codesOf(status)
  const body = z.object({ message: z.string(), reason: z.enum(codes).describe('The same as in the header Plinth-Error.') })
  const mayRepeat = status === 429 || status === 503
  return {
    description: text,
    content: { 'application/json': { schema: body }, ...pageForBrowsers },
    headers: {
      'Plinth-Error': { required: true, description: 'The reason.', schema: { type: 'string', enum: codes } },
      ...(mayRepeat && {
        'Retry-After': {
          required: true,
          description: 'Seconds after which the post may succeed.',
          schema: { type: 'integer', minimum: 0 },
        },
      }),
    },
  }
}

export const submitFormObject: ZodOpenApiOperationObject = {
  operationId: submit_form.id,
  summary: submit_form.title,
  description,
  tags: [submit_form.tag],
  security: [],
  requestParams: {
    path: z.object({ site_id: z.uuid().describe('Id of the site.') }),
    header: z.object({ Origin: z.string().describe('The origin of the page with the form.') }),
  },
  requestBody: { required: true, description: `At most ${maxFormBodyBytes} bytes.`, content: bodies },
  responses: {
    200: {
      description: 'Done. A page for browsers when Accept prefers HTML.',
      content: { 'application/json': { schema: z.object({ ok: z.literal(true) }) }, ...pageForBrowsers },
    },
    303: {
      description: 'Done. The browser is sent to the page that `_next` names.',
      headers: { Location: { required: true, description: 'An address of the site.', schema: { type: 'string' } } },
    },
    400: refusal(400, 'The body does not parse, or has too many fields.'),
    402: refusal(402, 'The plan has no room for more, or the project is suspended.'),
    403: refusal(403, 'The page that posts is not of the site.'),
    404: refusal(404, 'There is no such site, or it is in the trash.'),
    413: refusal(413, 'The body is too large.'),
    415: refusal(415, 'The media type, charset or encoding is another one.'),
    429: refusal(429, 'Too many posts in a minute.'),
    500: refusal(500, 'An internal error of the platform.'),
    503: refusal(503, 'A part of the platform does not answer; try again later.'),
  },
}
