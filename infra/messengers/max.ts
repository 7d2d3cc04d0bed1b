import { z } from 'zod'
import type { ChannelReference } from '../../core/messengers.ts'
import { preferredLanguage } from '../../core/page-language.ts'
import { cachedBot } from './bot.ts'
import { type Call, type MessengerRequest, openCalls } from './calls.ts'
import { numericId, shortText } from './fields.ts'
import { type BotRoleChange, type BotUpdate, type Channel, MessengerError, type MessengerProvider } from './provider.ts'

const title = 'MAX'

const User = z.object({ user_id: numericId, username: z.string().nullish() })
const Chat = z.object({ chat_id: numericId, type: z.string(), title: z.string().nullish(), link: z.string().nullish() })
const Member = z.object({ user_id: numericId, is_owner: z.boolean(), is_admin: z.boolean() })
const Members = z.object({ members: z.array(Member).max(100) })
const Person = User.extend({ is_bot: z.boolean().optional() })
const locale = z.string().nullish()
const Started = z.object({
  update_type: z.literal('bot_started'),
  user: Person,
  payload: shortText(200).nullish(),
  user_locale: locale,
})
const Created = z.object({
  update_type: z.literal('message_created'),
  message: z.object({
    sender: Person,
    recipient: z.object({ chat_type: z.string() }),
    link: z.object({ type: z.string(), chat_id: numericId.nullish() }).nullish(),
    body: z.object({ text: shortText(1000).nullish() }),
  }),
  user_locale: locale,
})
const Removed = z.object({ update_type: z.literal('bot_removed'), chat_id: numericId })
const Update = z.discriminatedUnion('update_type', [Started, Created])

/** The Bot API of MAX (dev.max.ru/docs-api). */
export function openMax({ token, api }: { readonly token: string; readonly api: string }) {
  const call = openCalls(title, api)
  const bot = cachedBot(async () => {
    const { user_id, username } = User.parse(await answerOf(call, '', token, { method: 'GET', path: '/me' }))
    return { id: user_id, username }
  })
  return (payer: string): MessengerProvider => {
    const ask = (request: MessengerRequest) => answerOf(call, payer, token, request)
    const read = (path: string) => orUndefined(ask({ method: 'GET', path }))
    return {
      name: 'max',
      secretHeader: 'x-max-bot-api-secret',
      deepLink: async (payload) => `https://max.ru/${encodeURIComponent((await bot()).username)}?start=${payload}`,
      readUpdate,
      readRoleChange,
      async register({ url, secret }) {
        await ask({
          method: 'POST',
          path: '/subscriptions',
          json: { url, secret, update_types: ['bot_started', 'message_created', 'bot_removed'] },
        })
      },
      async send(userId, text) {
        const path = `/messages?user_id=${encodeURIComponent(userId)}&disable_link_preview=true`
        await ask({ method: 'POST', path, json: { text } })
      },
      async findChannel(reference) {
        const answer = await read(`/chats/${encodeURIComponent(nameOf(reference))}`)
        return answer === undefined ? undefined : channelOf(understood(Chat, answer))
      },
      async roleOf(channel, userId) {
        const answer = await read(`/chats/${encodeURIComponent(channel)}/members?user_ids=${encodeURIComponent(userId)}`)
        if (answer === undefined) return undefined
        const member = understood(Members, answer).members.find(({ user_id }) => user_id === userId)
        if (!member) return 'none'
        return member.is_owner ? 'owner' : member.is_admin ? 'administrator' : 'member'
      },
      async isBotAdmin(channel) {
        const answer = await read(`/chats/${encodeURIComponent(channel)}/members/me`)
        return answer !== undefined && understood(Member, answer).is_admin
      },
    }
  }
}

const nameOf = (reference: ChannelReference) => (reference.kind === 'id' ? reference.id : reference.name)

/** @throws MessengerError `unavailable` for an answer of another form */
function understood<Schema extends z.ZodType>(schema: Schema, answer: unknown): z.output<Schema> {
  const parsed = schema.safeParse(answer)
  if (parsed.success) return parsed.data
  throw new MessengerError('unavailable', `${title} did not answer as its documentation says`)
}

async function orUndefined(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof MessengerError && error.kind === 'refused') return undefined
    throw error
  }
}

/** The body of an answer. @throws MessengerError */
async function answerOf(call: Call, payer: string, token: string, request: MessengerRequest): Promise<unknown> {
  const { status, body } = await call(payer, { ...request, headers: { authorization: token } })
  if (status === 200 && typeof body === 'object' && body !== null) {
    // the answer to some requests has the status 200 also when they failed
    if ((body as { success?: unknown }).success !== false) return body
    throw new MessengerError('refused', `${title} has refused ${request.method} ${pathOf(request)}`)
  }
  const isRefusal = status === 400 || status === 403 || status === 404
  throw new MessengerError(
    isRefusal ? 'refused' : 'unavailable',
    `${title} answered ${status} to ${request.method} ${pathOf(request)}`,
  )
}

/** Without the query, which names a person. */
const pathOf = ({ path }: MessengerRequest) => path.split('?', 1)[0] ?? ''

const publicLink = /^https:\/\/max\.ru\/([\w-]{1,64})$/

function channelOf({ chat_id, type, title: name, link }: z.infer<typeof Chat>): Channel | undefined {
  if (type !== 'channel') return undefined
  const username = publicLink.exec(link ?? '')?.[1] ?? null
  return { external_id: chat_id, title: name ?? '', username, url: username === null ? null : `https://max.ru/${username}` }
}

/** Only what a person sends to the bot itself. */
function readUpdate(body: unknown): BotUpdate | undefined {
  const parsed = Update.safeParse(body)
  if (!parsed.success) return undefined
  const update = parsed.data
  const lang = preferredLanguage(update.user_locale ?? undefined)
  if (update.update_type === 'bot_started') {
    const { user, payload } = update
    return user.is_bot === true ? undefined : { user_id: user.user_id, lang, said: { kind: 'start', payload: payload ?? '' } }
  }
  const { sender, recipient, link, body: content } = update.message
  if (recipient.chat_type !== 'dialog' || sender.is_bot === true) return undefined
  const person = { user_id: sender.user_id, lang }
  if (link?.type === 'forward' && link.chat_id != null) return { ...person, said: { kind: 'forward', channel: link.chat_id } }
  return { ...person, said: { kind: 'text', text: content.text ?? '' } }
}

/** Only that the bot was removed: when it is added, it is no administrator yet. */
function readRoleChange(body: unknown): BotRoleChange | undefined {
  const removed = Removed.safeParse(body)
  return removed.success ? { channel: removed.data.chat_id, isAdmin: false } : undefined
}
