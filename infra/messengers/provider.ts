import type { ChannelReference, ChannelRole, MessengerName } from '../../core/messengers.ts'
import type { PageLanguage } from '../../core/page-language.ts'

/** What a person has done in the chat with the bot. */
export interface BotUpdate {
  /** What the messenger calls the person. */
  readonly user_id: string
  readonly lang: PageLanguage
  readonly said:
    | { readonly kind: 'start'; readonly payload: string }
    /** A message of a channel was forwarded; `channel` is its id. */
    | { readonly kind: 'forward'; readonly channel: string }
    | { readonly kind: 'text'; readonly text: string }
}

/** A channel as its messenger describes it. */
export interface Channel {
  readonly external_id: string
  readonly title: string
  /** Null for a private channel, as is the address. */
  readonly username: string | null
  readonly url: string | null
}

/** The bot has become an administrator of a channel, or is none any more. */
export interface BotRoleChange {
  readonly channel: string
  readonly isAdmin: boolean
}

/** A messenger with its bot. Every call ends within a few seconds. */
export interface MessengerProvider {
  readonly name: MessengerName
  /** The header, in lower case, in which the messenger sends the secret of its webhook. */
  readonly secretHeader: string
  /** The link that opens the bot with the payload. */
  deepLink(payload: string): Promise<string>
  /** Undefined for what we do not look at. */
  readUpdate(body: unknown): BotUpdate | undefined
  /** Undefined for an update about something else. */
  readRoleChange(body: unknown): BotRoleChange | undefined
  /** Has the messenger call the address. May be repeated. */
  register(webhook: { readonly url: string; readonly secret: string }): Promise<void>
  send(userId: string, text: string): Promise<void>
  /** Undefined when the bot sees no such channel. */
  findChannel(reference: ChannelReference): Promise<Channel | undefined>
  /** Undefined when the bot may not see who is in the channel. */
  roleOf(channel: string, userId: string): Promise<ChannelRole | undefined>
  isBotAdmin(channel: string): Promise<boolean>
}

/**
 * `unavailable`: the messenger does not answer, or not as it should; a retry may succeed. `refused`: it has answered that it will not.
 * The message contains no secret.
 */
export class MessengerError extends Error {
  override readonly name = 'MessengerError'
  readonly kind: 'unavailable' | 'refused'

  constructor(kind: 'unavailable' | 'refused', message: string) {
    super(message)
    this.kind = kind
  }
}

export const isAway = (error: unknown) => error instanceof MessengerError && error.kind === 'unavailable'
