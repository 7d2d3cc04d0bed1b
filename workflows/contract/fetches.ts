import type { GitSource } from '../../core/deploy.ts'
import type { BuildInput } from './builds.ts'
import type { DeployRunInput } from './deploys.ts'

/** One try to fetch the source of a deploy. */
export interface FetchInput extends DeployRunInput {
  /** The number of this try, from 1. */
  readonly tries: number
}

/** A repository that cannot be fetched is a normal result, with a text for its owner. `away`: the deploy waits without a permit. */
export type FetchResult =
  | { readonly outcome: 'away'; readonly error: string; readonly retry_after_ms: number }
  | { readonly outcome: 'fetched'; readonly input: BuildInput; readonly git: GitSource; readonly facts: string }
  | { readonly outcome: 'failed'; readonly error: string }

/** Activities of the fetch queue, implemented in `activities/fetch-repository.ts`. */
export interface FetchActivities {
  /** Stores the head of the deploy's ref as its source. Undefined when the run has lost the deploy. May be repeated. */
  fetchRepository(input: FetchInput): Promise<FetchResult | undefined>
}
