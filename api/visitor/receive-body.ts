import { setTimeout as wait } from 'node:timers/promises'
import type { Context as Koa } from 'koa'
import { AppError, invalid, unavailable } from '../../core/errors.ts'
import { announcedBytes, bodyStream } from '../body.ts'

export interface BodyLimits {
  /** Of one body. */
  readonly maxBytes: number
  /** Of all bodies that are on their way in. */
  readonly maxHeldBytes: number
  /** In which a body has to arrive. */
  readonly patienceMs: number
}

/** Receives bodies of strangers into memory, which all of them share. */
export function createReceiver({ maxBytes, maxHeldBytes, patienceMs }: BodyLimits) {
  let held = 0

  async function read(koa: Koa): Promise<Buffer> {
    const chunks: Buffer[] = []
    let bytes = 0
    try {
      for await (const chunk of bodyStream(koa.req) as AsyncIterable<Buffer>) {
        bytes += chunk.length
        held += chunk.length
        if (bytes > maxBytes) throw tooLarge(maxBytes)
        if (held > maxHeldBytes) throw unavailable('too much is being received; try again in a few seconds')
        chunks.push(chunk)
      }
    } catch (error) {
      if (error instanceof AppError || koa.req.complete) throw error
      throw invalid('the body ended before its announced length')
    } finally {
      held -= bytes
    }
    return Buffer.concat(chunks)
  }

  /** The body as it was sent. @throws AppError `too_large`, `invalid`, `unavailable` */
  return async function receive(koa: Koa): Promise<Buffer> {
    if ((announcedBytes(koa.req) ?? 0) > maxBytes) throw tooLarge(maxBytes)
    const received = new AbortController()
    const late = wait(patienceMs, undefined, { signal: received.signal }).then(() => {
      // what still arrives is of no use
      koa.set('connection', 'close')
      throw invalid(`the body did not arrive within ${patienceMs / 1000} s`)
    })
    try {
      return await Promise.race([read(koa), late])
    } finally {
      received.abort()
      late.catch(() => undefined)
    }
  }
}

const tooLarge = (maxBytes: number) => new AppError('too_large', `the body is larger than ${maxBytes} bytes`)
