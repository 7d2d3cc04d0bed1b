import type { FileHandle } from 'node:fs/promises'
import { invalid } from '../core/errors.ts'
import type { SpilledString } from './json-scanner.ts'

const readBytes = 64 * 1024
/** Each concurrent request holds a piece; pieces are small, because those that survive a minor garbage collection stay for long. */
const pieceBytes = 16 * 1024

/** A long string of a JSON document, kept in a file; it may be read many times. */
export interface LongText {
  /** Yields the string in pieces, each well-formed if the whole is. @throws AppError `invalid` when it is no JSON string */
  pieces(): AsyncGenerator<string>
}

/** The long strings of a document by the marks that replace them; other texts have no entry. */
export type LongTexts = ReadonlyMap<string, LongText>

/** @param string its range of bytes in the file, escaped as in the document */
export function longText(file: FileHandle, { start, end }: SpilledString): LongText {
  return {
    async *pieces() {
      const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
      let rest = ''
      for await (const chunk of chunksOf(file, start, end)) {
        const text = rest + decode(utf8, chunk)
        const cut = completeLength(text)
        rest = text.slice(cut)
        yield unescaped(text.slice(0, cut))
      }
      yield unescaped(rest + decode(utf8))
    },
  }
}

/**
 * Yields the bytes from `start` up to `end`. Each chunk is valid until the next one is requested: a read stream would allocate memory for
 * every chunk, and memory outside of the heap is freed late.
 */
async function* chunksOf(file: FileHandle, start: number, end: number): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafe(Math.min(readBytes, end - start))
  for (let at = start; at < end; ) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, end - at), at)
    if (bytesRead === 0) throw new Error(`the spooled body ends at byte ${at}, before ${end}`)
    for (let from = 0; from < bytesRead; from += pieceBytes) yield buffer.subarray(from, Math.min(from + pieceBytes, bytesRead))
    at += bytesRead
  }
}

function decode(utf8: InstanceType<typeof TextDecoder>, chunk?: Buffer): string {
  try {
    return utf8.decode(chunk, { stream: chunk !== undefined })
  } catch {
    throw invalid('the body is not valid UTF-8', 'invalid_json')
  }
}

function unescaped(text: string): string {
  try {
    return JSON.parse(`"${text}"`) as string
  } catch (error) {
    throw invalid(`the body is not valid JSON: ${(error as Error).message}`, 'invalid_json')
  }
}

/** How much of the text can be decoded alone, without splitting an escape or a pair of escapes for one character. */
function completeLength(text: string): number {
  const last = text.lastIndexOf('\\')
  if (last === -1 || last < text.length - 6 || !startsEscape(text, last)) return text.length
  const isComplete = text[last + 1] === 'u' ? last + 6 <= text.length : last + 2 <= text.length
  const isHalf = (at: number) => /^\\u[dD][89abAB]/.test(text.slice(at, at + 6)) && startsEscape(text, at)
  if (isComplete && !isHalf(last)) return text.length
  return isHalf(last - 6) ? last - 6 : last
}

/** Whether the backslash begins an escape and is not itself escaped. */
function startsEscape(text: string, at: number): boolean {
  let run = 0
  while (text[at - run] === '\\') run += 1
  return run % 2 === 1
}
