import { types } from 'node:util'
import { makeTelemetryFilterString, Runtime } from '@temporalio/worker'
import { maskSecrets } from '../../core/masking.ts'
import type { Logger } from '../log.ts'

/** Routes the SDK's own log lines through ours and leaves signals to the mains; once per process, before the first worker. */
export function installRuntime(log: Logger): void {
  const write = createSdkWriter(log)
  Runtime.install({
    shutdownSignals: [],
    // without forwarding the native part writes lines of its own form
    telemetryOptions: { logging: { forward: {}, filter: makeTelemetryFilterString({ core: 'WARN', other: 'ERROR' }) } },
    logger: {
      log: write,
      trace: (message, meta) => write('TRACE', message, meta),
      debug: (message, meta) => write('DEBUG', message, meta),
      info: (message, meta) => write('INFO', message, meta),
      warn: (message, meta) => write('WARN', message, meta),
      error: (message, meta) => write('ERROR', message, meta),
    },
  })
}

const levels = { TRACE: 'debug', DEBUG: 'debug', INFO: 'debug', WARN: 'warn', ERROR: 'error' } as const

/** Writes a log line of the SDK to ours. The SDK passes errors as `error`, of which pino alone would write nothing but `{}`. */
export const createSdkWriter =
  (log: Logger) =>
  (level: keyof typeof levels, message: string, meta: Readonly<Record<string, unknown>> = {}): void => {
    const { error } = meta
    log[levels[level]](types.isNativeError(error) ? { ...meta, error: describe(error) } : meta, message)
  }

const maxMessageLength = 2000
const maxStackLength = 4000
const maxCauses = 5

/** What is logged of an error: neither its other members, in which PostgreSQL repeats the values of rows, nor what looks like a secret. */
function describe(error: Error) {
  const messages: string[] = []
  // a failed workflow names the activity only; why that has failed is its cause
  for (let one: unknown = error; types.isNativeError(one) && messages.length <= maxCauses; one = one.cause) {
    messages.push(one.message.slice(0, maxMessageLength))
  }
  return {
    type: error.name,
    message: maskSecrets(messages.join(': ')),
    stack: maskSecrets(error.stack?.slice(0, maxStackLength) ?? ''),
  }
}
