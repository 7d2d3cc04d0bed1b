import type { Selectable } from 'kysely'
import { conflict, notFound } from '../../core/errors.ts'
import type { MessengerName } from '../../core/messengers.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { BotRoleChange } from '../../infra/messengers/provider.ts'
import { signOutEverybody } from '../access/visits.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'

export type ChannelRow = Selectable<DB['messenger_channels']>

export const noSuchChannel = () =>
  notFound('the project has no channel with this id; list_messenger_channels shows those that are connected')

/** The channels of the project, oldest first. */
export function listChannels(db: Db, projectId: string): Promise<ChannelRow[]> {
  return db.selectFrom('messenger_channels').selectAll().where('project_id', '=', projectId).orderBy('id').execute()
}

/** Undefined when the project has no such channel. */
export function findChannel(db: Db, projectId: string, id: string): Promise<ChannelRow | undefined> {
  return db
    .selectFrom('messenger_channels')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('id', '=', id)
    .executeTakeFirst()
}

/** Notes, for the lists of all projects that have connected the channel, whether the bot is an administrator of it. */
export async function noteBotRole(db: Db, provider: MessengerName, { channel, isAdmin }: BotRoleChange): Promise<void> {
  await db
    .updateTable('messenger_channels')
    .set({ bot_is_admin: isAdmin })
    .where('provider', '=', provider)
    .where('external_id', '=', channel)
    .where('bot_is_admin', '!=', isAdmin)
    .execute()
}

/**
 * Disconnects a channel. Sites in the trash that let its subscribers in do so no more.
 * @throws AppError `conflict` naming the sites that let its subscribers in
 */
export function disconnectChannel(services: Services, { id, project_id }: Pick<ChannelRow, 'id' | 'project_id'>): Promise<void> {
  return withProject(services, project_id, async (tx) => {
    // no site can begin to use it any more
    const channel = await tx.selectFrom('messenger_channels').select('id').where('id', '=', id).forUpdate().executeTakeFirst()
    if (!channel) throw noSuchChannel()
    const using = await sitesUsing(tx, id)
    const live = using.filter((site) => site.deletion_scheduled_at === null)
    if (live.length > 0) throw inUse(live.map(({ name }) => name))
    await tx.deleteFrom('messenger_channels').where('id', '=', id).execute()
    for (const { id: site_id } of using) {
      await bumpRoutes(tx, { site_id })
      await signOutEverybody(tx, { site_id, modes: ['subscribers'] })
    }
    tx.afterCommit(() => services.log.info({ project_id, channel_id: id }, 'messenger channel disconnected'))
  })
}

/** The sites that are closed to all but the subscribers of the channel and perhaps others. */
function sitesUsing(tx: Tx, channelId: string) {
  return tx
    .selectFrom('access_channels')
    .innerJoin('sites', 'sites.id', 'access_channels.site_id')
    .innerJoin('access_locks', 'access_locks.site_id', 'sites.id')
    .select(['sites.id', 'sites.name', 'sites.deletion_scheduled_at'])
    .where('access_channels.channel_id', '=', channelId)
    .where('access_locks.mode', '=', 'subscribers')
    .orderBy('sites.id')
    .execute()
}

const maxNamedSites = 3

function inUse(names: readonly string[]) {
  const more = names.length > maxNamedSites ? ` and ${names.length - maxNamedSites} more` : ''
  const shown = names.slice(0, maxNamedSites).map((name) => `"${name}"`)
  return conflict(
    `the subscribers of this channel are let in by ${shown.join(', ')}${more}: choose other channels there, or another way of closing`,
  )
}
