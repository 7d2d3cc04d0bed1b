import { conflict, unavailable } from '../../core/errors.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { readManifest } from '../../infra/cas/manifests.ts'
import type { Services } from '../services.ts'
import type { DeployRow } from './deploys.ts'

export const filesDeleted = () => conflict('the files of this deploy were deleted; deploy again', 'files_deleted')

/**
 * The files of a deploy, sorted by path.
 * @throws AppError `conflict` when it has none, or they were deleted; `unavailable` when the storage does not answer
 */
export const findFilesOfDeploy = (services: Services, deploy: DeployRow): Promise<readonly ManifestEntry[]> =>
  readFiles(services, requireFiles(deploy))

/** The hash of the manifest of a deploy. @throws AppError `conflict` when it has no files, or they were deleted */
export function requireFiles({ status, manifest_sha256, artifacts_purged }: DeployRow): string {
  if (artifacts_purged) throw filesDeleted()
  if (status === 'failed') throw conflict('a failed deploy has no files; list those of another one', 'wrong_status')
  if (manifest_sha256 === null)
    throw conflict(`a deploy that is ${status} has no files yet; wait until it is ready`, 'wrong_status')
  return manifest_sha256
}

/** @throws AppError `unavailable` */
export async function readFiles({ cas, log }: Services, sha256: string): Promise<readonly ManifestEntry[]> {
  try {
    return (await readManifest(cas, sha256)).files
  } catch (error) {
    log.error({ err: error, sha256 }, 'manifest unreadable')
    throw unavailable('the storage does not answer; try again in a few seconds')
  }
}
