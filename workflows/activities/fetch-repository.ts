import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { activityInfo } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { counted, sizeText } from '../../core/amounts.ts'
import type { GitSource } from '../../core/deploy.ts'
import { oneLine } from '../../core/inline-code.ts'
import { maskSecrets } from '../../core/masking.ts'
import { skippedLines } from '../../core/skipped-paths.ts'
import type { Config } from '../../infra/config.ts'
import { open } from '../../infra/crypto/seal.ts'
import { isDatabaseAway } from '../../infra/db/errors.ts'
import type { FetchedSource } from '../../infra/git/fetch-repository.ts'
import { GitError } from '../../infra/git/git-error.ts'
import type { SourceFetcher } from '../../infra/git/source-fetcher.ts'
import { withHeartbeat } from '../../infra/temporal/heartbeat.ts'
import { findBuildInput } from '../../services/builds/input.ts'
import { findGitFetch, type GitFetch } from '../../services/git/deploys.ts'
import { keepFetchedSource, postponeFetch } from '../../services/git/fetched.ts'
import type { Services } from '../../services/services.ts'
import type { DeployRunInput } from '../contract/deploys.ts'
import type { FetchActivities, FetchInput, FetchResult } from '../contract/fetches.ts'

export interface FetchActivityDeps extends Services {
  readonly fetcher: SourceFetcher
}

/** Tries before a server that is away, busy or slow ends the deploy. */
const maxTries = 5
/** The pause before the second try; each later pause is twice as long. */
const firstPauseMs = 4000
/** Tries before a fault of the platform ends the deploy. While the database is away, there is no limit. */
const maxFaults = 10

/** The folder of repositories while they are read. */
export const fetchesDir = ({ dataDir }: Pick<Config, 'dataDir'>) => join(dataDir, 'git-fetches')

/** The activities of the fetch queue. An untrusted repository is read in a process of its own, which a cancellation kills. */
export function createFetchActivities(deps: FetchActivityDeps): FetchActivities {
  const { config, db, cas, keyring, fetcher, log } = deps
  const dir = fetchesDir(config)

  async function fetchOnce(
    { tries, ...run }: FetchInput,
    attempt: number,
    signal: AbortSignal,
  ): Promise<FetchResult | undefined> {
    const asked = await findGitFetch(db, run)
    if (!asked) return undefined
    // the result of an earlier try was lost
    if (asked.source_sha256 && asked.git) return await fetched(run, asked.git, 'fetched before')
    const token = tokenOf(asked)
    const line = lineWriter(deps, run.deploy_id, token === undefined ? [] : [token])
    const what = whatToFetch(asked)
    if ('refused' in what) return await refuse(line, what.refused)
    const archive = join(dir, `${run.run_id}-${attempt}.tar.gz`)
    try {
      await line(`fetching ${asked.fetch_commit ? `commit ${asked.fetch_commit.slice(0, 7)}` : what.name} of ${what.repo_url}`)
      const { allowPrivate } = config.git
      const caFile = config.inherited.NODE_EXTRA_CA_CERTS
      const found = await fetcher.fetch({ ...what, token, archive, allowPrivate, caFile, signal })
      const git = { commit: found.commit.oid, ref: what.name, message: found.commit.message, author: found.commit.author }
      for (const text of foundLines(found)) await line(text)
      await using objects = cas.batch()
      const source = await objects.add(createReadStream(archive))
      const skipped_paths = found.skipped.map(({ path }) => path)
      if (!(await keepFetchedSource(deps, run, asked, { git, source, skipped_paths }, objects))) return undefined
      log.info(
        { ...run, site_id: asked.site_id, commit: git.commit, files: found.files, bytes: found.bytes },
        'repository fetched',
      )
      return await fetched(run, git, amounts(found))
    } catch (error) {
      if (signal.aborted || !(error instanceof GitError)) throw error
      const { reason, refusedName } = error
      log.info({ ...run, site_id: asked.site_id, reason: refusedName ?? reason }, 'repository not fetched')
      if (error.kind !== 'unavailable' || tries >= maxTries) return await refuse(line, error.message)
      await line(error.message)
      return await fetchLater(run, asked.project_id, error.message, firstPauseMs * 2 ** (tries - 1))
    } finally {
      await rm(archive, { force: true })
    }
  }

  function tokenOf({ site_id, token_sealed }: GitFetch): string | undefined {
    if (token_sealed === null) return undefined
    return open(keyring, token_sealed, { table: 'git_connections', id: site_id, column: 'token_sealed' })
  }

  /** Returns the deploy's permit until the next try. */
  async function fetchLater(run: DeployRunInput, project_id: string, error: string, retry_after_ms: number) {
    const waits = await postponeFetch(deps, run, project_id, retry_after_ms)
    return waits ? ({ outcome: 'away', error, retry_after_ms } as const) : undefined
  }

  async function fetched(run: DeployRunInput, git: GitSource, facts: string): Promise<FetchResult | undefined> {
    const input = await findBuildInput(deps, run)
    if (!input) return undefined
    const { size } = await deps.buildLogs.read(run.deploy_id, 0, 0)
    return { outcome: 'fetched', input: { ...input, log_bytes: size }, git, facts }
  }

  return {
    fetchRepository: (input) =>
      withHeartbeat(async (signal) => {
        const { attempt } = activityInfo()
        try {
          return await fetchOnce(input, attempt, signal)
        } catch (error) {
          if (signal.aborted || isDatabaseAway(error) || attempt < maxFaults) throw error
          throw ApplicationFailure.create({ message: (error as Error).message, nonRetryable: true })
        }
      }),
  }
}

/** The repository and ref to fetch, or why nothing is fetched. */
function whatToFetch(asked: GitFetch) {
  const { repo_url, branch, activate, preview_ref, fetch_ref, fetch_commit } = asked
  if (repo_url === null || branch === null) return { refused: disconnected }
  if (activate) return { repo_url, name: branch, ref: fetch_commit ?? branch }
  if (preview_ref === null || fetch_ref === null || !asked.may_build) return { refused: closed }
  return { repo_url, name: preview_ref, ref: fetch_commit ?? fetch_ref }
}

const disconnected = 'the repository was disconnected; connect it and deploy again'
const closed = 'the preview was closed, or its pull request is not approved; push to its branch to open it, or approve it'

type WriteLine = (text: string) => Promise<void>

async function refuse(line: WriteLine, error: string): Promise<FetchResult> {
  await line(`failed: ${error}`)
  return { outcome: 'failed', error }
}

/** Writes lines into the log of the build, before it begins. A failed write does not fail the deploy. */
function lineWriter({ buildLogs, log }: FetchActivityDeps, deployId: string, secrets: readonly string[]): WriteLine {
  return async (text) => {
    try {
      await buildLogs.append(deployId, Buffer.from(`${oneLine(maskSecrets(text, secrets))}\n`))
    } catch (error) {
      log.error({ err: error, deploy_id: deployId }, 'build log not written')
    }
  }
}

function foundLines({ skipped, ...found }: FetchedSource): string[] {
  const { oid, message, author } = found.commit
  const commit = `commit ${oid.slice(0, 7)} ${JSON.stringify(message)} by ${author}, ${amounts(found)}`
  return [commit, ...skippedLines(skipped)]
}

const amounts = ({ files, bytes }: Pick<FetchedSource, 'files' | 'bytes'>) => `${counted(files, 'file')}, ${sizeText(bytes)}`
