import { Readable } from 'node:stream'
import type { Selectable } from 'kysely'
import { maxDeliveryBodyBytes, maxDeliveryFileBytes, maxDeliveryFiles } from '../../core/delivery-files.ts'
import { AppError, invalid, notFound } from '../../core/errors.ts'
import type { StoredObject } from '../../infra/cas/cas.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { detectType } from '../../infra/file-type.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { type ProjectRow, withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { lockLiveSite } from '../sites/sites.ts'
import { dropBlobs } from '../storage/blobs.ts'
import { beginUpload, chargedBytes, type PendingUpload, type Upload } from '../storage/pending-upload.ts'
import { checkStorage } from '../storage/quota.ts'
import { useUploaded } from '../storage/use-uploaded.ts'
import type { Tx } from '../transact.ts'

export type DeliveryFile = Selectable<DB['delivery_files']>
type Project = Pick<ProjectRow, 'id' | 'plan'>
type Site = Pick<Selectable<DB['sites']>, 'id' | 'project_id'>

/** The files of a site, oldest first. */
export function listDeliveryFiles(db: Db, siteId: string): Promise<DeliveryFile[]> {
  return db.selectFrom('delivery_files').selectAll().where('site_id', '=', siteId).orderBy('id').execute()
}

/**
 * Stores a file for the visitors who post a form of the site. The edge is notified with the commit.
 * @throws AppError `invalid` for no bytes, too many of them, a type that is not accepted or a fourth file, `too_large`, `conflict` when it
 * exceeds the quota or the site is in the trash
 */
export async function addDeliveryFile(
  services: Services,
  project: Project,
  site: Site,
  { name, label, upload: sent }: { readonly name: string; readonly label: string | null; readonly upload: Upload },
): Promise<void> {
  const { db, clock, log } = services
  const { id: site_id, project_id } = site
  checkAnnounced(sent.expectedBytes)
  refuseFourth((await listDeliveryFiles(db, site_id)).length)
  const charged = chargedBytes(sent)
  await using upload = await beginUpload(services, { project_id, bytes: charged })
  // the charged bytes already count
  await checkStorage(db, services, project, { addedBytes: (sent.expectedBytes ?? 0) - charged, upload: upload.id })
  const { sha256, size, content_type } = await store(upload, sent)

  const id = await upload.accept(async (tx, locked) => {
    await lockLiveSite(tx, project_id, site_id)
    refuseFourth((await listDeliveryFiles(tx, site_id)).length)
    await useUploaded(tx, services, locked, upload, { sha256, size })
    const row = { site_id, project_id, name, label, content_type, sha256, size, created_at: clock() }
    const inserted = await tx.insertInto('delivery_files').values(row).returning('id').executeTakeFirstOrThrow()
    await bumpRoutes(tx, { site_id })
    return inserted.id
  })
  log.info({ site_id, file_id: id, size, content_type }, 'delivery file added')
}

function checkAnnounced(bytes: number | undefined): void {
  if (bytes === 0) throw empty()
  if (bytes === undefined || bytes <= maxDeliveryFileBytes) return
  throw bytes <= maxDeliveryBodyBytes ? tooLarge() : new AppError('too_large', 'the file is larger than 50 MB')
}

function refuseFourth(files: number): void {
  if (files < maxDeliveryFiles) return
  throw invalid(`a site has at most ${maxDeliveryFiles} files for its visitors; remove one of them first`)
}

const empty = () => invalid('the file is empty')
const tooLarge = () => invalid('the file is larger than 50 MB')
const otherType = () =>
  invalid('the file must be a PDF, PNG, JPEG, GIF, WebP, zip or a text in UTF-8; HTML, SVG and XML are not accepted')

async function store(upload: PendingUpload, sent: Upload): Promise<StoredObject & { readonly content_type: string }> {
  const detector = detectType()
  async function* detected(stream: Readable): AsyncGenerator<Buffer> {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (!(await detector.see(chunk))) throw otherType()
      yield chunk
    }
  }
  try {
    const stream = Readable.from(detected(upload.receive(sent)), { objectMode: false })
    const object = await upload.objects.add(stream, { limitBytes: maxDeliveryFileBytes })
    if (object.size === 0) throw empty()
    const content_type = await detector.end()
    if (content_type === undefined) throw otherType()
    return { ...object, content_type }
  } catch (error) {
    throw error instanceof AppError && error.kind === 'too_large' ? tooLarge() : error
  }
}

/** Its links end at once. @throws AppError `not_found`; `conflict` when the site is in the trash */
export function removeDeliveryFile(services: Services, site: Site, fileId: string): Promise<void> {
  const { id: site_id, project_id } = site
  return withProject(services, project_id, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    const removed = await tx
      .deleteFrom('delivery_files')
      .where('id', '=', fileId)
      .where('site_id', '=', site_id)
      .returning('sha256')
      .executeTakeFirst()
    if (!removed) throw noSuchFile()
    await dropBlobs(tx, project_id, [removed.sha256], services.clock())
    await bumpRoutes(tx, { site_id })
    tx.afterCommit(() => services.log.info({ site_id, file_id: fileId }, 'delivery file removed'))
  })
}

/** @throws AppError `not_found`; `conflict` when the site is in the trash */
export function setDeliveryFileLabel(services: Services, site: Site, fileId: string, label: string | null): Promise<void> {
  const { id: site_id, project_id } = site
  return withProject(services, project_id, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    const { numUpdatedRows } = await tx
      .updateTable('delivery_files')
      .set({ label })
      .where('id', '=', fileId)
      .where('site_id', '=', site_id)
      .executeTakeFirst()
    if (numUpdatedRows === 0n) throw noSuchFile()
    await bumpRoutes(tx, { site_id })
  })
}

const noSuchFile = () => notFound('the auto-reply of the site has no file with this id; get_autoreply shows them all')

/** Deletes the files and the page of a site, under the locks of its project and itself. */
export async function deleteDeliveryOfSite(tx: Tx, { id, project_id }: Site, now: Date): Promise<void> {
  const files = await tx.deleteFrom('delivery_files').where('site_id', '=', id).returning('sha256').execute()
  const pages = await tx.deleteFrom('delivery_pages').where('site_id', '=', id).returning('logo_sha256').execute()
  const logos = pages.flatMap(({ logo_sha256 }) => (logo_sha256 === null ? [] : [logo_sha256]))
  await dropBlobs(tx, project_id, [...files.map(({ sha256 }) => sha256), ...logos], now)
}
