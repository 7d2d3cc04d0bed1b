import type { Readable } from 'node:stream'

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

/**
 * Content-addressed storage. Implementations MUST be safe for concurrent use by many processes, MUST make an object
 * durable before `put` returns, and MUST never show a partial object: after a crash an object is whole or absent.
 * The CAS knows nothing of projects; who may see an object is decided in PostgreSQL.
 */
export interface Cas {
  /**
   * Stores the bytes and returns their hash. Storing what exists renews its modification time, which protects it from the sweeper.
   * @param limitBytes more than this many bytes reject with an AppError `too_large` and leave nothing behind
   */
  put(bytes: Readable | Buffer, limitBytes?: number): Promise<StoredObject>
  /** Undefined when the object does not exist. */
  size(sha256: string): Promise<number | undefined>
  /** Undefined when the object, or that encoding of it, does not exist. */
  open(sha256: string, encoding?: Encoding): Promise<OpenedObject | undefined>
  /** Keeps an encoded twin of a stored object when that saves at least a tenth; called for text. May be repeated. */
  encode(sha256: string, encoding: Encoding): Promise<void>
}
