/**
 * The logs of builds, one for each deploy. A log only grows, and a byte that was read at an offset stays there, so that
 * following a build and reading its log a month later are the same thing. Implementations MUST make appended bytes visible
 * to every process before `append` returns, in the order of the calls; they need not survive a power cut. There is one
 * writer at a time: a retried build continues the log of the attempt before.
 */
export interface BuildLogs {
  /** Appends bytes that end with a whole UTF-8 character. It may have written a part when it rejects. */
  append(deployId: string, bytes: Buffer): Promise<void>
  /** Reads at most `maxBytes` from `offset`, and the size of the log; without a log, it is empty. */
  read(deployId: string, offset: number, maxBytes: number): Promise<LogPart>
  /** Removes a log, which then reads as empty. May be repeated. */
  remove(deployId: string): Promise<void>
  /** Lists the deploys that have a log, in no order. */
  list(): AsyncIterable<string>
}

export interface LogPart {
  readonly bytes: Buffer
  readonly size: number
}
