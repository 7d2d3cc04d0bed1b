import { StringDecoder } from 'node:string_decoder'
import { createLineMasker, createMasker } from '../core/masking.ts'
import { createLogLines } from './log-lines.ts'

/** How much of the log explains a failure. */
export const recentLength = 64 * 1024

/** The end of an output, after `dropped` bytes that were left out before it. */
export interface LogEnd {
  readonly bytes: Uint8Array
  readonly dropped: number
}

/**
 * The output of a build as people may read it: text without terminal sequences, control characters and secrets. Each function answers what
 * is to be added to the log.
 */
export function createLogText(secrets: readonly string[]) {
  const masker = createMasker(secrets)
  const lines = createLogLines(createLineMasker(masker), add)
  const decoder = new StringDecoder('utf8')
  let added = ''
  let recent = ''

  function add(text: string): void {
    added += text
    recent += text
    if (recent.length > 2 * recentLength) recent = recent.slice(-recentLength)
  }

  function taken(): string {
    const text = added
    added = ''
    return text
  }

  return {
    /** Masks another text than that of the log. */
    mask: masker.mask,
    /** @param bytes cut anywhere, at most 64 KiB */
    push(bytes: Uint8Array): string {
      lines.push(decoder.write(Buffer.from(bytes)))
      return taken()
    },
    /** The line that has not ended, as far as it goes. */
    show(): string {
      lines.show()
      return taken()
    },
    close({ bytes, dropped }: LogEnd): string {
      const end = Buffer.from(bytes)
      if (dropped > 0) {
        if (lines.isOpen()) lines.push('\n')
        lines.push(`… ${dropped} bytes left out …\n${end.toString('utf8')}`)
      } else {
        lines.push(decoder.write(end) + decoder.end())
      }
      if (lines.isOpen()) lines.push('\n')
      return taken()
    },
    /**
     * The last 64 thousand characters of the log, or fewer.
     * @param rest what follows what was pushed
     */
    recent(rest: Uint8Array): string {
      let end = ''
      const last = createLogLines(createLineMasker(masker), (text) => {
        end += text
      })
      last.push(Buffer.from(rest).toString('utf8'))
      return `${recent}${lines.open()}${end}${last.open()}`.slice(-recentLength)
    },
  }
}
export type LogText = ReturnType<typeof createLogText>
