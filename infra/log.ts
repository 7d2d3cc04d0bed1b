import { types } from 'node:util'
import { type DestinationStream, pino } from 'pino'
import { maskSecrets } from '../core/masking.ts'

/** One JSON line per request and per state change. Levels and names only: no secrets, no bodies. @param to the standard output, when absent */
export function createLogger(process: string, level: string, to?: DestinationStream) {
  const serializers = { err: describeError, error: describeError }
  return pino({ level, base: { process }, timestamp: pino.stdTimeFunctions.isoTime, serializers }, to)
}
export type Logger = ReturnType<typeof createLogger>

const maxMessageLength = 2000
const maxStackLength = 4000
const maxCauses = 5

/** What is logged of an error: neither its other members, in which PostgreSQL repeats the values of rows, nor what looks like a secret. */
function describeError(error: unknown): unknown {
  if (!types.isNativeError(error)) return error
  const messages: string[] = []
  // a failed workflow names the activity only; why that has failed is its cause
  for (let one: unknown = error; types.isNativeError(one) && messages.length <= maxCauses; one = one.cause) {
    messages.push(one.message.slice(0, maxMessageLength))
  }
  return {
    type: error.name,
    code: (error as NodeJS.ErrnoException).code,
    message: maskSecrets(messages.join(': ')),
    stack: maskSecrets(error.stack?.slice(0, maxStackLength) ?? ''),
  }
}
