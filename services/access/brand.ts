import type { Selectable } from 'kysely'
import { unprocessable } from '../../core/errors.ts'
import type { StoredObject } from '../../infra/cas/cas.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { lockLiveSite } from '../sites/sites.ts'
import { dropBlobs } from '../storage/blobs.ts'
import { beginUpload } from '../storage/pending-upload.ts'
import { useUploaded } from '../storage/use-uploaded.ts'
import type { Tx } from '../transact.ts'

type Site = Pick<Selectable<DB['sites']>, 'id' | 'project_id'>

/** How the login page of a site looks. */
export type AccessBrand = Omit<Selectable<DB['access_brands']>, 'site_id' | 'project_id'>

/** The members to change; an undefined one stays. */
export type BrandChange = {
  readonly [Name in 'title' | 'description' | 'logo_framed' | 'logo_rounded' | 'favicon_mode']?: AccessBrand[Name] | undefined
}

/** An undefined image stays, and null removes it. */
interface Images<Image> {
  readonly logo?: Image | null | undefined
  readonly favicon?: Image | null | undefined
}

const unset: AccessBrand = {
  title: null,
  description: null,
  logo_sha256: null,
  logo_size: null,
  logo_framed: false,
  logo_rounded: false,
  favicon_mode: 'site',
  favicon_sha256: null,
  favicon_size: null,
}

/** The brand of a site; that of a new site when nothing was set. */
export async function findBrand(db: Db, siteId: string): Promise<AccessBrand> {
  const row = await db
    .selectFrom('access_brands')
    .select(['title', 'description', 'logo_sha256', 'logo_size', 'logo_framed', 'logo_rounded'])
    .select(['favicon_mode', 'favicon_sha256', 'favicon_size'])
    .where('site_id', '=', siteId)
    .executeTakeFirst()
  return row ?? unset
}

/**
 * Changes how the login page of a site looks, whether the site is closed or not. The edge is notified with the commit.
 * @param images small images that were made here
 * @throws AppError `unprocessable` for a custom icon without one; `conflict` when the images exceed the quota, or the site is in the trash
 */
export async function setBrand(services: Services, site: Site, change: BrandChange, images: Images<Buffer>): Promise<void> {
  const { id: site_id, project_id } = site
  const { logo, favicon } = images
  const bytes = (logo?.length ?? 0) + (favicon?.length ?? 0)
  if (bytes === 0) {
    const removed = { ...(logo === null && { logo }), ...(favicon === null && { favicon }) }
    return await withProject(services, project_id, async (tx) => {
      await lockLiveSite(tx, project_id, site_id)
      await writeBrand(tx, services, site, change, removed)
    })
  }
  await using upload = await beginUpload(services, { project_id, bytes })
  const stored = { logo: logo && (await upload.objects.add(logo)), favicon: favicon && (await upload.objects.add(favicon)) }
  await upload.accept(async (tx, project) => {
    await lockLiveSite(tx, project_id, site_id)
    for (const object of [stored.logo, stored.favicon]) {
      if (object) await useUploaded(tx, services, project, upload, object)
    }
    await writeBrand(tx, services, site, change, stored)
  })
}

/** Under the locks of the project and the site; the images are blobs of the project already. */
async function writeBrand(
  tx: Tx,
  { clock, log }: Services,
  { id: site_id, project_id }: Site,
  change: BrandChange,
  { logo, favicon }: Images<StoredObject>,
): Promise<void> {
  const before = await findBrand(tx, site_id)
  const hasIcon = favicon === undefined ? before.favicon_sha256 !== null : favicon !== null
  const favicon_mode = change.favicon_mode ?? modeAfter(before, favicon)
  if (favicon_mode === 'custom' && !hasIcon)
    throw unprocessable('favicon_mode is custom, but there is no icon; send favicon_base64')
  const columns = {
    ...change,
    favicon_mode,
    ...(logo !== undefined && { logo_sha256: logo?.sha256 ?? null, logo_size: logo?.size ?? null }),
    ...(favicon !== undefined && { favicon_sha256: favicon?.sha256 ?? null, favicon_size: favicon?.size ?? null }),
  }
  await tx
    .insertInto('access_brands')
    .values({ site_id, project_id, ...columns })
    // an undefined member is left out of the statement
    .onConflict((conflict) => conflict.column('site_id').doUpdateSet({ ...columns, site_id }))
    .execute()
  const replaced = [logo === undefined ? null : before.logo_sha256, favicon === undefined ? null : before.favicon_sha256]
  await dropBlobs(
    tx,
    project_id,
    replaced.filter((sha256) => sha256 !== null),
    clock(),
  )
  await bumpRoutes(tx, { site_id })
  const changed = Object.entries(columns).flatMap(([name, value]) => (value === undefined ? [] : [name]))
  tx.afterCommit(() => log.info({ site_id, changed }, 'login page changed'))
}

/** An icon is shown once it is sent, and no longer when it is removed. */
function modeAfter({ favicon_mode }: AccessBrand, favicon: StoredObject | null | undefined): AccessBrand['favicon_mode'] {
  if (favicon) return 'custom'
  return favicon === null && favicon_mode === 'custom' ? 'site' : favicon_mode
}
