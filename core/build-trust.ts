import type { SourceKind } from './deploy.ts'

/**
 * How far a build is trusted. `production`: archives that go live, and the connected branch. `preview`: `activate: false` and the
 * branches of the connected repository. `fork`: pull requests of other repositories, whose authors are strangers to the project.
 */
export type TrustLevel = 'production' | 'preview' | 'fork'

export interface TrustFacts {
  readonly source_kind: SourceKind
  /** Whether the deploy goes live when it is ready. */
  readonly activate: boolean
  /** Whether the branch preview is of a fork; null when the deploy has no branch preview any more. */
  readonly from_fork: boolean | null
}

/** Chooses the lowest level in doubt: a git deploy that does not go live and whose preview is gone may have been of a fork. */
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
 * The levels whose kept packages a build may use, its own first; it keeps packages for its own level only. Whatever a less trusted build
 * has touched never reaches a more trusted one. A fork shares with nobody, because it could read private packages and tokens in them; an
 * unknown level is treated as a fork.
 */
export const readableLevels = (level: string): readonly TrustLevel[] => levelsRead[level as TrustLevel] ?? []
