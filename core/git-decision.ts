import type { Forge, GitEvent, PullRequest, Push } from './git-push.ts'

/** What of a connection decides about a push. */
export interface PushRules {
  /** The branch that goes live. */
  readonly branch: string
  readonly branch_previews: boolean
  readonly pull_request_previews: boolean
  /** Patterns such as `docs/**` and `!docs/drafts/**`; none: every push counts. */
  readonly watch_paths: readonly string[]
}

/** What is known of the ref that a push moves. */
export interface KnownRef {
  /** Of its newest deploy. */
  readonly commit?: string | undefined
  /** The owner lets this pull request of a fork be built. */
  readonly fork_approved?: boolean
}

export type SkipReason = 'branch' | 'ping' | 'event' | 'deleted' | 'duplicate' | 'skip_marker' | 'watch_paths' | 'fork'

export type PushDecision =
  | { readonly kind: 'build'; readonly ref: string; readonly commit: string | undefined }
  | {
      readonly kind: 'preview'
      /** Names the preview, as `previewRef` does. */
      readonly ref: string
      /** Where its commits are in the connected repository. */
      readonly fetch_ref: string
      readonly commit: string | undefined
      readonly pull_request: number | undefined
    }
  | {
      readonly kind: 'skipped'
      readonly reason: SkipReason
      /** The preview that ends with the branch or pull request. */
      readonly ends?: string
    }

const skipped = (reason: SkipReason, ends?: string): PushDecision => ({
  kind: 'skipped',
  reason,
  ...(ends !== undefined && { ends }),
})

/**
 * What names the preview of a branch or pull request in a site. Branches of forks may have any name, also that of the live branch, so
 * theirs is one that no branch can have.
 */
export const previewRef = (event: Push | PullRequest, branch: string) =>
  event.kind === 'pull_request' && event.from_fork ? `pull:${event.number}` : (event.ref ?? branch)

/** @param known of the ref that `previewRef` names */
export function decidePush(forge: Forge, event: GitEvent, rules: PushRules, known: KnownRef = {}): PushDecision {
  if (event.kind === 'ping') return skipped('ping')
  if (event.kind === 'ignored') return skipped('event')
  return event.kind === 'push' ? decideBranch(event, rules, known) : decidePullRequest(forge, event, rules, known)
}

function decideBranch(push: Push, rules: PushRules, known: KnownRef): PushDecision {
  const ref = push.ref ?? rules.branch
  const isLive = ref === rules.branch
  if (push.deleted) return isLive ? skipped('deleted') : skipped('deleted', ref)
  if (!isLive && !rules.branch_previews) return skipped('branch')
  const reason = reasonToSkip(push, rules, known)
  if (reason) return skipped(reason)
  if (isLive) return { kind: 'build', ref, commit: push.commit }
  return { kind: 'preview', ref, fetch_ref: `refs/heads/${ref}`, commit: push.commit, pull_request: undefined }
}

function decidePullRequest(forge: Forge, request: PullRequest, rules: PushRules, known: KnownRef): PushDecision {
  const ref = previewRef(request, rules.branch)
  // the live branch may be merged into another one
  if (ref === rules.branch) return skipped('branch')
  if (request.action === 'closed') return skipped('deleted', ref)
  if (!rules.pull_request_previews) return skipped('branch')
  const fetch_ref = request.from_fork ? forkRef(forge, request.number) : `refs/heads/${request.ref}`
  if (request.from_fork && !(known.fork_approved && fetch_ref)) return skipped('fork')
  const reason = reasonToSkip({ ...request, changed_files: undefined }, rules, known)
  if (reason || !fetch_ref) return skipped(reason ?? 'fork')
  return { kind: 'preview', ref, fetch_ref, commit: request.commit, pull_request: request.number }
}

/** Where the base repository has the commits of a fork's pull request. Bitbucket Cloud does not have them. */
function forkRef(forge: Forge, number: number): string | undefined {
  if (forge === 'github' || forge === 'gitea') return `refs/pull/${number}/head`
  if (forge === 'gitlab') return `refs/merge-requests/${number}/head`
  return forge === 'bitbucket_dc' ? `refs/pull-requests/${number}/from` : undefined
}

type Change = Pick<Push, 'commit' | 'message' | 'changed_files'>

function reasonToSkip(change: Change, rules: PushRules, known: KnownRef): SkipReason | undefined {
  if (change.message !== undefined && hasSkipMarker(change.message)) return 'skip_marker'
  if (isSameCommit(change.commit, known.commit)) return 'duplicate'
  const isWatched = change.changed_files === undefined || touchesWatched(change.changed_files, rules.watch_paths)
  return isWatched ? undefined : 'watch_paths'
}

const skipMarker = /\[(skip deploy|skip ci|ci skip)\]/i

export const hasSkipMarker = (message: string) => skipMarker.test(message)

/** Either may be abbreviated. */
export function isSameCommit(one: string | undefined, other: string | undefined): boolean {
  return one !== undefined && other !== undefined && (one.startsWith(other) || other.startsWith(one))
}

/**
 * Whether any file is watched: the last pattern that fits a file decides, `!` before it takes the file out. When all patterns take out,
 * every other file is watched.
 */
export function touchesWatched(files: readonly string[], patterns: readonly string[]): boolean {
  if (patterns.length === 0) return true
  const startsWatched = patterns.every((pattern) => pattern.startsWith('!'))
  const isWatched = (file: string) => {
    const last = patterns.findLast((pattern) => fits(pattern.replace(/^!/, ''), file))
    return last === undefined ? startsWatched : !last.startsWith('!')
  }
  return files.some(isWatched)
}

/** Whether a path fits a pattern from the root: `*` and `?` within a name, `**` over any folders; a folder stands for all below it. */
function fits(pattern: string, path: string): boolean {
  const parts = pattern.split('/').filter((part) => part !== '' && part !== '.')
  const names = path.split('/')
  const isName = (part: string, name: string) =>
    wildcard(part.split(''), name.split(''), '*', (one, other) => one === '?' || one === other)
  return parts.length > 0 && (wildcard(parts, names, '**', isName) || wildcard([...parts, '**'], names, '**', isName))
}

/** Goes back to the last star only, so that no pattern is slow. */
function wildcard(
  pattern: readonly string[],
  items: readonly string[],
  star: string,
  isEqual: (part: string, item: string) => boolean,
): boolean {
  let [at, lastStar, retryFrom] = [0, -1, 0]
  for (let index = 0; index < items.length; ) {
    const [part, item] = [pattern[at], items[index] ?? '']
    if (part === star) {
      lastStar = at++
      retryFrom = index
    } else if (part !== undefined && isEqual(part, item)) {
      at++
      index++
    } else if (lastStar >= 0) {
      at = lastStar + 1
      index = ++retryFrom
    } else return false
  }
  return pattern.slice(at).every((part) => part === star)
}
