import { z } from 'zod'
import type { ChannelRole } from '../../core/messengers.ts'
import { preferredLanguage } from '../../core/page-language.ts'
import { cachedBot } from './bot.ts'
import { type Call, openCalls } from './calls.ts'
import { numericId, publicName, shortText } from './fields.ts'
import { type BotRoleChange, type BotUpdate, type Channel, MessengerError, type MessengerProvider } from './provider.ts'

const title = 'Telegram'
/** Calls of the webhook at the same time; fewer than the requests of one address that are admitted. */
const maxConnections = 20

const User = z.object({ id: numericId, username: z.string().optional(), language_code: z.string().optional() })
const Chat = z.object({ id: numericId, type: z.string(), title: z.string().optional(), username: publicName.optional() })
const Message = z.object({
  chat: Chat,
  from: User.extend({ is_bot: z.boolean() }),
  text: shortText(1000).optional(),
  forward_origin: z.object({ type: z.string(), chat: Chat.optional() }).optional(),
})
const Update = z.object({ message: Message })
const Member = z.object({ status: z.string(), is_member: z.boolean().optional() })

const RoleChange = z.object({ my_chat_member: z.object({ chat: Chat, new_chat_member: Member }) })

/** How Telegram says that the person was never in the channel, which is no failure. */
const unknownPerson = /user not found|member not found|participant_id_invalid|user_not_participant|user_id_invalid/i

/** The Bot API of Telegram (core.telegram.org/bots/api). */
export function openTelegram({ token, api }: { readonly token: string; readonly api: string }) {
  const call = openCalls(title, api)
  const bot = cachedBot(async () => User.parse(await resultOf(call, '', token, 'getMe', {})))
  return (payer: string): MessengerProvider => {
    const ask = (method: string, parameters: object) => resultOf(call, payer, token, method, parameters)

    async function roleOf(channel: string, userId: string): Promise<ChannelRole | undefined> {
      try {
        const member = Member.safeParse(await ask('getChatMember', { chat_id: channel, user_id: Number(userId) }))
        if (!member.success) throw notUnderstood()
        return roles[member.data.status]?.(member.data) ?? 'none'
      } catch (error) {
        if (!(error instanceof MessengerError) || error.kind !== 'refused') throw error
        return unknownPerson.test(error.message) ? 'none' : undefined
      }
    }

    return {
      name: 'telegram',
      secretHeader: 'x-telegram-bot-api-secret-token',
      deepLink: async (payload) => `https://t.me/${encodeURIComponent((await bot()).username)}?start=${payload}`,
      readUpdate,
      readRoleChange,
      async register({ url, secret }) {
        const wanted = { allowed_updates: ['message', 'my_chat_member'], max_connections: maxConnections }
        await ask('setWebhook', { url, secret_token: secret, ...wanted })
      },
      async send(userId, text) {
        await ask('sendMessage', { chat_id: Number(userId), text, link_preview_options: { is_disabled: true } })
      },
      async findChannel(reference) {
        const chat_id = reference.kind === 'id' ? reference.id : `@${reference.name}`
        try {
          return channelOf(await ask('getChat', { chat_id }))
        } catch (error) {
          if (error instanceof MessengerError && error.kind === 'refused') return undefined
          throw error
        }
      },
      roleOf,
      isBotAdmin: async (channel) => (await roleOf(channel, (await bot()).id)) === 'administrator',
    }
  }
}

/** Statuses that are not among these are `left` and `kicked`. */
const roles: Readonly<Record<string, (member: z.infer<typeof Member>) => ChannelRole>> = {
  creator: () => 'owner',
  administrator: () => 'administrator',
  member: () => 'member',
  restricted: ({ is_member }) => (is_member === true ? 'member' : 'none'),
}

const notUnderstood = () => new MessengerError('unavailable', `${title} did not answer as its documentation says`)

const Answer = z.object({ ok: z.boolean(), result: z.unknown().optional(), description: shortText(200).optional() })

/** The result of a method. Its address contains the token. @throws MessengerError */
async function resultOf(call: Call, payer: string, token: string, method: string, json: object): Promise<unknown> {
  const { status, body } = await call(payer, { method: 'POST', path: `/bot${token}/${method}`, json })
  const answer = Answer.safeParse(body)
  if (!answer.success) throw notUnderstood()
  if (answer.data.ok) return answer.data.result
  const said = (answer.data.description ?? '').replaceAll(token, '***')
  // a wrong token is nothing that the person at the other end can change
  const isRefusal = status === 400 || status === 403
  throw new MessengerError(isRefusal ? 'refused' : 'unavailable', `${title} answered ${status} to ${method}: ${said}`)
}

function channelOf(result: unknown): Channel | undefined {
  const chat = Chat.safeParse(result)
  if (!chat.success) throw notUnderstood()
  const { id, type, title: name = '', username = null } = chat.data
  if (type !== 'channel') return undefined
  return { external_id: id, title: name, username, url: username === null ? null : `https://t.me/${username}` }
}

/** Only what a person sends to the bot itself. */
function readUpdate(body: unknown): BotUpdate | undefined {
  const update = Update.safeParse(body)
  if (!update.success) return undefined
  const { chat, from, text = '', forward_origin: origin } = update.data.message
  if (chat.type !== 'private' || from.is_bot) return undefined
  const person = { user_id: from.id, lang: preferredLanguage(from.language_code) }
  if (origin?.type === 'channel' && origin.chat) return { ...person, said: { kind: 'forward', channel: origin.chat.id } }
  const payload = /^\/start(?: (.*))?$/.exec(text)
  return { ...person, said: payload ? { kind: 'start', payload: payload[1] ?? '' } : { kind: 'text', text } }
}

function readRoleChange(body: unknown): BotRoleChange | undefined {
  const change = RoleChange.safeParse(body)
  if (!change.success) return undefined
  const { chat, new_chat_member } = change.data.my_chat_member
  return chat.type === 'channel' ? { channel: chat.id, isAdmin: new_chat_member.status === 'administrator' } : undefined
}
