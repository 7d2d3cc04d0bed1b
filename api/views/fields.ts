import { z } from 'zod'
import { invalid } from '../../core/errors.ts'
import { maxDescriptionLength, maxNameLength, maxPathBytes } from '../../core/limits.ts'

/** An instant as callers see it: RFC 3339 in UTC with milliseconds. */
export const time = z.iso.datetime({ precision: 3 })
export const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** The answer of an operation that has nothing else to tell. */
export const Ok = z.object({ ok: z.literal(true) }).meta({ id: 'Ok' })

/** PostgreSQL's text has no NUL, and half a surrogate pair is no text. */
const storable = (text: string) => !text.includes('\u0000') && text.isWellFormed()

/** Text of at most so many code points, as JSON Schema counts them; z.max would count halves of surrogate pairs. */
function text(maxLength: number) {
  const fitting = new RegExp(`^.{0,${maxLength}}$`, 'su')
  return z
    .string()
    .refine((given) => fitting.test(given), `must have at most ${maxLength} characters`)
    .refine(storable, 'must be text without NUL characters')
    .meta({ maxLength, pattern: '^[^\\u0000]*$' })
}

/** Text that shows something; `requireVisible` refuses the rest, because an empty name is a 400 and not a 422. */
export const name = text(maxNameLength)
  .meta({
    minLength: 1,
    pattern: '^[\\s\\u0001-\\u001f\\u007f-\\u009f\\ufeff]*[^\\s\\u0000-\\u001f\\u007f-\\u009f\\ufeff][^\\u0000]*$',
  })
  .describe('What people call it.')
export const description = text(maxDescriptionLength)

/** @throws AppError `invalid` when the name is nothing but spaces and control characters */
export function requireVisible(name: string): void {
  if (!/[^\s\p{Cc}]/u.test(name)) throw invalid('the name is empty; choose one')
}

export const site_id = z.uuid().describe('Id of the site.')
export const deploy_id = z.uuid().describe('Id of the deploy.')

export const activate = z.boolean().default(true).describe('false builds without publishing.')
/** What `judgePath` refuses is a 400 and not a 422: the pattern is a part of it, for the documents. */
export const filePath = z
  .string()
  .meta({ minLength: 1, maxLength: maxPathBytes, pattern: '^[^\\\\\\u0000-\\u001f\\u007f]+$' })
  .describe('Path from the root of the site; no two alike.')

export const isoTime = (date: Date) => date.toISOString()
export const isoTimeOrNull = (date: Date | null) => (date === null ? null : date.toISOString())
