/** What is known of a queued deploy that has to be built. */
export interface BuildWait {
  /** Whether its workflow has begun. */
  readonly is_claimed: boolean
  /** Whether it may fetch its source or build. */
  readonly has_permit: boolean
  /** Whether its source is still to be fetched from a repository. */
  readonly is_fetch: boolean
  /** When a repository that was away is asked again; null when it was not away. */
  readonly fetch_after: Date | null
  /** Builds of the same site that were accepted earlier and have not ended. */
  readonly earlier: number
  /** The number of the first of them; null when there are none. */
  readonly first_earlier_seq: number | null
}

/** Says what a queued deploy waits for, to follow "waits for". Undefined is a deploy of stored files, which needs no permit. */
export function waitingFor(wait: BuildWait | undefined): string {
  if (!wait || (!wait.is_claimed && wait.earlier === 0)) return 'a free worker'
  const { has_permit, is_fetch, fetch_after, earlier, first_earlier_seq } = wait
  if (has_permit) return is_fetch ? 'its repository, which is being fetched' : 'a build slot'
  if (earlier > 0) return `deploy ${first_earlier_seq}${earlier > 1 ? ` and ${earlier - 1} more` : ''} of this site`
  if (fetch_after) return `its repository, which was away; the next try is at ${fetch_after.toISOString()}`
  return is_fetch ? 'another fetch of the project' : 'another build of the project'
}
