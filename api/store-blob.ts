import { createHash } from 'node:crypto'
import { AppError, invalid, unavailable } from '../core/errors.ts'
import { maxBlobBytes } from '../core/limits.ts'
import { sha256Pattern } from '../core/manifest.ts'
import { otherBytes } from '../infra/cas/cas.ts'
import { putUnnamedFile } from '../infra/cas/published-files.ts'
import { findBlobSizes, renewStagedBlobs, stageBlob } from '../infra/db/blobs.ts'
import { lockProject } from '../infra/db/projects.ts'
import { holdSweeper } from '../infra/db/sweep.ts'
import type { Context } from './context.ts'
import { checkStorage } from './gates.ts'
import type { Upload } from './operation.ts'

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
export async function receiveBlob(ctx: Context, sha256: string, upload: Upload): Promise<{ size: number; existed: boolean }> {
  const { project_id: id, plan } = ctx.caller
  const announced = upload.expectedBytes
  if (announced === 0) throw empty()
  if (announced !== undefined && announced > maxBlobBytes) throw tooLarge()
  const known = (await findBlobSizes(ctx.db, id, [sha256])).has(sha256)
  if (!known) await checkStorage(ctx.db, ctx, { id, plan }, announced ?? 0)
  const size = known ? await verify(upload, sha256) : await store(ctx, upload, sha256)
  if (size === 0) throw empty()

  const existed = await ctx.db.transaction().execute(async (tx) => {
    const project = await lockProject(tx, id)
    await holdSweeper(tx)
    const held = (await findBlobSizes(tx, id, [sha256])).has(sha256)
    if (!held) {
      await checkStorage(tx, ctx, project, size)
      if (!(await ctx.cas.stat(sha256))) throw unavailable('the blob was removed meanwhile; send it again')
    }
    await stageBlob(tx, id, { sha256, size }, ctx.clock())
    return held
  })
  if (!existed) ctx.log.info({ project_id: id, sha256, size }, 'blob stored')
  return { size, existed }
}

async function store(ctx: Context, { stream }: Upload, sha256: string): Promise<number> {
  try {
    return (await putUnnamedFile(ctx.cas, stream, { limitBytes: maxBlobBytes, sha256 })).size
  } catch (error) {
    throw error instanceof AppError && error.kind === 'too_large' ? tooLarge() : error
  }
}

/** As {@link store}, for bytes that the project has already. */
async function verify({ stream }: Upload, sha256: string): Promise<number> {
  const hash = createHash('sha256')
  let size = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > maxBlobBytes) throw tooLarge()
    hash.update(chunk)
  }
  const actual = hash.digest('hex')
  if (size > 0 && actual !== sha256) throw otherBytes(sha256, actual)
  return size
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
