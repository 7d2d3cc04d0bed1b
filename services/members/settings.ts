import type { Selectable } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'

/** What the owner of a site asks of its members. */
export type MemberSettings = Omit<Selectable<DB['member_settings']>, 'site_id' | 'project_id'>

const unset: MemberSettings = {
  moderation: true,
  ask_name: false,
  name_label: null,
  consent_mode: 'none',
  form_style: 'card',
  max_seats: null,
  consent_version: 0,
}

/** The settings of a site; those of a new site when nothing was set. */
export async function findSettings(db: Db, siteId: string): Promise<MemberSettings> {
  const row = await db
    .selectFrom('member_settings')
    .select(['moderation', 'ask_name', 'name_label', 'consent_mode', 'form_style', 'max_seats', 'consent_version'])
    .where('site_id', '=', siteId)
    .executeTakeFirst()
  return row ?? unset
}
