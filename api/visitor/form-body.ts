import type { IncomingMessage } from 'node:http'
import { maxFormBodyBytes, maxFormValues, type Reading, readFormFields, readFormJson } from '../../core/forms.ts'
import { formRefusal } from '../../services/forms/refusals.ts'
import { charsetOf, isEncoded, mediaTypeOf } from '../body.ts'
import { parseBoundedJson } from '../json-body.ts'
import type { JsonBounds } from '../json-scanner.ts'

const bounds: JsonBounds = {
  maxBytes: maxFormBodyBytes,
  maxKeptBytes: maxFormBodyBytes,
  maxValues: maxFormValues,
  longMembers: new Set(),
}

/** How a body of each media type is read. */
const readers = {
  'application/json': (body: Buffer) => readFormJson(parseBoundedJson(body, bounds)),
  // the first question mark is not part of the form, but any other is
  'application/x-www-form-urlencoded': (body: Buffer) => readFormFields(new URLSearchParams(`?${utf8.decode(body)}`)),
  'multipart/form-data': readMultipart,
} as const satisfies Record<string, (body: Buffer, contentType: string) => Reading | Promise<Reading>>
export type FormMediaType = keyof typeof readers

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** @throws AppError `unsupported_content_type` for another media type, a charset besides UTF-8, or a compressed body */
export function requireFormMediaType(request: IncomingMessage): FormMediaType {
  const type = mediaTypeOf(request)
  if (!Object.hasOwn(readers, type)) throw unsupported(`send the form as ${Object.keys(readers).join(', ')}`)
  const charset = charsetOf(request)
  if (charset !== undefined && !/^(?:utf-?8|us-ascii)$/i.test(charset)) throw unsupported('send the form in UTF-8')
  if (isEncoded(request)) throw unsupported('send the form without Content-Encoding')
  return type as FormMediaType
}

const unsupported = (message: string) => formRefusal('unsupported_content_type', message)

/** A body without fields for the platform's own use; files are ignored. @throws any error when it does not parse */
export async function readFormBody(body: Buffer, type: FormMediaType, contentType: string): Promise<Reading> {
  return await readers[type](body, contentType)
}

async function readMultipart(body: Buffer, contentType: string): Promise<Reading> {
  const form = await new Response(new Uint8Array(body), { headers: { 'content-type': contentType } }).formData()
  return readFormFields(textsOf(form))
}

function* textsOf(form: FormData): Generator<[string, string]> {
  for (const [name, value] of form) if (typeof value === 'string') yield [name, value]
}
