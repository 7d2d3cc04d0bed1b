import { join } from 'node:path'
import type { SkippedPath } from '../../core/skipped-paths.ts'
import { writeTarGz } from '../archive/write-tar.ts'
import { type GuardedOptions, openGuardedClient } from '../net/guarded-fetch.ts'
import type { GitLimits } from './limits.ts'
import { type Commit, openObjectStore } from './object-store.ts'
import { downloadPack } from './pack-stream.ts'
import { openRemote } from './remote.ts'
import { resolveCommit } from './resolve.ts'
import { openSourceTree } from './source-tree.ts'
import { unpack } from './unpack.ts'

export interface RepositoryRequest {
  /** The result of `judgeRepoUrl`. */
  readonly repo_url: string
  /** A branch, a full ref such as `refs/pull/3/head`, or a commit id. */
  readonly ref: string
  readonly token?: string | undefined
  /** The path of the new tar.gz; it must not exist. */
  readonly archive: string
  /** An empty folder for the pack. */
  readonly workDir: string
  readonly limits: GitLimits
  /** Permits private addresses, every port and plain http. */
  readonly allowPrivate: boolean
  /** Authorities, in PEM, that are trusted besides those of this machine. */
  readonly ca?: string | undefined
}

export interface FetchedSource {
  readonly commit: Pick<Commit, 'oid' | 'message' | 'author' | 'committed_at'>
  readonly files: number
  /** The size of all files. */
  readonly bytes: number
  readonly skipped: readonly SkippedPath[]
}

/**
 * Fetches one commit and writes its files into an archive. The caller limits its memory and removes leftovers.
 * @throws GitError
 */
export async function fetchRepository(asked: RepositoryRequest, network: Partial<GuardedOptions> = {}): Promise<FetchedSource> {
  const { repo_url, ref, token, archive, workDir, limits, allowPrivate, ca } = asked
  const packFile = join(workDir, 'pack')
  await using client = openGuardedClient({ allowPrivate, ca, timeoutMs: limits.timeoutMs, ...network })
  const remote = openRemote({ client, url: repo_url, token })
  const oid = await resolveCommit(remote, ref)
  await downloadPack(remote, { commit: oid, file: packFile, maxPackBytes: limits.maxPackBytes })

  using objects = await unpack(packFile, join(workDir, 'objects'), {
    // at most one for each file and folder, plus the commit and the root
    maxObjects: limits.maxFiles + 2,
    maxObjectBytes: limits.maxFileBytes,
    maxInflatedBytes: limits.maxBytes,
  })
  const store = openObjectStore(objects)
  const { tree, ...commit } = await store.commit(oid)
  const source = openSourceTree(store, limits)
  await writeTarGz(archive, source.files(tree), commit.committed_at)
  return { commit, ...source.facts() }
}
