import { pino } from 'pino'

/** One JSON line per request and per state change. Levels and names only: no secrets, no bodies. */
export function createLogger(process: string, level: string) {
  return pino({ level, base: { process }, timestamp: pino.stdTimeFunctions.isoTime })
}
export type Logger = ReturnType<typeof createLogger>
