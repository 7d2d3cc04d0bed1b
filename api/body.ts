import { randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, readFile, rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import getRawBody from 'raw-body'
import { AppError, invalid } from '../core/errors.ts'
import { cutLongTexts, type LongTexts } from './long-texts.ts'

const mediaTypeOf = (request: IncomingMessage) =>
  (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''

export function announcedBytes(request: IncomingMessage): number | undefined {
  const length = request.headers['content-length']
  return length === undefined ? undefined : Number(length)
}

/** Whether the request has a body at all. */
const hasBody = (request: IncomingMessage) =>
  request.headers['transfer-encoding'] !== undefined || (announcedBytes(request) ?? 0) > 0

const unsupported = (message: string) => new AppError('unsupported_media_type', message)

/** @throws AppError `unsupported_media_type` naming what is accepted */
export function requireMediaType(request: IncomingMessage, accepted: readonly string[]): void {
  if (!accepted.includes(mediaTypeOf(request))) throw unsupported(`send this request with Content-Type: ${accepted.join(' or ')}`)
  const encoding = request.headers['content-encoding']?.trim().toLowerCase()
  if (encoding !== undefined && encoding !== '' && encoding !== 'identity') {
    throw unsupported('send the body without Content-Encoding; it is taken as it is')
  }
}

/** @throws AppError `unsupported_media_type` unless it is JSON in UTF-8, as RFC 8259 has it */
function requireJson(request: IncomingMessage): void {
  requireMediaType(request, ['application/json'])
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(request.headers['content-type'] ?? '')?.[1]
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) throw unsupported(`send JSON in UTF-8, not in ${charset}`)
}

const tooLarge = (maxBytes: number) => new AppError('too_large', `the body is larger than ${maxBytes} bytes`)
const aborted = () => invalid('the body ended before its announced length')

/**
 * The bytes of a body that somebody else limits. Reading less than all of it leaves the connection usable for the answer,
 * which a pipeline on the request itself would not.
 */
export function bodyStream(request: IncomingMessage): Readable {
  return Readable.from(request.iterator({ destroyOnReturn: false }), { objectMode: false })
}

/** A JSON body as text, in memory. @throws AppError `unsupported_media_type`, `too_large`, `invalid` */
export async function readJson(request: IncomingMessage, maxBytes: number): Promise<unknown> {
  requireJson(request)
  try {
    return parseJson(await getRawBody(request, { limit: maxBytes, length: request.headers['content-length'] ?? null }))
  } catch (error) {
    const type = (error as { type?: string }).type
    if (type === 'entity.too.large') throw tooLarge(maxBytes)
    if (type === 'request.aborted' || type === 'request.size.invalid') throw aborted()
    throw error
  }
}

/** Refuses a body where an operation takes none, unless it is JSON, which is ignored. */
export function refuseOtherBodies(request: IncomingMessage): void {
  if (hasBody(request)) requireJson(request)
}

/**
 * Receives a large JSON body into a file. Parse it, as a whole or without its long strings, when it is its turn; dispose it in any case.
 * @throws AppError `unsupported_media_type`, `too_large`
 */
export async function spoolJson(request: IncomingMessage, maxBytes: number, dir: string) {
  requireJson(request)
  if ((announcedBytes(request) ?? 0) > maxBytes) throw tooLarge(maxBytes)
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const file = join(dir, randomUUID())
  const remove = () => rm(file, { force: true })
  try {
    await pipeline(limited(request, maxBytes), createWriteStream(file, { flags: 'wx', mode: 0o600 }))
  } catch (error) {
    await remove()
    if (request.errored || !request.complete) throw error instanceof AppError ? error : aborted()
    throw error
  }
  return {
    parse: async () => parseJson(await readFile(file)),
    parseShort: () => parseShort(file),
    [Symbol.asyncDispose]: remove,
  }
}

/** The value of a JSON document in a file; its long strings stay there, and are valid. @throws AppError `invalid` */
async function parseShort(file: string): Promise<{ value: unknown; texts: LongTexts }> {
  const { json, texts } = await cutLongTexts(file)
  const value = parseJson(json)
  for (const text of texts.values()) for await (const _piece of text.pieces());
  return { value, texts }
}

async function* limited(request: IncomingMessage, maxBytes: number): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const chunk of bodyStream(request) as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) throw tooLarge(maxBytes)
    yield chunk
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** @throws AppError `invalid` saying where it stops being JSON in UTF-8 */
function parseJson(bytes: Uint8Array): unknown {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    throw invalid('the body is not valid UTF-8')
  }
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    throw invalid(
      text.trim() === '' ? 'the body is empty; send a JSON object' : `the body is not valid JSON: ${(error as Error).message}`,
    )
  }
}
