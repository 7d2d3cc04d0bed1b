import type { z } from 'zod'

const shownValues = 20
const shownLength = 100

/** What a member must be, by the type that its schema expects. */
const types: Readonly<Record<string, string>> = {
  string: 'must be a text',
  number: 'must be a number',
  int: 'must be a whole number',
  boolean: 'must be true or false',
  array: 'must be a list',
  object: 'must be an object',
  record: 'must be an object',
  null: 'must be null',
}

const formats: Readonly<Record<string, string>> = {
  uuid: 'must be an id in the form of a UUID',
  email: 'must be an email address',
  url: 'must be a URL',
  date: 'must be a date such as 2026-09-07',
  datetime: 'must be an instant such as 2026-09-07T12:00:00.000Z',
  base64: 'must be base64',
}

/** What limits are in, by the origin of the value. */
const units: Readonly<Record<string, readonly [one: string, many: string]>> = {
  string: ['character', 'characters'],
  array: ['entry', 'entries'],
}

/**
 * The text for a value that a schema refuses, to be read after the name of the member: `must be true or false`. It never repeats the value. A
 * schema's own text takes precedence over it.
 */
export const schemaText: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case 'invalid_type':
      return types[issue.expected] ?? `must be a ${issue.expected}`
    case 'invalid_value':
      return oneOf(issue.values)
    case 'too_small':
      return limit('at least', issue.minimum, issue.origin)
    case 'too_big':
      return limit('at most', issue.maximum, issue.origin)
    case 'invalid_format':
      return formats[issue.format] ?? (issue.pattern ? `must match ${issue.pattern.slice(0, shownLength)}` : 'has the wrong form')
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`
    case 'unrecognized_keys':
      return 'has members that are not known'
    case 'custom':
    case 'invalid_element':
    case 'invalid_key':
    case 'invalid_union':
      break
  }
  return 'does not have one of the accepted forms'
}

function oneOf(values: readonly unknown[]): string {
  const shown = values.slice(0, shownValues).map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
  return values.length === 1 ? `must be ${shown[0]}` : `must be one of ${shown.join(', ')}`
}

function limit(bound: 'at least' | 'at most', amount: number | bigint, origin: string): string {
  const unit = units[origin]
  return unit ? `must have ${bound} ${amount} ${unit[Number(amount) === 1 ? 0 : 1]}` : `must be ${bound} ${amount}`
}
