import { z } from 'zod'
import { maxChannelsPerProject, maxChannelsPerSite, messengerNames } from '../../core/messengers.ts'
import { disconnectChannel, listChannels } from '../../services/messengers/channels.ts'
import { createConnectLink } from '../../services/messengers/connect.ts'
import { closeToSubscribers } from '../../services/messengers/subscribers-mode.ts'
import { operation } from '../operation.ts'
import { SiteAccess } from '../views/access.ts'
import { isoTime, Ok, site_id, time } from '../views/fields.ts'
import { channel_id, channelOfCaller, channelView, MessengerChannel } from '../views/messenger-channel.ts'
import { siteOfCaller } from '../views/site.ts'
import { shownAccess } from './access.ts'

const tag = 'Access'

export const list_messenger_channels = operation({
  id: 'list_messenger_channels',
  title: 'List channels',
  summary: 'Lists the channels of messengers that are connected to the project, oldest first.',
  tag,
  rest: 'GET /api/v1/messenger-channels',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({}),
  output: z.array(MessengerChannel).max(maxChannelsPerProject),
  handler: async (ctx) => (await listChannels(ctx.db, ctx.caller.project_id)).map(channelView),
})

export const connect_messenger_channel = operation({
  id: 'connect_messenger_channel',
  title: 'Connect a channel',
  summary:
    'Makes a link to the bot of the platform that works once, for 15 minutes. An administrator of the channel opens it, makes the bot an administrator of the channel as well, and forwards a message of the channel to the bot or sends its @name.',
  tag,
  rest: 'POST /api/v1/messenger-channels',
  tool: {},
  scope: 'editor',
  input: z.object({ provider: z.enum(messengerNames).describe('The messenger of the channel.') }),
  example: { provider: 'telegram' },
  whenSuspended: 'refuse',
  output: z.object({ link: z.url(), expires_at: time }).meta({ id: 'ConnectLink' }),
  errors: [402, 409, 503],
  handler: async (ctx, { provider }) => {
    const { link, expires_at } = await createConnectLink(ctx, ctx.caller.project_id, provider)
    return { link, expires_at: isoTime(expires_at) }
  },
})

export const disconnect_messenger_channel = operation({
  id: 'disconnect_messenger_channel',
  title: 'Disconnect a channel',
  summary: 'Disconnects a channel that lets nobody into a site.',
  tag,
  rest: 'DELETE /api/v1/messenger-channels/{channel_id}',
  tool: { destructive: true },
  scope: 'editor',
  input: z.object({ channel_id }),
  load: channelOfCaller,
  output: Ok,
  errors: [409],
  handler: async (ctx, _input, channel) => {
    await disconnectChannel(ctx, channel)
    return { ok: true as const }
  },
})

export const set_site_subscribers_access = operation({
  id: 'set_site_subscribers_access',
  title: 'Close a site to all but subscribers',
  summary:
    'Closes a site to all but the subscribers of channels, or changes the channels: a subscriber of any one of them is let in. A switch to this mode, and taking a channel away, sign out everybody.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/access/subscribers-mode',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({
    site_id,
    channel_ids: z.array(z.uuid()).min(1).max(maxChannelsPerSite).describe('Connected channels of the project.'),
  }),
  example: { channel_ids: ['019a1b2c-3d4e-7f60-8a9b-0c1d2e3f4a5b'] },
  load: siteOfCaller,
  requires: 'subscribers_access',
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: SiteAccess,
  errors: [402, 409],
  handler: async (ctx, { channel_ids }, site) => {
    await closeToSubscribers(ctx, site, [...new Set(channel_ids)])
    return shownAccess(ctx, site)
  },
})
