/** The messengers whose channels can close a site. */
export const messengerNames = ['telegram', 'max'] as const
export type MessengerName = (typeof messengerNames)[number]

/** How the messengers write their names. */
export const messengerTitles = { telegram: 'Telegram', max: 'MAX' } as const satisfies Record<MessengerName, string>

/** The channels that a project may have connected. */
export const maxChannelsPerProject = 20
/** The channels whose subscribers one site lets in. */
export const maxChannelsPerSite = 3
/** How long the link works with which an owner connects a channel. */
export const connectPeriodMs = 15 * 60_000
/** The links of a project that work at the same time. */
export const maxOpenConnections = 5

/** How long a subscriber stays logged in before the messenger is asked again. */
export const subscriberPeriodMs = 24 * 3_600_000
/** How long a subscriber stays logged in when the messenger does not answer. */
export const awayPeriodMs = 3_600_000
/** How often the bot sends a code for one login. */
export const maxCodesPerLogin = 3

/** What a deep link gives to the bot: what it is for, and a secret. It fits the 64 characters that Telegram allows. */
export interface StartPayload {
  readonly purpose: 'connect' | 'login'
  readonly nonce: string
}

const letters = { connect: 'c', login: 'l' } as const
const payloadPattern = /^([cl])([A-Za-z0-9_-]{32})$/

export const startPayload = ({ purpose, nonce }: StartPayload) => `${letters[purpose]}${nonce}`

/** Undefined for a text that no link of ours has. */
export function readStartPayload(text: string): StartPayload | undefined {
  const [, letter, nonce] = payloadPattern.exec(text) ?? []
  if (nonce === undefined) return undefined
  return { purpose: letter === letters.connect ? 'connect' : 'login', nonce }
}

/** The role of a person in a channel. */
export type ChannelRole = 'owner' | 'administrator' | 'member' | 'none'
export const mayConnect = (role: ChannelRole) => role === 'owner' || role === 'administrator'

/** What names a channel to its messenger: the id that it gave, or a public name. */
export type ChannelReference = { readonly kind: 'id'; readonly id: string } | { readonly kind: 'name'; readonly name: string }

const maxReferenceLength = 200
const references: Record<MessengerName, { readonly name: RegExp; readonly link: RegExp }> = {
  telegram: { name: /^@?([A-Za-z]\w{3,31})$/, link: /^(?:https?:\/\/)?t\.me\/([A-Za-z]\w{3,31})(?:\/\d{1,12})?\/?$/ },
  max: { name: /^@?([A-Za-z][\w-]{2,63})$/, link: /^(?:https?:\/\/)?max\.ru\/([A-Za-z][\w-]{2,63})\/?$/ },
}
/** A link to a message of a private channel. Bots know such a channel by the number with this prefix. */
const privateTelegramLink = /^(?:https?:\/\/)?t\.me\/c\/(\d{1,14})\/\d{1,12}$/

/** The channel that a message to the bot names: `@name`, or a link to it. Undefined when it names none. */
export function readChannelReference(messenger: MessengerName, message: string): ChannelReference | undefined {
  const text = message.slice(0, maxReferenceLength + 1).trim()
  if (text.length > maxReferenceLength) return undefined
  const { name, link } = references[messenger]
  const named = name.exec(text)?.[1] ?? link.exec(text)?.[1]
  if (named !== undefined) return { kind: 'name', name: named }
  const id = messenger === 'telegram' ? privateTelegramLink.exec(text)?.[1] : undefined
  return id === undefined ? undefined : { kind: 'id', id: `-100${id}` }
}
