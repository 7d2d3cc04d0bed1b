import { Writable } from 'node:stream'
import { createLogger, type Logger } from '../infra/log.ts'

/** A log of every level whose lines are kept. */
export function keptLog(): { readonly log: Logger; readonly written: string[] } {
  const written: string[] = []
  const sink = new Writable({
    write(chunk, _encoding, done) {
      written.push(String(chunk))
      done()
    },
  })
  return { log: createLogger('test', 'trace', sink), written }
}
