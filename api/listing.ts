/**
 * A list that is read while it is sent, batch by batch, so that memory holds one batch at a time. A batch is read without anything being kept
 * open until the next one.
 */
export class Listing<T> {
  readonly batches: AsyncIterable<readonly T[]>
  /** The key of the last element, when the caller's limit has left out elements that follow. */
  readonly next: string | undefined

  constructor(batches: AsyncIterable<readonly T[]>, next?: string) {
    this.batches = batches
    this.next = next
  }

  /** @param view the form of a batch in answers */
  static of<Row, T>(
    batches: AsyncIterable<readonly Row[]>,
    view: (rows: readonly Row[]) => readonly T[] | Promise<readonly T[]>,
    next?: string,
  ): Listing<T> {
    return new Listing(mapped(batches, view), next)
  }

  /** A page of small rows, which were read already. */
  static ofRows<T>(rows: readonly T[], next: string | undefined): Listing<T> {
    return new Listing(once(rows), next)
  }
}

async function* once<T>(rows: readonly T[]): AsyncGenerator<readonly T[]> {
  yield rows
}

async function* mapped<Row, T>(
  batches: AsyncIterable<readonly Row[]>,
  view: (rows: readonly Row[]) => readonly T[] | Promise<readonly T[]>,
): AsyncGenerator<readonly T[]> {
  for await (const rows of batches) yield await view(rows)
}

/** The answer of a handler for a schema: lists at its top, or of a member, may be read while they are sent. */
export type Answer<T> = T extends readonly (infer E)[]
  ? T | Listing<E>
  : T extends object
    ? { [Name in keyof T]: T[Name] extends (infer E)[] ? T[Name] | Listing<E> : T[Name] }
    : T

/** The listing of an answer, and the name of the member that has it; undefined when it has none. */
export function listingIn(answer: unknown): Listing<unknown> | undefined {
  if (answer instanceof Listing) return answer
  if (typeof answer !== 'object' || answer === null) return undefined
  return Object.values(answer).find((member) => member instanceof Listing)
}
