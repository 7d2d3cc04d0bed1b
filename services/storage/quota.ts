import { conflict } from '../../core/errors.ts'
import { overStorageQuota } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import type { ProjectRow } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { storageBytes } from './blobs.ts'

/**
 * Checks the quota: exactly under the project's lock, and otherwise as an early refusal.
 * @param upload the upload with the bytes; uploads that began later do not count
 * @throws AppError `conflict`
 */
export async function checkStorage(
  db: Db,
  { config }: Pick<Services, 'config'>,
  project: Pick<ProjectRow, 'id' | 'plan'>,
  { addedBytes, upload }: { readonly addedBytes: number; readonly upload?: string | undefined },
): Promise<void> {
  const quota = config.plans[project.plan].storage_bytes
  if (quota === null || (await storageBytes(db, project.id, { upload })) + addedBytes <= quota) return
  throw conflict(overStorageQuota(project.plan, quota), 'quota_storage')
}
