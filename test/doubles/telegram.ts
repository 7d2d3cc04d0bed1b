import { type Asked, type BotApi, startBotApi, type Told } from './bot-api.ts'

// As core.telegram.org/bots/api describes it (Bot API 7 to 9): POST /bot<token>/<method> with JSON, {ok, result} or {ok, error_code, description}.

const token = '123456789:AAtelegram-token-of-the-tests-0123'
const ok = (result: unknown): Told => ({ status: 200, body: { ok: true, result } })
const refused = (status: number, description: string): Told => ({ status, body: { ok: false, error_code: status, description } })

export interface Telegram extends BotApi {
  /** The person sends a text to the bot. */
  says(base: string, person: number, text: string, lang?: string): Promise<number>
  /** Somebody changes what the bot is in a channel. */
  changesBot(base: string, channel: { readonly id: number }, status: 'administrator' | 'left'): Promise<number>
  /** The person forwards a message of the channel to the bot. */
  forwards(base: string, person: number, channel: { readonly id: number; readonly title: string }): Promise<number>
}

export async function startTelegram(): Promise<Telegram> {
  const api = await startBotApi({
    name: 'field_notes_bot',
    token,
    botId: 123_456_789,
    secretHeader: 'x-telegram-bot-api-secret-token',
    admit: (path) => (path.startsWith(`/bot${token}/`) ? path.slice(`/bot${token}`.length) : undefined),
    answer,
    overloaded: {
      status: 429,
      body: { ok: false, error_code: 429, description: 'Too Many Requests: retry after 1', parameters: { retry_after: 1 } },
    },
    unauthorized: refused(401, 'Unauthorized'),
  })
  let update = 1
  const message = (person: number, lang: string, content: object) => ({
    update_id: update++,
    message: {
      message_id: update,
      date: Math.floor(Date.now() / 1000),
      chat: { id: person, type: 'private', first_name: 'Ada' },
      from: { id: person, is_bot: false, first_name: 'Ada', language_code: lang },
      ...content,
    },
  })
  return Object.assign(api, {
    says: (base: string, person: number, text: string, lang = 'en') => api.call(base, message(person, lang, { text })),
    changesBot: (base: string, { id }: { readonly id: number }, status: string) => {
      const user = { id: api.botId, is_bot: true, first_name: 'Plinth' }
      const members = { old_chat_member: { status: 'member', user }, new_chat_member: { status, user } }
      const chat = { id, type: 'channel', title: 'A channel' }
      const from = { id: 7, is_bot: false, first_name: 'Ada' }
      return api.call(base, { update_id: update++, my_chat_member: { chat, from, date: 0, ...members } })
    },
    forwards: (base: string, person: number, { id, title }: { readonly id: number; readonly title: string }) => {
      const forward_origin = { type: 'channel', date: 0, message_id: 7, chat: { id, type: 'channel', title } }
      return api.call(base, message(person, 'en', { forward_origin, text: 'A post' }))
    },
  })
}

function answer(api: BotApi, { path, body }: Asked): Told {
  switch (path) {
    case '/getMe':
      return ok({ id: api.botId, is_bot: true, first_name: 'Plinth', username: api.botName })
    case '/setWebhook':
      api.webhook = { url: body.url, secret: body.secret_token }
      return ok(true)
    case '/sendMessage':
      api.sent.push({ to: body.chat_id, text: body.text })
      return ok({ message_id: 1, date: 0, chat: { id: body.chat_id, type: 'private' } })
    case '/getChat': {
      const channel = api.findChannel(String(body.chat_id))
      if (!channel) return refused(400, 'Bad Request: chat not found')
      const { id, title, username } = channel
      return ok({ id, type: 'channel', title, ...(username !== undefined && { username }) })
    }
    case '/getChatMember':
      return memberOf(api, body)
    default:
      return refused(404, 'Not Found: method not found')
  }
}

const statuses = { owner: 'creator', administrator: 'administrator', member: 'member' } as const

/** "The method is only guaranteed to work for other users if the bot is an administrator in the chat." */
function memberOf(api: BotApi, { chat_id, user_id }: { chat_id: string; user_id: number }): Told {
  const channel = api.findChannel(chat_id)
  if (!channel) return refused(400, 'Bad Request: chat not found')
  const isAdmin = channel.roles.get(api.botId) === 'administrator'
  if (!isAdmin && user_id !== api.botId) return refused(400, 'Bad Request: member list is inaccessible')
  const role = channel.roles.get(user_id)
  const user = { id: user_id, is_bot: user_id === api.botId, first_name: 'Ada' }
  return ok({ status: role ? statuses[role] : 'left', user })
}
