import type { LookUp } from '../net/fetch-target.ts'
import { openGuardedClient } from '../net/guarded-fetch.ts'
import type { RepositoryRequest } from './fetch-repository.ts'
import { openRemote } from './remote.ts'
import { listRefs } from './resolve.ts'

export interface DefaultBranchOptions extends Pick<RepositoryRequest, 'repo_url' | 'token' | 'allowPrivate'> {
  readonly timeoutMs: number
  /** By default the name service of this machine. */
  readonly lookUp?: LookUp | undefined
}

const maxAnswerBytes = 64 * 1024
const branchPrefix = 'refs/heads/'

/**
 * Finds the branch that the HEAD of a repository names, without fetching it. Undefined for an empty repository and for a detached HEAD. The
 * name is the server's: nothing about it has been checked.
 * @throws GitError, or an error of isomorphic-git for an answer that it cannot parse
 */
export async function findDefaultBranch(options: DefaultBranchOptions): Promise<string | undefined> {
  const { repo_url, token, allowPrivate, timeoutMs, lookUp } = options
  await using client = openGuardedClient({ allowPrivate, timeoutMs, ...(lookUp && { lookUp }) })
  const refs = await listRefs(openRemote({ client, url: repo_url, token, maxAnswerBytes }), 'HEAD', { symrefs: true })
  const target = refs.find(({ ref }) => ref === 'HEAD')?.target
  return target?.startsWith(branchPrefix) ? target.slice(branchPrefix.length) : undefined
}
