import { Listing } from './listing.ts'

/** The length at which a piece is handed on. One value that is no list may be longer. */
const pieceLength = 32 * 1024

/** Reads the next batch of a list when it is the payer's turn. */
export type ReadBatch = <T>(read: () => Promise<T>) => Promise<T>

/**
 * The JSON of an answer in pieces: the text that `JSON.stringify` makes of it, with listings as arrays. Between two pieces the caller may wait,
 * so that a large answer delays no other request.
 */
export const jsonText = (answer: unknown, readBatch: ReadBatch): AsyncGenerator<string> => inPieces(partsOf(answer, readBatch))

/** The lines of a file in pieces. */
export const linesText = (batches: AsyncIterable<readonly string[]>, readBatch: ReadBatch): AsyncGenerator<string> =>
  inPieces(inTurns(batches, readBatch))

async function* inPieces(parts: AsyncIterable<string | readonly string[]>): AsyncGenerator<string> {
  let text = ''
  for await (const part of parts) {
    for (const line of typeof part === 'string' ? [part] : part) {
      text += line
      if (text.length < pieceLength) continue
      yield text
      text = ''
    }
  }
  if (text !== '') yield text
}

/** The batches of a list: the first one at once, because small lists have no other. */
async function* inTurns<T>(batches: AsyncIterable<readonly T[]>, readBatch: ReadBatch): AsyncGenerator<readonly T[]> {
  const iterator = batches[Symbol.asyncIterator]()
  try {
    let next = await iterator.next()
    while (!next.done) {
      yield next.value
      next = await readBatch(() => iterator.next())
    }
  } finally {
    await iterator.return?.()
  }
}

async function* partsOf(answer: unknown, readBatch: ReadBatch): AsyncGenerator<string> {
  if (answer instanceof Listing) yield* partsOfListing(answer, readBatch)
  else if (!isRecord(answer)) yield* partsOfValue(answer)
  else {
    let start = '{'
    for (const [name, member] of Object.entries(answer)) {
      if (member === undefined) continue
      yield `${start}${JSON.stringify(name)}:`
      if (member instanceof Listing) yield* partsOfListing(member, readBatch)
      else yield* partsOfValue(member)
      start = ','
    }
    yield start === '{' ? '{}' : '}'
  }
}

async function* partsOfListing({ batches }: Listing<unknown>, readBatch: ReadBatch): AsyncGenerator<string> {
  let start = '['
  for await (const batch of inTurns(batches, readBatch)) {
    for (const element of batch) {
      for (const part of partsOfValue(element)) {
        yield start + part
        start = ''
      }
      start = ','
    }
  }
  yield start === '[' ? '[]' : ']'
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !('toJSON' in value)

/** Arrays longer than this are written element by element. */
const longArray = 64

/** Long arrays in parts, at the top of the value or of a member of it. */
function* partsOfValue(value: unknown): Generator<string> {
  if (Array.isArray(value) && value.length > longArray) {
    let start = '['
    for (const element of value) {
      yield start + (JSON.stringify(element) ?? 'null')
      start = ','
    }
    yield ']'
  } else if (isRecord(value) && Object.values(value).some((member) => Array.isArray(member) && member.length > longArray)) {
    let start = '{'
    for (const [name, member] of Object.entries(value)) {
      if (member === undefined) continue
      yield `${start}${JSON.stringify(name)}:`
      yield* partsOfValue(member)
      start = ','
    }
    yield '}'
  } else yield JSON.stringify(value) ?? 'null'
}
