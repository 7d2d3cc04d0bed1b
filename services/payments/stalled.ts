import type { Db } from '../../infra/db/database.ts'

/** Lists payments whose provider should have been asked before the instant, by id. */
export function listStalledCheckouts(db: Db, before: Date, page: { limit: number; afterId: string | undefined }) {
  return db
    .selectFrom('checkouts')
    .select(['id as checkout_id', 'site_id', 'project_id'])
    .where('next_look_at', '<', before)
    .$if(page.afterId !== undefined, (query) => query.where('id', '>', page.afterId ?? ''))
    .orderBy('id')
    .limit(page.limit)
    .execute()
}
