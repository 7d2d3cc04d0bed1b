import type { StoredObject } from '../../infra/cas/cas.ts'
import type { ProjectRow } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import { findBlobSizes, useBlob } from './blobs.ts'
import type { PendingUpload } from './pending-upload.ts'
import { requireRoom } from './quota.ts'

/**
 * Makes an object of an upload a blob of the project, with one more use, in the transaction that accepts the upload.
 * @throws AppError `conflict` when it exceeds the quota
 */
export async function useUploaded(
  tx: Tx,
  services: Pick<Services, 'config' | 'db' | 'clock' | 'cas'>,
  project: ProjectRow,
  upload: Pick<PendingUpload, 'id'>,
  { sha256, size }: StoredObject,
): Promise<void> {
  const isHeld = (await findBlobSizes(tx, project.id, [sha256])).has(sha256)
  if (!isHeld) await requireRoom(tx, services, project, { addedBytes: size, upload: upload.id, needed: [sha256] })
  await useBlob(tx, project.id, { sha256, size })
}
