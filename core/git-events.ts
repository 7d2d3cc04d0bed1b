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
