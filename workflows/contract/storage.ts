export interface ScrubInput {
  /** How many of the 256 parts of the storage are read, 1 to 256, beginning with those that were not read for the longest time. */
  readonly prefixes?: number
}

/** The result of verifying one part of the storage. */
export interface ScrubReport {
  readonly objects: number
  /** Their size without variants. */
  readonly bytes: number
  /** Objects that cannot be read until they are stored again. */
  readonly damaged: number
  /** Objects that were damaged and are intact again. */
  readonly repaired: number
}

/** Activities of the control queue, implemented in `activities/scrub.ts`. Each may be repeated. */
export interface ScrubActivities {
  /** Chooses the parts of the storage that were not verified for the longest time. */
  choosePrefixes(input: { readonly count: number }): Promise<string[]>
  /** Compares the objects of one part with their hashes; continues where an earlier try ended. */
  verifyObjects(input: { readonly prefix: string }): Promise<ScrubReport>
}

export interface SweepInput {
  /** Share of all objects that may be removed at once, 0 to 1; an operator may raise it after a refusal. */
  readonly max_share?: number
}

/** Activities of the control queue, implemented in `activities/storage.ts`. Each returns a line for operators and may be repeated. */
export interface StorageActivities {
  /** Purges deploys whose preview link has expired. */
  purgeExpired(): Promise<string>
  /** Removes the logs of old builds. */
  removeOldLogs(): Promise<string>
  /** Drops uploads that no deploy used, and objects that purges kept for edges that lag behind. */
  dropUnusedBlobs(): Promise<string>
  /** Removes objects from the storage that no row needs. */
  sweepObjects(input: SweepInput): Promise<string>
}
