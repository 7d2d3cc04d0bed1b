import type { Forge } from '../../core/git-events.ts'
import { forgeAddress } from './address.ts'
import { passwordOf } from './authorization.ts'
import { bitbucketClient } from './bitbucket.ts'
import { giteaClient } from './gitea.ts'
import { githubClient } from './github.ts'
import { gitlabClient } from './gitlab.ts'
import type { ForgeClient } from './reports.ts'
import { openApi, type Send } from './transport.ts'

export interface ForgeOptions {
  readonly repo_url: string
  /** The forge that sends the webhooks. */
  readonly seen: Forge | undefined
  readonly token: string
  readonly send: Send
  readonly now: () => Date
}

/** @returns undefined when reports cannot go to this repository */
export function openForge({ repo_url, seen, token, send, now }: ForgeOptions): ForgeClient | undefined {
  const address = forgeAddress(repo_url, seen)
  if (!address) return undefined
  const { forge, base, repository } = address
  const secrets = [token, passwordOf(token)].filter((secret) => secret !== '')
  const open = { github: githubClient, gitlab: gitlabClient, gitea: giteaClient, bitbucket: bitbucketClient }[forge]
  return open(repository, (headers) => openApi({ base, secrets, send, now, headers }), token)
}
