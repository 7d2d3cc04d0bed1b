import type { Forge, GitEvent, PullRequest, Push } from './git-events.ts'
import { anyFolders, matchesParts, type PatternPart, patternPart, type Steps } from './path-patterns.ts'

/** The settings of a connection that decide about a push. */
export interface PushRules {
  /** The branch whose deploys go live. */
  readonly branch: string
  readonly branch_previews: boolean
  readonly pull_request_previews: boolean
  /** Patterns such as `docs/**` and `!docs/drafts/**`; with none, every push counts. */
  readonly watch_paths: readonly string[]
}

/** The known state of the ref that a push moves. */
export interface KnownRef {
  /** The commit of its newest deploy. */
  readonly commit?: string | undefined
  /** The owner has allowed builds of this pull request from a fork. */
  readonly fork_approved?: boolean
}

export type SkipReason = 'branch' | 'ping' | 'event' | 'deleted' | 'duplicate' | 'skip_marker' | 'watch_paths' | 'fork'

export type PushDecision =
  | { readonly kind: 'build'; readonly ref: string; readonly commit: string | undefined }
  | {
      readonly kind: 'preview'
      /** Names the preview, as `previewRef` does. */
      readonly ref: string
      /** The ref that has its commits in the connected repository. */
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
 * Names the preview of a branch or pull request within a site. A branch of a fork may have any name, even that of the live branch, so its
 * preview gets a name that no branch can have.
 */
export const previewRef = (event: Push | PullRequest, branch: string) =>
  event.kind === 'pull_request' && event.from_fork ? `pull:${event.number}` : (event.ref ?? branch)

/** @param known the state of the ref that `previewRef` names */
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

/** The ref of the base repository that has the commits of a fork's pull request. Bitbucket Cloud has none. */
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

/** Compares two commits, either of which may be abbreviated. */
export function isSameCommit(one: string | undefined, other: string | undefined): boolean {
  return one !== undefined && other !== undefined && (one.startsWith(other) || other.startsWith(one))
}

/**
 * How many steps one push may take to match files against patterns: about 50 ms. 100 plain patterns and 4,000 files take a tenth of them;
 * patterns with many stars could take minutes.
 */
const maxSteps = 5_000_000

/**
 * Whether any file is watched: the last pattern that matches a file decides, and `!` excludes the file. When all patterns exclude, every
 * other file is watched. A push that takes more steps than allowed counts as watched, because building it is better than missing it.
 */
export function touchesWatched(files: readonly string[], patterns: readonly string[]): boolean {
  if (patterns.length === 0) return true
  const rules = patterns.map(parseRule).toReversed()
  const startsWatched = rules.every((rule) => rule.takesOut)
  const steps = { left: maxSteps }
  return files.some((file) => {
    const names = file.split('/')
    const last = rules.find((rule) => fits(rule, names, steps))
    return steps.left <= 0 || (last ? !last.takesOut : startsWatched)
  })
}

interface Rule {
  readonly takesOut: boolean
  /** The segments of the pattern, from the root. */
  readonly parts: readonly PatternPart[]
}

function parseRule(pattern: string): Rule {
  const takesOut = pattern.startsWith('!')
  const names = (takesOut ? pattern.slice(1) : pattern).split('/').filter((name) => name !== '' && name !== '.')
  // a folder stands for everything below it
  return { takesOut, parts: names.length > 0 ? [...names.map(patternPart), anyFolders] : [] }
}

const fits = ({ parts }: Rule, names: readonly string[], steps: Steps) => parts.length > 0 && matchesParts(parts, names, steps)
