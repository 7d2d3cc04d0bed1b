import type { Readable } from 'node:stream'
import { invalid } from '../../core/errors.ts'

export interface StoredObject {
  /** 64 lower-case hex characters. */
  readonly sha256: string
  /** Bytes. */
  readonly size: number
}

/** Encodings kept beside an object's own bytes. */
export type Encoding = 'gzip'

export interface OpenedObject {
  readonly size: number
  /** Bytes `start` to `end`, both inclusive as in RFC 9110 ranges; all without arguments. Call it or `close`, once. */
  stream(start?: number, end?: number): Readable
  /** The whole object; only for small ones. */
  bytes(): Promise<Buffer>
  close(): Promise<void>
}

export interface PutOptions {
  /** More than this many bytes reject with an AppError `too_large`. */
  readonly limitBytes?: number
  /** Other bytes than those of this hash reject with an AppError `invalid`. */
  readonly sha256?: string
  /** Whether to keep a gzip variant too, decided by the size and the first 4 KiB. */
  readonly compress?: (size: number, head: Buffer) => boolean
}

/**
 * Objects on their way into the storage. Nobody sees them before `publish`; what is not published goes with the disposal, and what a crash
 * left with `removeLeftovers`.
 */
export interface ObjectBatch extends AsyncDisposable {
  /** Takes an object and makes it durable. Bytes that are stored already are compared with what is there: a damaged object is replaced. */
  add(bytes: Readable | Buffer, options?: PutOptions): Promise<StoredObject>
  /** An object of the batch or of the storage. */
  open(sha256: string): Promise<OpenedObject | undefined>
  /**
   * Puts all objects in their places. Call it once.
   * @throws AppError `unavailable` when one that was there before, or the batch itself, was removed in the meantime, or the storage is full
   */
  publish(): Promise<void>
  /** Hashes of the objects that this batch has written, for those who have to remove them after a failure. */
  written(): string[]
}

export interface ObjectFacts {
  /** Bytes, without encoded variants. */
  readonly size: number
  /** When it was stored last. */
  readonly storedAt: Date
}

/**
 * Content-addressed storage. Implementations MUST be safe for concurrent use by many processes, MUST make an object
 * durable before `put` returns, and MUST never show a partial object: after a crash an object is whole or absent.
 * The CAS knows nothing of projects; who may see an object is decided in PostgreSQL.
 */
export interface Cas {
  /** Begins a batch of objects that become visible together. */
  batch(): ObjectBatch
  /**
   * Stores the bytes and returns their hash; a rejection leaves nothing behind. Storing what exists renews its modification time,
   * which protects it from the sweeper.
   */
  readonly put: (bytes: Readable | Buffer, options?: PutOptions) => Promise<StoredObject>
  /** Undefined when the object does not exist. */
  stat(sha256: string): Promise<ObjectFacts | undefined>
  /** Undefined when the object, or that encoding of it, does not exist. */
  open(sha256: string, encoding?: Encoding): Promise<OpenedObject | undefined>
  /** Keeps an encoded variant of an object when that saves at least a tenth. Does nothing when the object is gone. May be repeated. */
  encode(sha256: string, encoding: Encoding): Promise<void>

  /** Removes an encoded variant of an object. */
  removeVariant(sha256: string, encoding: Encoding): Promise<void>
  /**
   * Moves a damaged object with its variants aside, to where nobody gets it. False when it stays, because its bytes are those of its hash by
   * now, or is gone.
   */
  quarantine(sha256: string): Promise<boolean>

  /**
   * Hashes of all objects in batches, in no order. Objects that are stored during the listing may be left out.
   * @param prefix only those that begin with these two characters
   */
  list(prefix?: string): AsyncIterable<readonly string[]>
  /**
   * Removes an object with its variants, unless it was stored again since `before`. The caller has made sure that no row needs it and that
   * none can appear until it returns. False when it stays.
   */
  remove(sha256: string, before: Date): Promise<boolean>
  /** Removes what writes that broke off before then have left; answers how many. */
  removeLeftovers(before: Date): Promise<number>
}

/** The refusal of bytes that are not those of the hash that was given with them. */
export const otherBytes = (expected: string, actual: string) =>
  invalid(`the bytes have the sha256 ${actual}, not ${expected}; send the bytes that the hash was made of`)
