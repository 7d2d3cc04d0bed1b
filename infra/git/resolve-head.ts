import { readFile } from 'node:fs/promises'
import { openGuardedClient } from '../net/guarded-fetch.ts'
import type { RepositoryRequest } from './fetch-repository.ts'
import { openRemote } from './remote.ts'
import { resolveCommit } from './resolve.ts'

export interface ResolveHeadOptions extends Pick<RepositoryRequest, 'repo_url' | 'ref' | 'token' | 'allowPrivate'> {
  /** A PEM file of authorities that are trusted besides those of this machine. */
  readonly caFile?: string | undefined
  readonly timeoutMs?: number
  readonly signal?: AbortSignal | undefined
}

const maxAnswerBytes = 8 * 1024 * 1024

/**
 * Finds the current commit of a branch, without fetching it.
 * @throws GitError
 */
export async function resolveHead(options: ResolveHeadOptions): Promise<string> {
  const { repo_url, ref, token, allowPrivate, caFile, timeoutMs = 20_000, signal } = options
  const ca = caFile === undefined ? undefined : await readFile(caFile, 'utf8')
  await using client = openGuardedClient({ allowPrivate, ca, timeoutMs, signal })
  return await resolveCommit(openRemote({ client, url: repo_url, token, maxAnswerBytes }), ref)
}
