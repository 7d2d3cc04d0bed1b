import { closeSite } from '../access/locks.ts'
import { signOutEverybody } from '../access/visits.ts'
import type { Services } from '../services.ts'
import type { SiteRow } from '../sites/sites.ts'
import type { Tx } from '../transact.ts'
import { noSuchChannel } from './channels.ts'

/**
 * Closes a site to all but the subscribers of channels, or changes which ones. When a channel is taken away, everybody is signed out.
 * @param channelIds each once
 * @throws AppError `not_found` for a channel that the project does not have; `conflict` when the site is in the trash
 */
export function closeToSubscribers(
  services: Services,
  site: Pick<SiteRow, 'id' | 'project_id'>,
  channelIds: readonly string[],
): Promise<void> {
  const { id: site_id, project_id } = site
  return closeSite(services, site, { mode: 'subscribers', sealed_password: null }, async (tx) => {
    await requireChannels(tx, project_id, channelIds)
    const removed = await replaceChannels(tx, site_id, channelIds)
    if (removed > 0) await signOutEverybody(tx, { site_id, modes: ['subscribers'] })
    await tx.updateTable('access_locks').set({ updated_at: services.clock() }).where('site_id', '=', site_id).execute()
    tx.afterCommit(() => services.log.info({ site_id, removed }, 'channels of a site changed'))
  })
}

/** Keeps the channels from being disconnected until the transaction ends. */
async function requireChannels(tx: Tx, projectId: string, ids: readonly string[]): Promise<void> {
  const own = await tx
    .selectFrom('messenger_channels')
    .select('id')
    .where('project_id', '=', projectId)
    .where('id', 'in', ids)
    .orderBy('id')
    .forKeyShare()
    .execute()
  if (own.length < ids.length) throw noSuchChannel()
}

/** Returns how many channels were removed. */
async function replaceChannels(tx: Tx, site_id: string, ids: readonly string[]): Promise<number> {
  const { numDeletedRows } = await tx
    .deleteFrom('access_channels')
    .where('site_id', '=', site_id)
    .where('channel_id', 'not in', ids)
    .executeTakeFirst()
  await tx
    .insertInto('access_channels')
    .values(ids.map((channel_id) => ({ site_id, channel_id })))
    .onConflict((found) => found.doNothing())
    .execute()
  return Number(numDeletedRows)
}
