import { type Selectable, sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Tx } from '../transact.ts'

type PreviewRow = Selectable<DB['previews']>

/** A link that shows a deploy: its own, or that of its branch or pull request. */
export interface LivePreview {
  readonly deploy_id: string
  /** What its token is made from, with the generation: the deploy, or the preview of the branch. */
  readonly token_id: string
  readonly generation: number
  readonly token_sha256: string
}

/** The live links that show these deploys, a deploy's own before that of its branch. */
export async function findLivePreviews(db: Db, deployIds: readonly string[]): Promise<LivePreview[]> {
  if (deployIds.length === 0) return []
  const ids = sql<string>`any(${deployIds}::uuid[])`
  return await db
    .selectFrom('previews')
    .select(['deploy_id', 'deploy_id as token_id', 'generation', sql<number>`1`.as('rank')])
    .select((eb) => eb.ref('token_sha256').$notNull().as('token_sha256'))
    .where('deploy_id', '=', ids)
    .where('token_sha256', 'is not', null)
    .unionAll((eb) =>
      eb
        .selectFrom('git_previews')
        .select((eb) => eb.ref('deploy_id').$notNull().as('deploy_id'))
        .select(['id as token_id', 'generation', sql<number>`2`.as('rank')])
        .select((eb) => eb.ref('token_sha256').$notNull().as('token_sha256'))
        .where('deploy_id', '=', ids)
        .where('token_sha256', 'is not', null),
    )
    .orderBy('rank')
    .execute()
}

/**
 * Makes the deploy's link live; one that is live already stays as it is. The caller holds the site's lock and has checked that the deploy
 * may have a link. The edge follows with the commit.
 * @param hashOf the hash of the token of a generation
 */
export async function issuePreview(
  tx: Tx,
  deploy: Pick<Selectable<DB['deploys']>, 'id' | 'site_id'>,
  hashOf: (generation: number) => string,
  now: Date,
): Promise<{ readonly generation: number; readonly issued_at: Date }> {
  const preview = await findOrInsert(tx, deploy)
  const token_sha256 = hashOf(preview.generation)
  // another secret key makes another token of the same generation
  if (preview.token_sha256 === token_sha256 && preview.issued_at) {
    return { generation: preview.generation, issued_at: preview.issued_at }
  }
  await tx.updateTable('previews').set({ token_sha256, issued_at: now }).where('deploy_id', '=', deploy.id).execute()
  await bumpRoutes(tx, { site_id: deploy.site_id })
  return { generation: preview.generation, issued_at: now }
}

async function findOrInsert(
  tx: Tx,
  { id: deploy_id, site_id }: Pick<Selectable<DB['deploys']>, 'id' | 'site_id'>,
): Promise<PreviewRow> {
  await tx
    .insertInto('previews')
    .values({ deploy_id, site_id })
    .onConflict((conflict) => conflict.column('deploy_id').doNothing())
    .execute()
  return await tx.selectFrom('previews').selectAll().where('deploy_id', '=', deploy_id).executeTakeFirstOrThrow()
}

/**
 * Ends the deploy's link for good: a later one has another token. False when there is none. The caller holds the site's lock
 * and gives the site its next route version.
 * @param issuedBy only a link that was issued at that instant or before
 */
export async function endPreview(tx: Tx, deployId: string, issuedBy?: Date): Promise<boolean> {
  const ended = await tx
    .updateTable('previews')
    .set((eb) => ({ token_sha256: null, issued_at: null, generation: eb('generation', '+', 1) }))
    .where('deploy_id', '=', deployId)
    .where('token_sha256', 'is not', null)
    .$if(issuedBy !== undefined, (query) => query.where('issued_at', '<=', issuedBy ?? null))
    .executeTakeFirst()
  return ended.numUpdatedRows > 0n
}

/** Live links that were issued at that instant or before, of one site or of all. */
export function listExpiredPreviews(
  db: Db,
  issuedBy: Date,
  siteId?: string,
): Promise<Pick<PreviewRow, 'deploy_id' | 'site_id'>[]> {
  return db
    .selectFrom('previews')
    .select(['deploy_id', 'site_id'])
    .where('token_sha256', 'is not', null)
    .where('issued_at', '<=', issuedBy)
    .$if(siteId !== undefined, (query) => query.where('site_id', '=', siteId ?? ''))
    .execute()
}
