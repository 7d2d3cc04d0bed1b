import { AppError, invalid } from '../../core/errors.ts'
import { maxBlobBytes } from '../../core/limits.ts'
import { compressText } from '../../infra/cas/published-files.ts'
import type { ProjectRow } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { findBlobSizes, stageBlob } from './blobs.ts'
import { beginUpload, chargedBytes, type PendingUpload, type Upload } from './pending-upload.ts'
import { checkStorage, requireRoom } from './quota.ts'

const empty = () => invalid('the blob is empty; send 1 byte to 50 MB')
const tooLarge = () => new AppError('too_large', 'the blob is larger than 50 MB; publish such a file in an archive')

/**
 * Stores a blob for a later deploy of the project for a day. May be repeated.
 * @throws AppError `invalid` for no bytes or those of another hash, `too_large`, `conflict` when they exceed the quota
 */
export async function receiveBlob(
  services: Services,
  project: Pick<ProjectRow, 'id' | 'plan'>,
  sha256: string,
  sent: Upload,
): Promise<{ size: number; existed: boolean }> {
  const { db, clock, log } = services
  const { id } = project
  const announced = sent.expectedBytes
  if (announced === 0) throw empty()
  if (announced !== undefined && announced > maxBlobBytes) throw tooLarge()
  const known = (await findBlobSizes(db, id, [sha256])).has(sha256)
  const charged = chargedBytes(sent)
  await using upload = await beginUpload(services, { project_id: id, bytes: charged })
  // the charged bytes already count
  if (!known) await checkStorage(db, services, project, { addedBytes: (announced ?? 0) - charged, upload: upload.id })
  const size = await store(upload, sent, sha256)
  if (size === 0) throw empty()

  const existed = await upload.accept(async (tx, locked) => {
    const held = (await findBlobSizes(tx, id, [sha256])).has(sha256)
    if (!held) await requireRoom(tx, services, locked, { addedBytes: size, upload: upload.id })
    await stageBlob(tx, id, { sha256, size }, clock())
    return held
  })
  if (!existed) log.info({ project_id: id, sha256, size }, 'blob stored')
  return { size, existed }
}

/** Stores a blob that the project already has all the same, because that repairs a damaged object. */
async function store(upload: PendingUpload, sent: Upload, sha256: string): Promise<number> {
  try {
    const options = { ...compressText, limitBytes: maxBlobBytes, sha256 }
    return (await upload.objects.add(upload.receive(sent), options)).size
  } catch (error) {
    throw error instanceof AppError && error.kind === 'too_large' ? tooLarge() : error
  }
}
