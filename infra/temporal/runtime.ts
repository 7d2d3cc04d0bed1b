import { makeTelemetryFilterString, Runtime } from '@temporalio/worker'
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

/** Writes a log line of the SDK to ours, without the token with which anybody could complete the task. */
export const createSdkWriter =
  (log: Logger) =>
  (level: keyof typeof levels, message: string, meta: Readonly<Record<string, unknown>> = {}): void =>
    log[levels[level]]({ ...meta, taskToken: undefined }, message)
