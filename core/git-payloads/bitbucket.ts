import type { GitEvent, PullRequest } from '../git-events.ts'
import { branchOf, commitOf, field, list, long, nameOf, nothingFollows, notOfBranch, short, text } from './fields.ts'

/** Bitbucket Cloud. */
export function parseBitbucket(event: string, body: unknown): GitEvent[] {
  const repo = text(body, 'repository', 'links', 'html', 'href')
  if (event === 'repo:push') return list(body, 'push', 'changes').map((change) => parseChange(change, repo))
  const action = Object.hasOwn(actions, event) ? actions[event] : undefined
  return [action ? parsePullRequest(action, field(body, 'pullrequest'), repo) : nothingFollows(event)]
}

function parseChange(change: unknown, repo_url: string | undefined): GitEvent {
  const moved = field(change, 'new') ?? field(change, 'old')
  if (text(moved, 'type') !== 'branch') return notOfBranch
  const deleted = field(change, 'new') === undefined
  const head = field(change, 'new', 'target')
  return {
    kind: 'push',
    ref: text(moved, 'name'),
    commit: text(head, 'hash'),
    deleted,
    message: long(text(head, 'message')),
    author: short(text(head, 'author', 'user', 'display_name')) ?? nameOf(text(head, 'author', 'raw')),
    repo_url,
    changed_files: undefined,
  }
}

const actions: Readonly<Record<string, PullRequest['action']>> = {
  'pullrequest:created': 'opened',
  'pullrequest:updated': 'updated',
  'pullrequest:fulfilled': 'closed',
  'pullrequest:rejected': 'closed',
}

function parsePullRequest(action: PullRequest['action'], request: unknown, repo_url: string | undefined): GitEvent {
  const ref = text(request, 'source', 'branch', 'name')
  if (ref === undefined) return notOfBranch
  const from = text(request, 'source', 'repository', 'uuid')
  return {
    kind: 'pull_request',
    number: Number(field(request, 'id')),
    action,
    ref,
    commit: text(request, 'source', 'commit', 'hash'),
    from_fork: from === undefined || from !== text(request, 'destination', 'repository', 'uuid'),
    base: text(request, 'destination', 'branch', 'name') ?? '',
    title: short(text(request, 'title')) ?? '',
    message: undefined,
    author: short(text(request, 'author', 'display_name')),
    repo_url,
  }
}

/** Bitbucket Data Center. */
export function parseBitbucketDc(event: string, body: unknown): GitEvent[] {
  if (event === 'diagnostics:ping') return [{ kind: 'ping' }]
  if (event === 'repo:refs_changed') {
    const repo = cloneUrl(field(body, 'repository'))
    const author = short(text(body, 'actor', 'displayName'))
    return list(body, 'changes').map((change) => parseRefChange(change, author, repo))
  }
  const action = Object.hasOwn(dcActions, event) ? dcActions[event] : undefined
  return [action ? parseDcPullRequest(action, field(body, 'pullRequest')) : nothingFollows(event)]
}

const cloneUrl = (repository: unknown) =>
  text(
    list(repository, 'links', 'clone').find((link) => text(link, 'name') === 'http'),
    'href',
  )

function parseRefChange(change: unknown, author: string | undefined, repo_url: string | undefined): GitEvent {
  const ref = branchOf(text(change, 'ref', 'id')) ?? text(change, 'ref', 'displayId')
  if (text(change, 'ref', 'type') !== 'BRANCH' || ref === undefined) return notOfBranch
  const commit = commitOf(text(change, 'toHash'))
  return {
    kind: 'push',
    ref,
    commit,
    deleted: commit === undefined,
    message: undefined,
    author,
    repo_url,
    changed_files: undefined,
  }
}

const dcActions: Readonly<Record<string, PullRequest['action']>> = {
  'pr:opened': 'opened',
  'pr:from_ref_updated': 'updated',
  'pr:merged': 'closed',
  'pr:declined': 'closed',
  'pr:deleted': 'closed',
}

function parseDcPullRequest(action: PullRequest['action'], request: unknown): GitEvent {
  const ref = text(request, 'fromRef', 'displayId')
  if (ref === undefined) return notOfBranch
  const from = field(request, 'fromRef', 'repository', 'id')
  return {
    kind: 'pull_request',
    number: Number(field(request, 'id')),
    action,
    ref,
    commit: text(request, 'fromRef', 'latestCommit'),
    from_fork: from === undefined || from !== field(request, 'toRef', 'repository', 'id'),
    base: text(request, 'toRef', 'displayId') ?? '',
    title: short(text(request, 'title')) ?? '',
    message: undefined,
    author: short(text(request, 'author', 'user', 'displayName')),
    repo_url: cloneUrl(field(request, 'toRef', 'repository')),
  }
}
