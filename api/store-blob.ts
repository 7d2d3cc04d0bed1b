import { AppError, invalid } from '../core/errors.ts'
import { maxBlobBytes } from '../core/limits.ts'
import { sha256Pattern } from '../core/manifest.ts'
import { compressText } from '../infra/cas/published-files.ts'
import { lockProject } from '../services/projects/projects.ts'
import { findBlobSizes, renewStagedBlobs, stageBlob } from '../services/storage/blobs.ts'
import type { Context } from './context.ts'
import { checkStorage } from './gates.ts'
import type { Upload } from './operation.ts'
import { beginUpload, chargedBytes, type PendingUpload } from './pending-upload.ts'

const empty = () => invalid('the blob is empty; send 1 byte to 50 MB')
const tooLarge = () => new AppError('too_large', 'the blob is larger than 50 MB; publish such a file in an archive')

/** @throws AppError `invalid` */
export function requireHash(sha256: string): void {
  if (!sha256Pattern.test(sha256)) throw invalid('the sha256 in the path must be 64 lower-case hex characters')
}

/**
 * Takes a blob for a later deploy of the caller's project; it is kept for a day. May be repeated.
 * @throws AppError `invalid` for other bytes than those of the hash or none, `too_large`, `conflict` when they do not fit the quota
 */
export async function receiveBlob(ctx: Context, sha256: string, sent: Upload): Promise<{ size: number; existed: boolean }> {
  const { project_id: id, plan } = ctx.caller
  const announced = sent.expectedBytes
  if (announced === 0) throw empty()
  if (announced !== undefined && announced > maxBlobBytes) throw tooLarge()
  const known = (await findBlobSizes(ctx.db, id, [sha256])).has(sha256)
  const charged = chargedBytes(sent)
  await using upload = await beginUpload(ctx, { project_id: id, bytes: charged })
  // the charged bytes count already
  if (!known) await checkStorage(ctx.db, ctx, { id, plan }, { addedBytes: (announced ?? 0) - charged, upload: upload.id })
  const size = await store(upload, sent, sha256)
  if (size === 0) throw empty()

  const existed = await upload.accept(async (tx, project) => {
    const held = (await findBlobSizes(tx, id, [sha256])).has(sha256)
    if (!held) await checkStorage(tx, ctx, project, { addedBytes: size, upload: upload.id })
    await stageBlob(tx, id, { sha256, size }, ctx.clock())
    return held
  })
  if (!existed) ctx.log.info({ project_id: id, sha256, size }, 'blob stored')
  return { size, existed }
}

/** What the project has already is stored again all the same, which repairs an object that is damaged. */
async function store(upload: PendingUpload, sent: Upload, sha256: string): Promise<number> {
  try {
    const options = { ...compressText, limitBytes: maxBlobBytes, sha256 }
    return (await upload.objects.add(upload.receive(sent), options)).size
  } catch (error) {
    throw error instanceof AppError && error.kind === 'too_large' ? tooLarge() : error
  }
}

/** Which of the hashes the caller's project has; those that are only staged are kept for another day. */
export async function renewBlobs(ctx: Context, hashes: readonly string[]): Promise<ReadonlySet<string>> {
  const { project_id: id } = ctx.caller
  const held = await ctx.db.transaction().execute(async (tx) => {
    await lockProject(tx, id)
    await renewStagedBlobs(tx, id, hashes, ctx.clock())
    // a new look, as the sweeper may have taken one of them while its row was waited for
    return await findBlobSizes(tx, id, hashes)
  })
  return new Set(held.keys())
}
