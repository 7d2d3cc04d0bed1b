/**
 * The logs of builds, one for each deploy. A log only grows, and a byte that was read at an offset stays there, so that
 * following a build and reading its log a month later are the same thing. Implementations MUST make appended bytes visible
 * to every process before `append` returns, in the order of the calls; surviving a power cut is not asked for. One writer
 * at a time: a build that is repeated continues the log of the attempt before.
 */
export interface BuildLogs {
  /** May have written a part when it rejects. Bytes always end with a whole UTF-8 character. */
  append(deployId: string, bytes: Buffer): Promise<void>
  /** At most `maxBytes` from `offset`, and the size of the whole; both empty when there is no log. */
  read(deployId: string, offset: number, maxBytes: number): Promise<LogPart>
  /** May be repeated; what is removed reads as empty. */
  remove(deployId: string): Promise<void>
  /** The deploys that have a log, in no order. */
  list(): AsyncIterable<string>
}

export interface LogPart {
  readonly bytes: Buffer
  readonly size: number
}
