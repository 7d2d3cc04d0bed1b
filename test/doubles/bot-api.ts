import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/** Who is what in a channel: by the id of the person. The bot is among them when it is an administrator. */
export interface TestChannel {
  readonly id: number
  title: string
  /** Undefined for a private channel. */
  username?: string
  readonly roles: Map<number, 'owner' | 'administrator' | 'member'>
}

export interface Asked {
  readonly method: string
  /** Without the token. */
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingHttpHeaders
  readonly body: any
}

export interface Told {
  readonly status: number
  readonly body: unknown
}

/** How a messenger misbehaves. */
export type Fault = 'overloaded' | 'broken' | 'garbage' | 'silent' | undefined

/** What both doubles of messengers have. */
export interface BotApi extends AsyncDisposable {
  readonly api: string
  readonly token: string
  readonly botId: number
  readonly botName: string
  /** Every call, oldest first. */
  readonly asked: Asked[]
  /** What the bot has sent. */
  readonly sent: { readonly to: number; readonly text: string }[]
  /** Where the platform wants to be called, and the secret that goes along. */
  webhook: { readonly url: string; readonly secret: string } | undefined
  fault: Fault
  /** How long each answer takes. */
  delayMs: number
  channel(options?: { username?: string; botRole?: 'administrator' | 'member' | 'none' }): TestChannel
  findChannel(reference: string): TestChannel | undefined
  /** Calls the webhook of the platform with an update. Answers the status. */
  call(base: string, update: object, options?: { secret?: string; path?: string }): Promise<number>
}

interface Options {
  readonly name: string
  readonly token: string
  readonly botId: number
  readonly secretHeader: string
  /** The path without the token; undefined for a wrong token. */
  readonly admit: (path: string, headers: IncomingHttpHeaders) => string | undefined
  readonly answer: (api: BotApi, asked: Asked) => Told
  readonly overloaded: Told
  readonly unauthorized: Told
}

let nextId = 1000

/** A server that answers as the API of a messenger does; what both have in common. */
export async function startBotApi(options: Options): Promise<BotApi> {
  const channels: TestChannel[] = []
  const server = createServer((request, response) => void handle(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://double')
    const path = options.admit(url.pathname, request.headers)
    const sent = await text(request)
    const body = sent === '' ? undefined : (JSON.parse(sent) as unknown)
    const asked = { method: request.method ?? '', path: path ?? '', query: url.searchParams, headers: request.headers, body }
    made.asked.push(asked)
    if (made.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, made.delayMs))
    if (made.fault === 'silent') return
    const told = toldBy(asked, path !== undefined)
    response.writeHead(told.status, { 'content-type': 'application/json' })
    response.end(typeof told.body === 'string' ? told.body : JSON.stringify(told.body))
  }

  function toldBy(asked: Asked, isAdmitted: boolean): Told {
    if (made.fault === 'overloaded') return options.overloaded
    if (made.fault === 'broken') return { status: 502, body: '<html>502 Bad Gateway</html>' }
    if (made.fault === 'garbage') return { status: 200, body: '{"ok":true,"result":[[{"status":7}]],"members":"all"}' }
    return isAdmitted ? options.answer(made, asked) : options.unauthorized
  }

  const made: BotApi = {
    api: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token: options.token,
    botId: options.botId,
    botName: options.name,
    asked: [],
    sent: [],
    webhook: undefined,
    fault: undefined,
    delayMs: 0,
    channel({ username, botRole = 'administrator' } = {}) {
      nextId += 1
      const channel: TestChannel = {
        id: -1_000_000_000_000 - nextId,
        title: `Channel ${nextId}`,
        ...(username !== undefined && { username }),
        roles: new Map(),
      }
      if (botRole !== 'none') channel.roles.set(options.botId, botRole)
      channels.push(channel)
      return channel
    },
    findChannel: (reference) =>
      channels.find(({ id, username }) => String(id) === reference || (username !== undefined && `@${username}` === reference)),
    async call(base, update, { secret, path } = {}) {
      const response = await fetch(base + (path ?? new URL(made.webhook?.url ?? '').pathname), {
        method: 'POST',
        headers: { 'content-type': 'application/json', [options.secretHeader]: secret ?? made.webhook?.secret ?? '' },
        body: JSON.stringify(update),
      })
      await response.arrayBuffer()
      return response.status
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return made
}
