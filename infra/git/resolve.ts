import { listServerRefs } from 'isomorphic-git'
import { isCommitId, refOf } from '../../core/git-remotes.ts'
import { GitError } from './git-error.ts'
import type { Remote } from './remote.ts'

const shownBranches = 10

/**
 * Resolves a branch, a full ref or a commit id on the server to a commit.
 * @throws GitError `no_branch`, `empty`, or why the server gives no answer
 */
export async function resolveCommit(remote: Remote, name: string): Promise<string> {
  const wanted = refOf(name)
  if (!wanted) throw new GitError('no_branch', `${printable(name)} is not the name of a branch`)
  if ('commit' in wanted) {
    // follows redirects, and makes sure that the repository exists
    await listRefs(remote, 'HEAD')
    return wanted.commit
  }
  const found = (await listRefs(remote, wanted.ref)).find(({ ref }) => ref === wanted.ref)
  if (!found) throw await noBranch(remote, name)
  if (!isCommitId(found.oid)) throw new GitError('damaged', 'the git server sent a ref without a commit')
  return found.oid
}

async function noBranch(remote: Remote, name: string): Promise<GitError> {
  const branches = (await listRefs(remote, 'refs/heads/')).map(({ ref }) => printable(ref.replace('refs/heads/', '')))
  if (branches.length === 0) return new GitError('empty', 'the repository has no branches yet; push a commit first')
  const more = branches.length > shownBranches ? ` and ${branches.length - shownBranches} more` : ''
  return new GitError(
    'no_branch',
    `the repository has no branch ${printable(name)}; it has ${branches.slice(0, shownBranches).join(', ')}${more}`,
  )
}

/**
 * Lists the refs whose names begin with the prefix; with `symrefs`, symbolic ones have their `target`.
 * @throws GitError, or an error of isomorphic-git
 */
export async function listRefs(remote: Remote, prefix: string, { symrefs = false } = {}) {
  try {
    const refs = await listServerRefs({ http: remote.http, url: remote.url, prefix, symrefs, protocolVersion: 2 })
    const brokenOff = remote.brokenOff()
    if (brokenOff !== undefined) throw brokenOff
    return refs
  } catch (error) {
    const reason = remote.brokenOff() ?? error
    throw isFromGit(reason) ? notGit() : reason
  }
}

const notGit = () => new GitError('not_git', 'the answer is not that of a git server; use the address that `git clone` takes')

/** isomorphic-git's own errors carry their class as a code. */
export const isFromGit = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code === error.name

/** Makes an untrusted name safe for a message. */
export function printable(text: string): string {
  const clean = text.toWellFormed().replace(/\p{C}/gu, '\ufffd')
  return clean.length > 120 ? `${clean.slice(0, 120).toWellFormed()}…` : clean
}
