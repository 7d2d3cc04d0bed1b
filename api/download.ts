import { Readable } from 'node:stream'

/** A result that REST streams as a file. */
export interface Download {
  /** The content type. */
  readonly type: string
  readonly name: string
  readonly stream: Readable
}

/** A stream of the parts at the pace of the client. The first part is awaited, so that a refusal is still a usual response. */
export async function streamParts(parts: AsyncGenerator<string>): Promise<Readable> {
  const first = await parts.next()
  return Readable.from(all(first, parts))
}

async function* all(first: IteratorResult<string>, parts: AsyncGenerator<string>): AsyncGenerator<string> {
  if (first.done) return
  yield first.value
  yield* parts
}
