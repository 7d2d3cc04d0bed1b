/** A result that REST sends as a file. */
export interface Download {
  /** The content type. */
  readonly type: string
  readonly name: string
  /** Its lines, which are read while they are sent. */
  readonly batches: AsyncIterable<readonly string[]>
}
