import { type Selectable, sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Tx } from '../transact.ts'

export type PreviewLinkRow = Selectable<DB['preview_links']>

/** The owner of a link: a deploy or a branch preview, which has the same id as the link. */
export type LinkOwner = Pick<PreviewLinkRow, 'id' | 'site_id' | 'git_preview_id'>

/** The generation of a link that has not been issued yet; the database gives it to new rows. */
export const firstGeneration = 1

/** A link that shows a deploy. */
export interface LivePreviewLink {
  readonly id: string
  readonly deploy_id: string
  readonly generation: number
  readonly token_sha256: string
  readonly issued_at: Date
}

const live = (db: Db) =>
  db
    .selectFrom('preview_links')
    .select((eb) => ['id', 'generation', eb.ref('deploy_id').$notNull().as('deploy_id')])
    .select((eb) => [eb.ref('token_sha256').$notNull().as('token_sha256'), eb.ref('issued_at').$notNull().as('issued_at')])
    .where('token_sha256', 'is not', null)

/** The live links that show these deploys, a deploy's own before that of its branch. */
export async function listLiveLinks(db: Db, deployIds: readonly string[]): Promise<LivePreviewLink[]> {
  if (deployIds.length === 0) return []
  return await live(db)
    .where('deploy_id', '=', sql<string>`any(${deployIds}::uuid[])`)
    .orderBy((eb) => eb('git_preview_id', 'is not', null))
    .execute()
}

/**
 * Makes the link live and lets it show the deploy; one that does stays as it is. The caller holds the site's lock and has checked that the
 * deploy may be shown. The edge is notified with the commit.
 * @param hashOf the hash of the token of a generation
 */
export async function showDeploy(
  tx: Tx,
  owner: LinkOwner,
  deploy_id: string,
  hashOf: (generation: number) => string,
  now: Date,
): Promise<{ readonly generation: number; readonly issued_at: Date }> {
  const link = await findOrInsert(tx, owner, deploy_id)
  const { generation } = link
  // another secret key makes another token of the same generation
  const token_sha256 = hashOf(generation)
  const isIssued = link.token_sha256 === token_sha256
  const issued_at = (isIssued ? link.issued_at : null) ?? now
  if (!isIssued || link.deploy_id !== deploy_id) {
    await tx.updateTable('preview_links').set({ deploy_id, token_sha256, issued_at }).where('id', '=', owner.id).execute()
    await bumpRoutes(tx, { site_id: owner.site_id })
  }
  return { generation, issued_at }
}

async function findOrInsert(tx: Tx, owner: LinkOwner, deploy_id: string): Promise<PreviewLinkRow> {
  await tx
    .insertInto('preview_links')
    .values({ ...owner, deploy_id })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute()
  return await tx.selectFrom('preview_links').selectAll().where('id', '=', owner.id).executeTakeFirstOrThrow()
}

/** Links end for good: later ones of the same owners have other tokens. The caller holds the site's lock and gives it its next route version. */
const endLinks = (tx: Tx) =>
  tx
    .updateTable('preview_links')
    .set((eb) => ({
      token_sha256: null,
      issued_at: null,
      generation: eb('generation', '+', 1),
      // a deploy's own link always belongs to this deploy
      deploy_id: sql<string | null>`case when git_preview_id is null then deploy_id end`,
    }))
    .where('token_sha256', 'is not', null)

/**
 * Ends the deploy's own link. False when there is none.
 * @param issuedBy only a link that was issued at that instant or before
 */
export async function endLinkOfDeploy(tx: Tx, deployId: string, issuedBy?: Date): Promise<boolean> {
  const ended = await endLinks(tx)
    .where('id', '=', deployId)
    .$if(issuedBy !== undefined, (query) => query.where('issued_at', '<=', issuedBy ?? null))
    .executeTakeFirst()
  return ended.numUpdatedRows > 0n
}

/** Ends every link that shows the deploy. Returns their owners. */
export function endLinksToDeploy(tx: Tx, deployId: string): Promise<LinkOwner[]> {
  return endLinks(tx).where('deploy_id', '=', deployId).returning(['id', 'site_id', 'git_preview_id']).execute()
}

/** Ends the links of branch previews. */
export async function endLinksOfBranchPreviews(tx: Tx, previewIds: readonly string[]): Promise<void> {
  await endLinks(tx).where('git_preview_id', 'in', previewIds).execute()
}

/** Live links of deploys that were issued at that instant or before, of one site or of all. */
export function listExpiredLinks(db: Db, issuedBy: Date, siteId?: string) {
  return live(db)
    .select('site_id')
    .where('git_preview_id', 'is', null)
    .where('issued_at', '<=', issuedBy)
    .$if(siteId !== undefined, (query) => query.where('site_id', '=', siteId ?? ''))
    .execute()
}
