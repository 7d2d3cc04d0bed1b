import { withoutEnd } from './trim.ts'

export type RepoUrlVerdict = { readonly kind: 'ok'; readonly url: string } | { readonly kind: 'bad'; readonly reason: string }

export interface RepoUrlRules {
  /** Permits every port and plain http, for a forge in a private network. */
  readonly allowPrivate: boolean
}

const maxUrlLength = 2048
const hostForm = /^(\[[0-9a-f:.]+\]|[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*)$/

/** Checks and normalises the URL of a repository; the IP addresses of its host are checked when it is fetched. */
export function judgeRepoUrl(text: string, { allowPrivate }: RepoUrlRules): RepoUrlVerdict {
  const bad = (reason: string) => ({ kind: 'bad', reason }) as const
  if (text.length > maxUrlLength) return bad(`is longer than ${maxUrlLength} characters`)
  if (/[\s\p{Cc}\\]/u.test(text)) return bad('contains white space, a control character or a backslash')
  if (/^[\w.-]+@[^/]+:/.test(text) || text.startsWith('ssh:'))
    return bad('is an ssh address; use the https:// address of the repository')
  const url = URL.parse(text)
  if (!url || !/^[a-z]+:\/\//i.test(text)) return bad('is not an address; use the https:// address of the repository')
  if (url.protocol !== 'https:' && !(allowPrivate && url.protocol === 'http:'))
    return bad('must start with https://, unless the operator sets PLINTH_ALLOW_PRIVATE_GIT')
  if (url.username !== '' || url.password !== '') return bad('contains a user or a password; give the token in `token` instead')
  if (url.port !== '' && !allowPrivate)
    return bad('names a port; only 443 is used, unless the operator sets PLINTH_ALLOW_PRIVATE_GIT')
  if (!hostForm.test(url.hostname)) return bad('has a host that is no host name; leave out a dot at its end')
  if (url.search !== '' || url.hash !== '') return bad('has a query or a fragment; use the address that `git clone` takes')
  const path = withoutEnd(url.pathname, '/')
  if (path === '') return bad('names no repository; add its path')
  return { kind: 'ok', url: `${url.origin}${path}` }
}

/** Names that only a private network resolves: without a dot, or below a suffix that is reserved for such networks (RFC 6761, 6762, 8375; ICANN). */
export const isPrivateName = (host: string) =>
  !host.includes('.') || /\.(internal|local|localhost|localdomain|home\.arpa)$/.test(host)

const maxRefBytes = 255

/** Whether git accepts the text as the name of a branch (git-check-ref-format). */
export function isBranchName(name: string): boolean {
  if (name === '' || name === '@' || name.length > maxRefBytes || !name.isWellFormed()) return false
  if (/[\p{Cc} ~^:?*[\\]|\.\.|@\{|\/\/|\.$|^[-/]|\/$/u.test(name)) return false
  return name.split('/').every((part) => !part.startsWith('.') && !part.endsWith('.lock'))
}

/** Why a site cannot be deployed from a branch of this name, as the end of a sentence; undefined when it can. */
export function branchProblem(name: string): string | undefined {
  if (!isBranchName(name)) return 'is not a valid name of a branch'
  if (name.startsWith('refs/')) return 'is a full ref; leave out refs/heads/'
  if (isCommitId(name)) return 'is the id of a commit; name a branch'
  return undefined
}

export const isCommitId = (text: string) => /^[0-9a-f]{40}$/.test(text)

/** Parses what to fetch: a commit, a full ref such as `refs/pull/3/head`, or a branch. Undefined when git permits no such name. */
export function refOf(name: string): { readonly commit: string } | { readonly ref: string } | undefined {
  if (isCommitId(name)) return { commit: name }
  if (!isBranchName(name)) return undefined
  return { ref: name.startsWith('refs/') ? name : `refs/heads/${name}` }
}

/**
 * The Basic credentials that a forge accepts. A token with a colon is already a user and a password, as deploy tokens of GitLab and
 * personal tokens of Bitbucket Data Center need it. Forges that are not listed accept a token with any user (Gitea), or with this one
 * (GitLab's OAuth).
 */
export function credentialsOf(host: string, token: string): { readonly username: string; readonly password: string } {
  const colon = token.indexOf(':')
  if (colon !== -1) return { username: token.slice(0, colon), password: token.slice(colon + 1) }
  return { username: userFor(host, token), password: token }
}

function userFor(host: string, token: string): string {
  if (host === 'github.com') return 'x-access-token'
  // API tokens of an Atlassian account begin so; access tokens of a repository, project or workspace do not
  if (host === 'bitbucket.org') return token.startsWith('ATATT') ? 'x-bitbucket-api-token-auth' : 'x-token-auth'
  return 'oauth2'
}
