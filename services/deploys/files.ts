import { type AppError, conflict, unavailable } from '../../core/errors.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { readManifest, readManifestEntries } from '../../infra/cas/manifests.ts'
import type { Services } from '../services.ts'
import type { DeployRow } from './deploys.ts'

export const filesDeleted = () => conflict('the files of this deploy were deleted; deploy again', 'files_deleted')

/** The hash of the manifest of a deploy. @throws AppError `conflict` when it has no files, or they were deleted */
export function requireFiles({ status, manifest_sha256, artifacts_purged }: DeployRow): string {
  if (artifacts_purged) throw filesDeleted()
  if (status === 'failed') throw conflict('a failed deploy has no files; list those of another one', 'wrong_status')
  if (manifest_sha256 === null)
    throw conflict(`a deploy that is ${status} has no files yet; wait until it is ready`, 'wrong_status')
  return manifest_sha256
}

/** @throws AppError `unavailable` */
export async function readFiles(services: Services, sha256: string): Promise<readonly ManifestEntry[]> {
  try {
    return (await readManifest(services.cas, sha256)).files
  } catch (error) {
    throw unreadable(services, sha256, error)
  }
}

/**
 * The files of a manifest in batches, sorted by path.
 * @param after the path of the last file of the page before
 * @throws AppError `unavailable`
 */
export async function* readFilesInBatches(
  services: Services,
  sha256: string,
  after: string | undefined,
): AsyncGenerator<readonly ManifestEntry[]> {
  try {
    yield* readManifestEntries(services.cas, sha256, after)
  } catch (error) {
    throw unreadable(services, sha256, error)
  }
}

function unreadable({ log }: Services, sha256: string, error: unknown): AppError {
  log.error({ err: error, sha256 }, 'manifest unreadable')
  return unavailable('the storage does not answer; try again in a few seconds')
}
