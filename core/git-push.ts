import type { Delivery, Forge, GitEvent, Headers } from './git-events.ts'
import { parseBitbucket, parseBitbucketDc } from './git-payloads/bitbucket.ts'
import { branchOf, commitOf, ignored, notOfBranch, text } from './git-payloads/fields.ts'
import { parseGitea, parseGitHub } from './git-payloads/github.ts'
import { parseGitLab } from './git-payloads/gitlab.ts'
import { isBranchName } from './git-remotes.ts'

export function headerOf(headers: Headers, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : undefined
}

/** Gitea sends GitHub's headers along with its own, so its own are checked first (addendum E24). */
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
 * Returns the JSON text of a body; GitHub and Gitea wrap it in a form unless they are set to send JSON. Empty for an empty body.
 * @returns undefined for an invalid form
 */
export function payloadText(headers: Headers, body: string): string | undefined {
  if (!headerOf(headers, 'content-type')?.toLowerCase().startsWith('application/x-www-form-urlencoded')) return body
  try {
    return decodeURIComponent(formMember(body, 'payload').replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

/** Finds the payload without splitting the form: a body of nothing but `&` would become millions of strings. */
function formMember(body: string, name: string): string {
  const start = body.startsWith(`${name}=`) ? 0 : body.indexOf(`&${name}=`) + 1
  if (start === 0 && !body.startsWith(`${name}=`)) return ''
  const end = body.indexOf('&', start)
  return body.slice(start + name.length + 1, end === -1 ? undefined : end)
}

/**
 * Parses a webhook delivery. Its signature must have been checked before, on the raw bytes.
 * @param body the JSON of `payloadText`, or an empty object
 * @returns undefined when the headers belong to no known forge
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

/** Parses `{ref?, after?}`, sent by a script or by an unknown forge. */
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

/** Checks the form of branch names and commits, for every forge. */
function checked(event: GitEvent): GitEvent {
  if (event.kind !== 'push' && event.kind !== 'pull_request') return event
  if (event.ref !== undefined && !isBranchName(event.ref)) return ignored('its branch has a name that git does not permit')
  if (event.commit !== undefined && !commitForm.test(event.commit)) return ignored('its commit has not the form of one')
  if (event.kind === 'pull_request' && !Number.isSafeInteger(event.number)) return ignored('its pull request has no number')
  return event
}
