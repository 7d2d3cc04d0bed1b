/** The forges whose webhooks are parsed and which get reports. Forgejo is treated as Gitea. */
export const forges = ['github', 'gitlab', 'gitea', 'bitbucket', 'bitbucket_dc', 'generic'] as const
export type Forge = (typeof forges)[number]

/** Request headers, their names in lower case as in Node. */
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

export interface Push {
  readonly kind: 'push'
  /** A branch without `refs/heads/`; undefined means the connected one. */
  readonly ref: string | undefined
  /** Undefined when the branch is gone or the sender does not say. */
  readonly commit: string | undefined
  readonly deleted: boolean
  /** The message of the head commit. */
  readonly message: string | undefined
  readonly author: string | undefined
  readonly repo_url: string | undefined
  /** Undefined when the payload does not list all of them. */
  readonly changed_files: readonly string[] | undefined
}

export interface PullRequest {
  readonly kind: 'pull_request'
  readonly number: number
  readonly action: 'opened' | 'updated' | 'closed'
  /** The head branch; that of a fork is in another repository. */
  readonly ref: string
  /** Bitbucket Cloud abbreviates it to 12 digits. */
  readonly commit: string | undefined
  readonly from_fork: boolean
  readonly base: string
  readonly title: string
  readonly message: string | undefined
  readonly author: string | undefined
  /** The base repository, which has the pull request. */
  readonly repo_url: string | undefined
}

export type GitEvent = Push | PullRequest | { readonly kind: 'ping' } | { readonly kind: 'ignored'; readonly reason: string }

export interface Delivery {
  readonly forge: Forge
  /** The forge's name of the event. */
  readonly event: string
  /** Never empty; one push to Bitbucket may move several branches. */
  readonly events: readonly GitEvent[]
}
