import { type Asked, type BotApi, startBotApi, type Told } from './bot-api.ts'

// As dev.max.ru/docs-api describes it (2026): the token in `Authorization`, JSON, {code, message} for failures.

const token = 'max-token-of-the-tests-0123456789'
const refused = (status: number, code: string): Told => ({ status, body: { code, message: code } })

export interface Max extends BotApi {
  /** The person opens the bot with a link. */
  starts(base: string, person: number, payload: string, lang?: string): Promise<number>
  says(base: string, person: number, text: string): Promise<number>
  forwards(base: string, person: number, channel: { readonly id: number }): Promise<number>
  /** Somebody removes the bot from a channel. */
  removesBot(base: string, channel: { readonly id: number }): Promise<number>
}

export async function startMax(): Promise<Max> {
  const api = await startBotApi({
    name: 'id7700000000_bot',
    token,
    botId: 987_654,
    secretHeader: 'x-max-bot-api-secret',
    admit: (path, { authorization }) => (authorization === token ? path : undefined),
    answer,
    overloaded: refused(429, 'too.many.requests'),
    unauthorized: refused(401, 'verify.token'),
  })
  const user = (user_id: number) => ({ user_id, first_name: 'Ada', is_bot: false, last_activity_time: 0 })
  const message = (person: number, content: object) => ({
    update_type: 'message_created',
    timestamp: Date.now(),
    user_locale: 'ru',
    message: {
      sender: user(person),
      recipient: { chat_id: 5, chat_type: 'dialog' },
      timestamp: Date.now(),
      body: { mid: 'mid.1', seq: 1, text: '', attachments: null },
      ...content,
    },
  })
  return Object.assign(api, {
    starts: (base: string, person: number, payload: string, lang = 'en') => {
      const started = { update_type: 'bot_started', timestamp: Date.now(), chat_id: 5, user: user(person), payload }
      return api.call(base, { ...started, user_locale: lang })
    },
    says: (base: string, person: number, text: string) =>
      api.call(base, message(person, { body: { mid: 'mid.1', seq: 1, text } })),
    removesBot: (base: string, { id }: { readonly id: number }) =>
      api.call(base, { update_type: 'bot_removed', timestamp: Date.now(), chat_id: id, user: user(7), is_channel: true }),
    forwards: (base: string, person: number, { id }: { readonly id: number }) =>
      api.call(
        base,
        message(person, { link: { type: 'forward', chat_id: id, message: { mid: 'mid.0', seq: 1, text: 'A post' } } }),
      ),
  })
}

function answer(api: BotApi, { method, path, query, body }: Asked): Told {
  const [, collection, id = '', members, me] = path.split('/').map(decodeURIComponent)
  if (path === '/me') {
    return { status: 200, body: { user_id: api.botId, first_name: 'Plinth', username: api.botName, is_bot: true } }
  }
  if (path === '/subscriptions' && method === 'POST') {
    api.webhook = { url: body.url, secret: body.secret }
    return { status: 200, body: { success: true } }
  }
  if (path === '/messages' && method === 'POST') {
    api.sent.push({ to: Number(query.get('user_id')), text: body.text })
    return { status: 200, body: { message: { timestamp: 0, body: { mid: 'mid.2', seq: 2, text: body.text } } } }
  }
  if (collection !== 'chats') return refused(404, 'not.found')
  const channel = api.findChannel(id) ?? api.findChannel(`@${id}`)
  if (!channel?.roles.has(api.botId)) return refused(404, 'chat.not.found')
  if (members === undefined) {
    const link = channel.username === undefined ? null : `https://max.ru/${channel.username}`
    const { title } = channel
    return {
      status: 200,
      body: { chat_id: channel.id, type: 'channel', status: 'active', title, link, is_public: link !== null },
    }
  }
  const view = (user_id: number) => {
    const role = channel.roles.get(user_id)
    return { user_id, first_name: 'Ada', is_owner: role === 'owner', is_admin: role === 'owner' || role === 'administrator' }
  }
  if (me === 'me') return { status: 200, body: view(api.botId) }
  if (channel.roles.get(api.botId) !== 'administrator') return refused(403, 'chat.denied')
  const wanted = (query.get('user_ids') ?? '').split(',').map(Number)
  return { status: 200, body: { members: wanted.filter((one) => channel.roles.has(one)).map(view) } }
}
