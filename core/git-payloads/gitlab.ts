import type { GitEvent, PullRequest } from '../git-events.ts'
import { branchOf, changedFiles, commitOf, field, list, long, nothingFollows, notOfBranch, short, text } from './fields.ts'

export function parseGitLab(event: string, body: unknown): GitEvent {
  if (event === 'Merge Request Hook') return parseMergeRequest(body)
  return event === 'Push Hook' ? parsePush(body) : nothingFollows(event)
}

function parsePush(body: unknown): GitEvent {
  const ref = branchOf(text(body, 'ref'))
  if (ref === undefined) return notOfBranch
  const commits = list(body, 'commits')
  const commit = commitOf(text(body, 'checkout_sha'))
  const head = commits.find((one) => text(one, 'id') === commit)
  const isNew = commitOf(text(body, 'before')) === undefined
  return {
    kind: 'push',
    ref,
    commit,
    deleted: commit === undefined,
    message: long(text(head, 'message')),
    author: short(text(head, 'author', 'name') ?? text(body, 'user_name')),
    repo_url: text(body, 'project', 'git_http_url'),
    // it lists 20 at most
    changed_files: changedFiles(commits, !isNew && commits.length === field(body, 'total_commits_count')),
  }
}

const actions: Readonly<Record<string, PullRequest['action']>> = {
  open: 'opened',
  reopen: 'opened',
  merge: 'closed',
  close: 'closed',
}

function parseMergeRequest(body: unknown): GitEvent {
  const request = field(body, 'object_attributes')
  const said = text(request, 'action') ?? ''
  // every edit is an update, but only new commits have an old one
  const hasNewCommits = said === 'update' && text(request, 'oldrev') !== undefined
  const action = hasNewCommits ? 'updated' : Object.hasOwn(actions, said) ? actions[said] : undefined
  const ref = text(request, 'source_branch')
  if (action === undefined) return nothingFollows(`merge request ${said}`)
  if (ref === undefined) return notOfBranch
  const source = field(request, 'source_project_id')
  return {
    kind: 'pull_request',
    number: Number(field(request, 'iid')),
    action,
    ref,
    commit: text(request, 'last_commit', 'id'),
    from_fork: source === undefined || source !== field(request, 'target_project_id'),
    base: text(request, 'target_branch') ?? '',
    title: short(text(request, 'title')) ?? '',
    message: long(text(request, 'last_commit', 'message')),
    author: short(text(request, 'last_commit', 'author', 'name') ?? text(body, 'user', 'name')),
    repo_url: text(body, 'project', 'git_http_url'),
  }
}
