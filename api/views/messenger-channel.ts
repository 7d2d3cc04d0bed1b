import { z } from 'zod'
import { messengerNames } from '../../core/messengers.ts'
import { type ChannelRow, findChannel, noSuchChannel } from '../../services/messengers/channels.ts'
import type { Context } from '../context.ts'
import { writtenBy } from './authors.ts'

export const channel_id = z.uuid().describe('Id of the channel.')

export const MessengerChannel = z
  .object({
    id: z.uuid(),
    provider: z.enum(messengerNames),
    title: writtenBy('servers', z.string()),
    username: writtenBy('servers', z.string().nullable().describe('The public name, without @; null for a private channel.')),
    url: z.url().nullable().describe('Null for a private channel.'),
    bot_is_admin: z
      .boolean()
      .describe('Whether the bot was an administrator of the channel when it last looked; without, the channel lets nobody in.'),
  })
  .meta({ id: 'MessengerChannel' })

export const channelView = (row: ChannelRow): z.input<typeof MessengerChannel> => ({
  id: row.id,
  provider: row.provider,
  title: row.title,
  username: row.username,
  url: row.url,
  bot_is_admin: row.bot_is_admin,
})

/** @throws AppError `not_found` */
export async function channelOfCaller({ db, caller }: Context, { channel_id: id }: { channel_id: string }): Promise<ChannelRow> {
  const channel = await findChannel(db, caller.project_id, id)
  if (!channel) throw noSuchChannel()
  return channel
}
