export interface ScrubInput {
  /** How many of the 256 parts of the storage are read, 1 to 256; those come first that were not read for the longest time. */
  readonly prefixes?: number
}

/** What was found in a part of the storage. */
export interface ScrubReport {
  readonly objects: number
  /** Without gzip variants. */
  readonly bytes: number
  /** Objects that nobody can read until they are stored again. */
  readonly damaged: number
  /** Objects that were damaged and are whole again. */
  readonly repaired: number
}

/** Activities of the control queue, implemented in `activities/scrub.ts`. Each may be repeated. */
export interface ScrubActivities {
  /** The parts of the storage that were not verified for the longest time. */
  choosePrefixes(input: { readonly count: number }): Promise<string[]>
  /** Compares the objects of one part with their hashes; goes on where an earlier try has ended. */
  verifyObjects(input: { readonly prefix: string }): Promise<ScrubReport>
}

export interface SweepInput {
  /** Share of all objects that may be removed at once, 0 to 1; an operator who has seen the refusal may raise it. */
  readonly max_share?: number
}

/** Activities of the control queue, implemented in `activities/storage.ts`. Each answers a line for operators and may be repeated. */
export interface StorageActivities {
  /** Purges deploys whose preview link has become too old. */
  purgeExpired(): Promise<string>
  /** Removes the logs of old builds. */
  removeOldLogs(): Promise<string>
  /** Gives up uploads that no deploy took, and what purges have left for readers that are behind. */
  dropUnusedBlobs(): Promise<string>
  /** Removes objects from the storage that no row needs. */
  sweepObjects(input: SweepInput): Promise<string>
}
