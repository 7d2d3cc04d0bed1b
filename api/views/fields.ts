import { z } from 'zod'
import { invalid } from '../../core/errors.ts'
import { maxDescriptionLength, maxNameLength, maxPathBytes, maxTitleLength } from '../../core/limits.ts'
import { maxSeats } from '../../core/members.ts'

/** An instant in responses: RFC 3339 in UTC with milliseconds. */
export const time = z.iso.datetime({ precision: 3 })
export const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** The response of an operation that has nothing to return. */
export const Ok = z.object({ ok: z.literal(true) }).meta({ id: 'Ok' })

/** PostgreSQL's text cannot hold NUL, and half a surrogate pair is not valid Unicode. */
const storable = (text: string) => !text.includes('\u0000') && text.isWellFormed()

/** Text with a limit of code points, as JSON Schema counts; z.max would count halves of surrogate pairs. */
export const text = (maxLength: number) =>
  z
    .string()
    .refine((given) => isWithin(given, maxLength), `must have at most ${maxLength} characters`)
    .refine(storable, 'must be text without NUL characters')
    .meta({ maxLength, pattern: '^[^\\u0000]*$' })

/** Whether the text has at most so many code points. */
const isWithin = (given: string, maxLength: number) =>
  given.length <= maxLength || (given.length <= 2 * maxLength && Array.from(given).length <= maxLength)

/** Text whose length `requireLength` checks, because the specification refuses a longer one with 400, not 422. */
export const boundedText = (maxLength: number) =>
  z.string().refine(storable, 'must be text without NUL characters').meta({ maxLength, pattern: '^[^\\u0000]*$' })

/** @throws AppError `invalid` when the text has more code points */
export function requireLength(name: string, given: string, maxLength: number): void {
  if (!isWithin(given, maxLength)) throw invalid(`${name} has more than ${maxLength} characters`)
}

/** A visible name; `requireVisible` refuses the rest, because an empty name is a 400, not a 422. */
export const name = text(maxNameLength)
  .meta({
    minLength: 1,
    pattern: '^[\\s\\u0001-\\u001f\\u007f-\\u009f\\ufeff]*[^\\s\\u0000-\\u001f\\u007f-\\u009f\\ufeff][^\\u0000]*$',
  })
  .describe('The name that people see.')
/** One line of visible text. */
export const line = (maxLength: number) =>
  z
    .string()
    .regex(new RegExp(`^(?=.*\\S)\\P{Cc}{1,${maxLength}}$`, 'u'), `must be one line of 1 to ${maxLength} characters`)
    .refine((given) => given.isWellFormed(), 'must be text')
    .meta({ minLength: 1, maxLength })

export const description = text(maxDescriptionLength)

/** @throws AppError `invalid` when the name has only spaces and control characters */
export function requireVisible(name: string): void {
  if (!/[^\s\p{Cc}]/u.test(name)) throw invalid('the name is empty; choose one')
}

export const site_id = z.uuid().describe('Id of the site.')
export const deploy_id = z.uuid().describe('Id of the deploy.')

export const activate = z.boolean().default(true).describe('false builds the deploy without publishing it.')
/** The characters of one line; the pattern says so in the OpenAPI document. */
export const oneLine = (schema: z.ZodString, maxLength: number) =>
  schema
    .refine((given) => !/\p{Cc}/u.test(given), 'must be one line without control characters')
    .meta({ maxLength, pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$' })
export const title = oneLine(text(maxTitleLength), maxTitleLength)
  .optional()
  .describe('What the deploy is about, in one line, for lists of deploys.')
/** A refusal by `judgePath` is a 400, not a 422: the pattern covers part of it, for the OpenAPI document. */
export const filePath = z
  .string()
  .meta({ minLength: 1, maxLength: maxPathBytes, pattern: '^[^\\\\\\u0000-\\u001f\\u007f]+$' })
  .describe('Path from the root of the site; each path may occur once.')

export const max_seats = z
  .int()
  .min(1)
  .max(maxSeats)
  .nullable()
  .optional()
  .describe('How many members are let in at most; null removes the limit. Those who are in stay.')

export const isoTime = (date: Date) => date.toISOString()
export const isoTimeOrNull = (date: Date | null) => (date === null ? null : date.toISOString())
