import type { Db } from '../../infra/db/database.ts'
import { MessengerError, type MessengerProvider } from '../../infra/messengers/provider.ts'
import type { Person } from './rates.ts'
import type { MessengerServices } from './services.ts'

/** `away`: the messenger does not answer, and no channel that it did answer for has the person as a subscriber. */
export type Membership = 'member' | 'stranger' | 'away'

interface Asked {
  readonly id: string
  readonly external_id: string
  readonly bot_is_admin: boolean
}

/**
 * Asks the messenger whether a person subscribes to one of its channels that the site lets in. A channel that the bot may not see into lets
 * nobody in. It takes a few seconds at most.
 */
export async function askMembership(
  services: MessengerServices,
  siteId: string,
  { provider: name, user_id }: Person,
): Promise<Membership> {
  const provider = services.messengers.open(name, siteId)
  // the operator has taken the bot away
  if (!provider) return 'away'
  const channels = await services.db
    .selectFrom('messenger_channels')
    .innerJoin('access_channels', 'access_channels.channel_id', 'messenger_channels.id')
    .select(['messenger_channels.id', 'messenger_channels.external_id', 'messenger_channels.bot_is_admin'])
    .where('access_channels.site_id', '=', siteId)
    .where('messenger_channels.provider', '=', name)
    .execute()
  const answers = await Promise.all(channels.map((channel) => askOne(services, provider, channel, user_id)))
  if (answers.includes('member')) return 'member'
  return answers.includes('away') ? 'away' : 'stranger'
}

async function askOne(
  { db, log }: MessengerServices,
  provider: MessengerProvider,
  channel: Asked,
  userId: string,
): Promise<Membership> {
  try {
    const role = await provider.roleOf(channel.external_id, userId)
    await noteWhetherAdmin(db, channel, role !== undefined)
    return role === undefined || role === 'none' ? 'stranger' : 'member'
  } catch (error) {
    if (!(error instanceof MessengerError)) throw error
    log.warn({ channel_id: channel.id, messenger: provider.name, reason: error.message }, 'messenger did not answer')
    return 'away'
  }
}

/** What the list of channels shows. */
async function noteWhetherAdmin(db: Db, { id, bot_is_admin }: Asked, isAdmin: boolean): Promise<void> {
  if (bot_is_admin === isAdmin) return
  await db.updateTable('messenger_channels').set({ bot_is_admin: isAdmin }).where('id', '=', id).execute()
}
