import type { Selectable } from 'kysely'
import { deliveryPath, usualLinkTtlDays } from '../../core/delivery-files.ts'
import { conflict } from '../../core/errors.ts'
import { required, siteUrl } from '../../infra/config.ts'
import { createDeliveryTokens } from '../../infra/crypto/delivery-tokens.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { lockLiveSite } from '../sites/sites.ts'
import { dropBlobs } from '../storage/blobs.ts'
import { beginUpload } from '../storage/pending-upload.ts'
import { useUploaded } from '../storage/use-uploaded.ts'
import { type Tx, transact } from '../transact.ts'

/** How the page with the files of a site looks, and how long its links open. */
export type DeliveryPage = Omit<Selectable<DB['delivery_pages']>, 'site_id' | 'project_id'>
/** The members to change; an undefined one stays. */
export type DeliveryPageChange = {
  readonly [Name in Exclude<keyof DeliveryPage, 'logo_sha256' | 'logo_size'>]?: DeliveryPage[Name] | undefined
}
type Site = Pick<Selectable<DB['sites']>, 'id' | 'project_id'>

const unset: DeliveryPage = {
  link_ttl_days: usualLinkTtlDays,
  page_title: null,
  upsell_text: null,
  logo_sha256: null,
  logo_size: null,
  page_logo_framed: false,
  page_logo_rounded: false,
}

/** The page of a site; that of a new site when nothing was set. */
export async function findDeliveryPage(db: Db, siteId: string): Promise<DeliveryPage> {
  const row = await db
    .selectFrom('delivery_pages')
    .select(['link_ttl_days', 'page_title', 'upsell_text', 'logo_sha256', 'logo_size', 'page_logo_framed', 'page_logo_rounded'])
    .where('site_id', '=', siteId)
    .executeTakeFirst()
  return row ?? unset
}

/** The edge is notified with the commit. @throws AppError `conflict` when the site is in the trash */
export function setDeliveryPage(services: Services, site: Site, change: DeliveryPageChange): Promise<void> {
  const { id: site_id, project_id } = site
  return transact(services, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    await tx
      .insertInto('delivery_pages')
      .values({ site_id, project_id, ...change })
      // an undefined member is left out of the statement
      .onConflict((conflict) => conflict.column('site_id').doUpdateSet({ ...change, site_id }))
      .execute()
    await bumpRoutes(tx, { site_id })
    tx.afterCommit(() => services.log.info({ site_id }, 'delivery page changed'))
  })
}

/** @throws AppError `conflict` while the page has no title and text */
export async function requireDeliveryPage(db: Db, siteId: string): Promise<void> {
  const { page_title } = await findDeliveryPage(db, siteId)
  if (page_title === null) throw conflict('the page has no title and text yet; set page_title and upsell_text first')
}

/**
 * Replaces the logo of the page, which is filled. The edge is notified with the commit.
 * @param image a small image that was made here
 * @throws AppError `conflict` when the page is not filled, the image exceeds the quota, or the site is in the trash
 */
export async function setPageLogo(services: Services, site: Site, image: Buffer): Promise<void> {
  const { id: site_id, project_id } = site
  await using upload = await beginUpload(services, { project_id, bytes: image.length })
  const logo = await upload.objects.add(image)
  await upload.accept(async (tx, project) => {
    await lockLiveSite(tx, project_id, site_id)
    await requireDeliveryPage(tx, site_id)
    await useUploaded(tx, services, project, upload, logo)
    await replaceLogo(tx, services, site, { logo_sha256: logo.sha256, logo_size: logo.size })
  })
}

/** May be repeated. @throws AppError `conflict` when the site is in the trash */
export function removePageLogo(services: Services, site: Site): Promise<void> {
  return withProject(services, site.project_id, async (tx) => {
    await lockLiveSite(tx, site.project_id, site.id)
    await replaceLogo(tx, services, site, { logo_sha256: null, logo_size: null })
  })
}

async function replaceLogo(
  tx: Tx,
  { clock, log }: Services,
  { id: site_id, project_id }: Site,
  logo: Pick<DeliveryPage, 'logo_sha256' | 'logo_size'>,
): Promise<void> {
  const { logo_sha256: before } = await findDeliveryPage(tx, site_id)
  await tx.updateTable('delivery_pages').set(logo).where('site_id', '=', site_id).execute()
  if (before !== null) await dropBlobs(tx, project_id, [before], clock())
  await bumpRoutes(tx, { site_id })
  tx.afterCommit(() => log.info({ site_id, removed: logo.logo_sha256 === null }, 'delivery page logo changed'))
}

const dayMs = 24 * 3_600_000

/** A link in an email. */
export interface DeliveryLink {
  readonly href: string
  /** The title of the page; null when its owner has set none. */
  readonly title: string | null
}

/**
 * The link for one submission to the files that the site has when it is opened. It ends by itself; nothing is stored for it, and deleting the
 * submission does not end it.
 * @param from the beginning of its lifetime
 */
export async function deliveryLink(
  { config, db }: Pick<Services, 'config' | 'db'>,
  site: { readonly id: string; readonly subdomain: string },
  submissionId: string,
  from: Date,
): Promise<DeliveryLink> {
  const { link_ttl_days, page_title } = await findDeliveryPage(db, site.id)
  const tokens = createDeliveryTokens(required(config.secretKey, 'PLINTH_SECRET_KEY'))
  const token = tokens.issue(site.id, submissionId, new Date(from.getTime() + link_ttl_days * dayMs))
  return { href: siteUrl(config, site.subdomain) + deliveryPath + token, title: page_title }
}
