import { AppError, type ErrorKind } from '../../core/errors.ts'
import { FetchError, type FetchFailure, type RefusedName } from '../net/fetch-error.ts'

export type GitFailure =
  | FetchFailure
  /** The repository does not exist, or the token may not read it: a forge does not say which. */
  | 'no_access'
  | 'no_branch'
  | 'no_commit'
  | 'empty'
  /** The forge has an internal error or a rate limit. */
  | 'busy'
  | 'not_git'
  | 'dumb_http'
  | 'too_many_files'
  | 'submodule'
  | 'lfs'
  | 'unsafe_path'
  | 'damaged'

const passing: ReadonlySet<GitFailure> = new Set(['unreachable', 'busy', 'timeout'])

function kindOf(reason: GitFailure): ErrorKind {
  if (passing.has(reason)) return 'unavailable'
  if (reason === 'too_large' || reason === 'too_many_files') return 'conflict'
  return 'unprocessable'
}

/** Why a repository was not fetched, for its owner. `unavailable` kinds may pass by themselves; the others need the owner. */
export class GitError extends AppError {
  readonly reason: GitFailure
  readonly refusedName: RefusedName | undefined

  constructor(reason: GitFailure, message: string, refusedName?: RefusedName) {
    super(kindOf(reason), message)
    this.reason = reason
    this.refusedName = refusedName
  }
}

/** Describes the failure of a guarded request in terms of the repository; other errors stay as they are. */
export function gitErrorOf(error: unknown): unknown {
  if (!(error instanceof FetchError)) return error
  if (error.reason === 'too_large') return new GitError('too_large', `the repository is too large: ${error.message}`)
  return new GitError(error.reason, `the repository cannot be fetched: ${error.message}`, error.refusedName)
}
