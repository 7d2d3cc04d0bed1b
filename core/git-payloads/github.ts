import type { GitEvent, PullRequest } from '../git-events.ts'
import {
  branchOf,
  changedFiles,
  commitOf,
  field,
  isTrue,
  list,
  long,
  nothingFollows,
  notOfBranch,
  short,
  text,
} from './fields.ts'

export function parseGitHub(event: string, body: unknown): GitEvent {
  if (event === 'ping') return { kind: 'ping' }
  if (event === 'pull_request') return parsePullRequest(body)
  if (event !== 'push') return nothingFollows(event)
  // a forced push has also changed what it took away, and a new branch everything
  return parsePush(body, !isTrue(body, 'forced') && !isTrue(body, 'created') && list(body, 'commits').length < 2048)
}

/** Gitea and Forgejo, whose payloads are GitHub's with small differences. */
export function parseGitea(event: string, body: unknown): GitEvent {
  if (event === 'pull_request') return parsePullRequest(body)
  // a branch is deleted without a push
  if (event === 'delete' && text(body, 'ref_type') === 'branch')
    return { ...emptyPush(body), ref: branchOf(text(body, 'ref')), deleted: true }
  if (event !== 'push') return nothingFollows(event)
  return parsePush(body, list(body, 'commits').length === field(body, 'total_commits'))
}

const emptyPush = (body: unknown) =>
  ({
    kind: 'push',
    commit: undefined,
    message: undefined,
    author: short(text(body, 'pusher', 'login')),
    repo_url: text(body, 'repository', 'clone_url'),
    changed_files: undefined,
  }) as const

function parsePush(body: unknown, isWhole: boolean): GitEvent {
  const ref = branchOf(text(body, 'ref'))
  if (ref === undefined) return notOfBranch
  const commit = isTrue(body, 'deleted') ? undefined : commitOf(text(body, 'after'))
  const isNew = commitOf(text(body, 'before')) === undefined
  return {
    ...emptyPush(body),
    ref,
    commit,
    deleted: commit === undefined,
    message: long(text(body, 'head_commit', 'message')),
    author: short(text(body, 'head_commit', 'author', 'name') ?? text(body, 'pusher', 'name') ?? text(body, 'pusher', 'login')),
    changed_files: changedFiles(list(body, 'commits'), isWhole && !isNew),
  }
}

/** Gitea says `synchronized`. */
const actions: Readonly<Record<string, PullRequest['action']>> = {
  opened: 'opened',
  reopened: 'opened',
  synchronize: 'updated',
  synchronized: 'updated',
  closed: 'closed',
}

function parsePullRequest(body: unknown): GitEvent {
  const said = text(body, 'action') ?? ''
  const action = Object.hasOwn(actions, said) ? actions[said] : undefined
  const head = field(body, 'pull_request', 'head')
  const base = field(body, 'pull_request', 'base')
  const ref = text(head, 'ref')
  if (action === undefined) return nothingFollows(`pull_request ${said}`)
  if (ref === undefined) return notOfBranch
  const from = field(head, 'repo', 'id')
  return {
    kind: 'pull_request',
    number: Number(field(body, 'pull_request', 'number')),
    action,
    ref,
    commit: text(head, 'sha'),
    // the repository of a fork may be gone
    from_fork: from === undefined || from !== field(base, 'repo', 'id'),
    base: text(base, 'ref') ?? '',
    title: short(text(body, 'pull_request', 'title')) ?? '',
    message: undefined,
    author: short(text(body, 'pull_request', 'user', 'login')),
    repo_url: text(body, 'repository', 'clone_url'),
  }
}
