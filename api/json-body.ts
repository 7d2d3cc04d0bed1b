import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { invalid, unavailable } from '../core/errors.ts'
import type { Admitted } from './admission.ts'
import { arriving, requireJson } from './body.ts'
import { createJsonScanner, type JsonBounds } from './json-scanner.ts'
import { type LongText, type LongTexts, longText } from './long-texts.ts'

/** A parsed JSON document. Dispose it when its long strings are no longer needed. */
export interface JsonBody extends AsyncDisposable {
  readonly value: unknown
  /** The size of the document as it arrived. */
  readonly bytes: number
  /** The long strings, which stay in a file, by the marks that replace them in `value`. They are known to be valid. */
  readonly texts: LongTexts
}

/**
 * Receives a JSON body; there is no other way to. Its bounds are checked while it arrives. Long strings go to a file, so memory does not
 * grow with them.
 * @param admitted pays for the memory and the file until it is disposed
 * @throws AppError `unsupported_media_type`, `too_large`, `invalid`, and the refusals of `admitted`
 */
export async function receiveJson(
  request: IncomingMessage,
  bounds: JsonBounds,
  { admitted, spoolDir }: { readonly admitted: Admitted; readonly spoolDir: string },
): Promise<JsonBody> {
  requireJson(request)
  const scanner = createJsonScanner(bounds)
  await using stack = new AsyncDisposableStack()
  let file: FileHandle | undefined
  let heldBytes = 0
  let bytes = 0
  for await (const chunk of arriving(request, { maxBytes: bounds.maxBytes, waitForSlot: () => admitted.waitForChunkSlot() })) {
    bytes += chunk.length
    const toSpill = scanner.scan(chunk)
    if (scanner.keptBytes > heldBytes) {
      admitted.hold('memory', scanner.keptBytes - heldBytes)
      heldBytes = scanner.keptBytes
    }
    if (toSpill.length === 0) continue
    admitted.hold(
      'spool',
      toSpill.reduce((sum, part) => sum + part.length, 0),
    )
    file ??= stack.use(await openSpool(spoolDir))
    for (const part of toSpill) await append(file, part)
  }
  const { json, spilled } = scanner.end()
  const value = parseJson(json)
  const texts = new Map<string, LongText>()
  if (file) for (const [mark, range] of spilled) texts.set(mark, longText(file, range))
  for (const text of texts.values()) for await (const _piece of text.pieces());
  const owned = stack.move()
  return { value, bytes, texts, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

/**
 * Parses a document that is in memory already.
 * @throws AppError `invalid`, `too_large`
 */
export function parseBoundedJson(bytes: Buffer, bounds: JsonBounds): unknown {
  const scanner = createJsonScanner(bounds)
  scanner.scan(bytes)
  return parseJson(bytes)
}

/** Opens a file without a name, so that nothing is left of it however the process ends. */
async function openSpool(dir: string): Promise<FileHandle> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const path = join(dir, randomUUID())
  const file = await open(path, 'wx+', 0o600)
  await rm(path)
  return file
}

async function append(file: FileHandle, bytes: Buffer): Promise<void> {
  try {
    await file.writeFile(bytes)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') throw unavailable('the disk of the server is full; try again later')
    throw error
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** @throws AppError `invalid` with the position at which it stops being JSON in UTF-8 */
function parseJson(bytes: Uint8Array): unknown {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    throw invalid('the body is not valid UTF-8', 'invalid_json')
  }
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    throw invalid(
      text.trim() === '' ? 'the body is empty; send a JSON object' : `the body is not valid JSON: ${(error as Error).message}`,
      'invalid_json',
    )
  }
}
