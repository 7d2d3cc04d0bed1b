import { parseBitbucket, parseBitbucketDc } from './git-payloads/bitbucket.ts'
import { branchOf, commitOf, ignored, notOfBranch, text } from './git-payloads/fields.ts'
import { parseGitea, parseGitHub } from './git-payloads/github.ts'
import { parseGitLab } from './git-payloads/gitlab.ts'
import { isBranchName } from './git-remotes.ts'

/** What parses a webhook, and where reports go. Forgejo speaks as Gitea does. */
export const forges = ['github', 'gitlab', 'gitea', 'bitbucket', 'bitbucket_dc', 'generic'] as const
export type Forge = (typeof forges)[number]

/** Names in lower case, as Node gives them. */
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

export interface Push {
  readonly kind: 'push'
  /** A branch without `refs/heads/`; undefined means the connected one. */
  readonly ref: string | undefined
  /** Undefined when the branch is gone or the sender does not say. */
  readonly commit: string | undefined
  readonly deleted: boolean
  /** Of the head commit. */
  readonly message: string | undefined
  readonly author: string | undefined
  readonly repo_url: string | undefined
  /** Undefined when the payload does not tell all of them. */
  readonly changed_files: readonly string[] | undefined
}

export interface PullRequest {
  readonly kind: 'pull_request'
  readonly number: number
  readonly action: 'opened' | 'updated' | 'closed'
  /** The head branch, which lies in another repository when it is from a fork. */
  readonly ref: string
  /** Bitbucket Cloud abbreviates it to 12 digits. */
  readonly commit: string | undefined
  readonly from_fork: boolean
  readonly base: string
  readonly title: string
  readonly message: string | undefined
  readonly author: string | undefined
  /** Of the base, where the pull request is. */
  readonly repo_url: string | undefined
}

export type GitEvent = Push | PullRequest | { readonly kind: 'ping' } | { readonly kind: 'ignored'; readonly reason: string }

export interface Delivery {
  readonly forge: Forge
  /** As the forge names it. */
  readonly event: string
  /** Never empty; one push to Bitbucket may move several branches. */
  readonly events: readonly GitEvent[]
}

export function headerOf(headers: Headers, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : undefined
}

/** Gitea sends GitHub's headers along with its own, so its own are looked for first (addendum E24). */
export function forgeOf(headers: Headers): { readonly forge: Forge; readonly event: string } | undefined {
  const has = (name: string) => headerOf(headers, name)
  const gitea = has('x-gitea-event') ?? has('x-forgejo-event')
  if (gitea !== undefined) return { forge: 'gitea', event: gitea }
  const github = has('x-github-event')
  if (github !== undefined) return { forge: 'github', event: github }
  const gitlab = has('x-gitlab-event')
  if (gitlab !== undefined) return { forge: 'gitlab', event: gitlab }
  const bitbucket = has('x-event-key')
  if (bitbucket !== undefined)
    return { forge: /^(repo:refs_changed|pr:|diagnostics:)/.test(bitbucket) ? 'bitbucket_dc' : 'bitbucket', event: bitbucket }
  return has('x-svc-token') === undefined ? undefined : { forge: 'generic', event: 'push' }
}

/**
 * The text of the JSON in a body, which GitHub and Gitea put into a form unless they are set to send JSON; empty without one.
 * @returns undefined when the form is none
 */
export function payloadText(headers: Headers, body: string): string | undefined {
  if (!headerOf(headers, 'content-type')?.toLowerCase().startsWith('application/x-www-form-urlencoded')) return body
  try {
    return decodeURIComponent(formMember(body, 'payload').replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

/** Looked for instead of splitting the form, as a body of nothing but `&` would become millions of texts. */
function formMember(body: string, name: string): string {
  const start = body.startsWith(`${name}=`) ? 0 : body.indexOf(`&${name}=`) + 1
  if (start === 0 && !body.startsWith(`${name}=`)) return ''
  const end = body.indexOf('&', start)
  return body.slice(start + name.length + 1, end === -1 ? undefined : end)
}

/**
 * What a delivery says. Its proof has to be checked before, on the raw bytes.
 * @param body the JSON of `payloadText`, or an empty object
 * @returns undefined when no forge is known by these headers
 */
export function parseDelivery(headers: Headers, body: unknown): Delivery | undefined {
  const sender = forgeOf(headers)
  if (!sender) return undefined
  const events = parsers[sender.forge](sender.event, body).map(checked)
  return { ...sender, events: events.length > 0 ? events : [notOfBranch] }
}

const parsers: Record<Forge, (event: string, body: unknown) => GitEvent[]> = {
  github: (event, body) => [parseGitHub(event, body)],
  gitlab: (event, body) => [parseGitLab(event, body)],
  gitea: (event, body) => [parseGitea(event, body)],
  bitbucket: parseBitbucket,
  bitbucket_dc: parseBitbucketDc,
  generic: (_event, body) => [parseGeneric(body)],
}

/** `{ref?, after?}` of a script or a forge that is not known here. */
function parseGeneric(body: unknown): GitEvent {
  const said = text(body, 'ref')
  const ref = branchOf(said)
  if (said !== undefined && ref === undefined) return notOfBranch
  const after = text(body, 'after')
  const deleted = after !== undefined && commitOf(after) === undefined
  const unknown = { message: undefined, author: undefined, repo_url: undefined, changed_files: undefined }
  return { kind: 'push', ref, commit: commitOf(after), deleted, ...unknown }
}

const commitForm = /^[0-9a-f]{7,64}$/

/** Whatever the forge, branches and commits have their form when they leave here. */
function checked(event: GitEvent): GitEvent {
  if (event.kind !== 'push' && event.kind !== 'pull_request') return event
  if (event.ref !== undefined && !isBranchName(event.ref)) return ignored('its branch has a name that git does not permit')
  if (event.commit !== undefined && !commitForm.test(event.commit)) return ignored('its commit has not the form of one')
  if (event.kind === 'pull_request' && !Number.isSafeInteger(event.number)) return ignored('its pull request has no number')
  return event
}
