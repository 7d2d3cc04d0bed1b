import type { SourceKind } from './deploy.ts'

/**
 * How far a build is trusted. `production`: what was published to go live, and the connected branch. `preview`: `activate: false` and the
 * branches of the connected repository. `fork`: pull requests of other repositories, whose authors are strangers to the project.
 */
export type TrustLevel = 'production' | 'preview' | 'fork'

export interface TrustFacts {
  readonly source_kind: SourceKind
  /** Whether the deploy goes live when it is ready. */
  readonly activate: boolean
  /** Of the branch preview; null when the deploy is of none, or that is not there any more. */
  readonly from_fork: boolean | null
}

/** In doubt it is the lowest: a git deploy that does not go live and whose preview is gone may have been of a fork. */
export function trustOf({ source_kind, activate, from_fork }: TrustFacts): TrustLevel {
  if (activate) return 'production'
  return source_kind !== 'git' || from_fork === false ? 'preview' : 'fork'
}

const levelsRead: Readonly<Record<TrustLevel, readonly TrustLevel[]>> = {
  production: ['production'],
  preview: ['preview', 'production'],
  fork: [],
}

/**
 * The levels whose packages a build may get, its own first; it sets packages aside for its own only. Reads go downward: what a less
 * trusted build has touched never reaches a more trusted one. A fork shares with nobody: it could read private packages, and tokens in
 * them. So does a level that is not known.
 */
export const readableLevels = (level: string): readonly TrustLevel[] => levelsRead[level as TrustLevel] ?? []
