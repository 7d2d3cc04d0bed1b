import type { Readable } from 'node:stream'
import type { BackgroundEncoding, Encoding } from '../../core/encodings.ts'
import { invalid } from '../../core/errors.ts'
import type { WritePiece } from './pieces.ts'

export interface StoredObject {
  /** 64 lower-case hex characters. */
  readonly sha256: string
  /** Bytes. */
  readonly size: number
}

export interface OpenedObject {
  readonly size: number
  /** Streams the bytes from `start` to `end`, both inclusive as in RFC 9110, or all of them. Call one of these methods, once. */
  stream(start?: number, end?: number): Readable
  /**
   * Hands the same bytes to `write` in pieces, for readers outside of this process, who may be fast or slow.
   * @throws when the object has fewer bytes, or what `write` throws
   */
  send(write: WritePiece, start?: number, end?: number): Promise<void>
  /**
   * Reads the whole object; for small ones only.
   * @param into memory for the bytes, which is used when it is large enough
   */
  bytes(into?: Buffer): Promise<Buffer>
  close(): Promise<void>
}

export interface PutOptions {
  /** More bytes than this are refused with an AppError `too_large`. */
  readonly limitBytes?: number
  /** Bytes with another hash are refused with an AppError `invalid`. */
  readonly sha256?: string
  /** Whether to keep a gzip variant too, decided by the size and the first 4 KiB. */
  readonly compress?: (size: number, head: Buffer) => boolean
}

/**
 * Objects on their way into the storage. They are invisible before `publish`. Disposal removes those that were not published, and
 * `removeLeftovers` those that a crash left behind.
 */
export interface ObjectBatch extends AsyncDisposable {
  /** Adds an object and makes it durable. If it is stored already, the bytes are compared, and a damaged object is replaced. */
  add(bytes: Readable | Buffer, options?: PutOptions): Promise<StoredObject>
  /** Opens an object of the batch or of the storage. */
  open(sha256: string): Promise<OpenedObject | undefined>
  /**
   * Puts all objects in their places, and returns their hashes. Call it once.
   * @throws AppError `unavailable` when an object that was stored before, or the batch itself, was removed in between, or the storage is full
   */
  publish(): Promise<string[]>
  /** Hashes of the objects that this batch has written, for callers that must remove them after a failure. */
  written(): string[]
}

export interface ObjectFacts {
  /** Bytes, without encoded variants. */
  readonly size: number
  /** When the object was last stored, by the clock of {@link Cas.now}. */
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
  /** The time by the clock that dates objects: that of the machine that has the files, which need not be this one. */
  now(): Promise<Date>
  /** Undefined when the object does not exist. */
  stat(sha256: string): Promise<ObjectFacts | undefined>
  /** Undefined when the object, or that encoding of it, does not exist. */
  open(sha256: string, encoding?: Encoding): Promise<OpenedObject | undefined>
  /** Keeps a gzip variant of an object when that saves at least a tenth. Does nothing when the object is gone. May be repeated. */
  encode(sha256: string, encoding: 'gzip'): Promise<void>
  /** Keeps an encoded variant of an object, instead of an earlier one. Does nothing when the object is gone. May be repeated. */
  putVariant(sha256: string, encoding: BackgroundEncoding, bytes: Uint8Array): Promise<void>
  /** Removes an encoded variant of an object. */
  removeVariant(sha256: string, encoding: Encoding): Promise<void>
  /**
   * Moves a damaged object with its variants into quarantine. False when it is intact by now, or gone.
   */
  quarantine(sha256: string): Promise<boolean>

  /**
   * Hashes of all objects in batches, in no order. Objects that are stored during the listing may be left out.
   * @param prefix lists only the hashes that begin with these two characters
   */
  list(prefix?: string): AsyncIterable<readonly string[]>
  /**
   * Removes an object with its variants, unless it was stored again since `before`, by the clock of {@link now}. The caller has made sure that
   * no row needs it, and that no such row can appear until it returns. False when the object stays.
   */
  remove(sha256: string, before: Date): Promise<boolean>
  /** Removes the files of writes that broke off before the instant, by the clock of {@link now}; returns their number. */
  removeLeftovers(before: Date): Promise<number>
}

/** The refusal of bytes that do not match the given hash. */
export const otherBytes = (expected: string, actual: string) =>
  invalid(`the bytes have the sha256 ${actual}, not ${expected}; send the bytes that belong to the hash`)
