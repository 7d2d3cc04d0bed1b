import { randomUUID } from 'node:crypto'
import { open } from 'node:fs/promises'
import { invalid } from '../core/errors.ts'

/** A longer string stays in the file. Nothing but a file's content may be that long: a path of 1,024 bytes takes 6 KB at most. */
const longBytes = 8 * 1024
const chunkBytes = 64 * 1024
const quote = 0x22
const backslash = 0x5c

/** A string of a JSON document, in a file; may be read many times. */
export interface LongText {
  /** In pieces that are well-formed if the whole is. @throws AppError `invalid` when it is no JSON string */
  pieces(): AsyncGenerator<string>
}

/** The long strings of a document by the marks that stand for them; what is no mark is undefined. */
export type LongTexts = ReadonlyMap<string, LongText>

export interface CutDocument {
  /** The document with marks instead of its long strings. */
  readonly json: Buffer
  readonly texts: LongTexts
}

/**
 * Reads a JSON document from a file without its long strings, so that the memory it takes does not grow with them. A mark is a string that
 * nobody can guess, and no path.
 */
export async function cutLongTexts(path: string): Promise<CutDocument> {
  const parts: Buffer[] = []
  const texts = new Map<string, LongText>()
  const secret = randomUUID()
  let offset = 0
  let string: { readonly start: number; held: Buffer[]; heldBytes: number } | undefined
  let escaped = false

  /** Takes bytes of the open string; those of a long one are not kept. */
  function hold(bytes: Buffer): void {
    if (!string) return
    string.heldBytes += bytes.length
    // copies, as a slice would keep its whole chunk in memory
    if (string.heldBytes <= longBytes) string.held.push(Buffer.from(bytes))
    else string.held = []
  }

  function close(end: number): void {
    if (!string) return
    if (string.heldBytes <= longBytes) parts.push(...string.held)
    else {
      const mark = `\\u0001${secret}:${texts.size}`
      parts.push(Buffer.from(mark))
      texts.set(JSON.parse(`"${mark}"`) as string, longText(path, string.start, end))
    }
    string = undefined
  }

  for await (const chunk of chunksOf(path, 0, Number.POSITIVE_INFINITY)) {
    let at = 0
    while (at < chunk.length) {
      if (!string) {
        const opening = chunk.indexOf(quote, at)
        const next = opening === -1 ? chunk.length : opening + 1
        parts.push(Buffer.from(chunk.subarray(at, next)))
        if (opening !== -1) string = { start: offset + next, held: [], heldBytes: 0 }
        at = next
        continue
      }
      const closing = endOfString(chunk, at, escaped)
      const end = Math.min(closing.at, chunk.length)
      hold(chunk.subarray(at, end))
      escaped = closing.escaped
      // the quote itself is read as a part of what follows
      if (end < chunk.length) {
        close(offset + end)
        parts.push(Buffer.from('"'))
      }
      at = end + 1
    }
    offset += chunk.length
  }
  // a string without an end is no JSON; what is there is left for the parser to say so
  if (string) parts.push(...string.held)
  return { json: Buffer.concat(parts), texts }
}

/**
 * Bytes `start` to before `end`. Each chunk is good until the next is asked for: memory outside of the heap is given back late, and a read
 * stream takes new memory for every chunk.
 */
async function* chunksOf(path: string, start: number, end: number): AsyncGenerator<Buffer> {
  await using file = await open(path)
  const buffer = Buffer.allocUnsafe(chunkBytes)
  for (let at = start; at < end; ) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(chunkBytes, end - at), at)
    if (bytesRead === 0) return
    yield buffer.subarray(0, bytesRead)
    at += bytesRead
  }
}

/** Where the string ends in the chunk, its length when it does not, and whether the last byte escapes the first of the next chunk. */
function endOfString(chunk: Buffer, from: number, escaped: boolean): { at: number; escaped: boolean } {
  let at = escaped ? from + 1 : from
  let end = chunk.indexOf(quote, at)
  for (;;) {
    if (end === -1) end = chunk.length
    const slash = chunk.indexOf(backslash, at)
    if (slash === -1 || slash > end) return { at: end, escaped: false }
    at = slash + 2
    if (at > chunk.length) return { at: chunk.length, escaped: true }
    if (end < at) end = chunk.indexOf(quote, at)
  }
}

function longText(path: string, start: number, end: number): LongText {
  return {
    async *pieces() {
      const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
      let rest = ''
      for await (const chunk of chunksOf(path, start, end)) {
        const text = rest + decode(utf8, chunk)
        const cut = completeLength(text)
        rest = text.slice(cut)
        yield unescaped(text.slice(0, cut))
      }
      yield unescaped(rest + decode(utf8))
    },
  }
}

function decode(utf8: InstanceType<typeof TextDecoder>, chunk?: Buffer): string {
  try {
    return utf8.decode(chunk, { stream: chunk !== undefined })
  } catch {
    throw invalid('the body is not valid UTF-8')
  }
}

function unescaped(text: string): string {
  try {
    return JSON.parse(`"${text}"`) as string
  } catch (error) {
    throw invalid(`the body is not valid JSON: ${(error as Error).message}`)
  }
}

/** How much of the text can be read alone: an escape, and a pair of escapes that is one character, is not torn apart. */
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
