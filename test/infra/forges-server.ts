import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Send } from '../../infra/forges/transport.ts'

export interface Asked {
  /** Method, path and query. */
  readonly what: string
  readonly headers: IncomingHttpHeaders
  readonly body: any
}

export interface Told {
  readonly status?: number
  readonly headers?: Record<string, string>
  readonly body?: unknown
}

interface Note {
  readonly id: number
  readonly author: string
  body: string
  readonly deleted?: boolean
}

/** Answers as the APIs of the four forges do, each below its own path, and remembers deployments and comments. */
export interface ForgeServer {
  readonly origin: string
  readonly asked: Asked[]
  readonly notes: Note[]
  /** Who the token belongs to; undefined when it may not know. */
  me: string | undefined
  /** Answers instead of the API, while it says something. */
  instead: ((asked: Asked) => Told | undefined | Promise<Told>) | undefined
  readonly send: Send
}

const bitbucketHost = 'https://api.bitbucket.org'

type Route = readonly [RegExp, (asked: Asked, ...ids: string[]) => Told]

export async function startForgeServer(stack: AsyncDisposableStack): Promise<ForgeServer> {
  const notes: Note[] = []
  const deployments: any[] = []
  const missing = { status: 404, body: { message: 'Not Found' } }
  const add = (author: string, body: string): Note => {
    const note = { id: 100 + notes.length, author, body }
    notes.push(note)
    return note
  }
  const edit = (id: string, body: string, view: (note: Note) => unknown): Told => {
    const note = notes.find((one) => String(one.id) === id && !one.deleted)
    if (!note) return missing
    note.body = body
    return { body: view(note) }
  }
  const pageOf = (asked: Asked, size: number) => {
    const page = Number(/[?&]page=(\d+)/.exec(asked.what)?.[1] ?? 1)
    return notes.slice((page - 1) * size, page * size)
  }
  const issue = (note: Note) => ({ id: note.id, body: note.body, user: { id: note.author } })
  const note = (one: Note) => ({ id: one.id, body: one.body, author: { id: one.author } })
  const cloud = (one: Note) => ({
    id: one.id,
    content: { raw: one.body },
    user: { uuid: one.author },
    deleted: one.deleted ?? false,
  })
  const user = (key: string): Told =>
    server.me === undefined ? { status: 403, body: { message: 'no scope' } } : { body: { [key]: server.me } }
  const deploy = (asked: Asked, more: object): Told => {
    const made = { id: 500 + deployments.length, ...asked.body, ...more }
    deployments.push(made)
    return { status: 201, body: made }
  }
  const inEnvironment = (asked: Asked) => {
    const query = new URLSearchParams(asked.what.split('?')[1])
    return deployments.filter(({ environment }) => environment === query.get('environment'))
  }

  const routes: Route[] = [
    [/^GET \/api\/v3\/user$/, () => user('id')],
    [/^POST \/api\/v3\/repos\/ada\/site\/statuses\/\w+$/, () => ({ status: 201, body: { id: 1 } })],
    [/^GET \/api\/v3\/repos\/ada\/site\/deployments\?/, (asked) => ({ body: inEnvironment(asked) })],
    [/^POST \/api\/v3\/repos\/ada\/site\/deployments$/, (asked) => deploy(asked, {})],
    [/^POST \/api\/v3\/repos\/ada\/site\/deployments\/\d+\/statuses$/, () => ({ status: 201, body: { id: 2 } })],
    [/^GET \/api\/v3\/repos\/ada\/site\/issues\/7\/comments\?/, (asked) => ({ body: pageOf(asked, 100).map(issue) })],
    [
      /^POST \/api\/v3\/repos\/ada\/site\/issues\/7\/comments$/,
      (asked) => ({ status: 201, body: issue(add(server.me ?? 'me', asked.body.body)) }),
    ],
    [/^PATCH \/api\/v3\/repos\/ada\/site\/issues\/comments\/(\d+)$/, (asked, id) => edit(id ?? '', asked.body.body, issue)],

    [/^GET \/api\/v4\/user$/, () => user('id')],
    [/^POST \/api\/v4\/projects\/team%2Fweb%2Fsite\/statuses\/\w+$/, () => ({ status: 201, body: { id: 1 } })],
    [
      /^GET \/api\/v4\/projects\/team%2Fweb%2Fsite\/deployments\?/,
      (asked) => ({ body: inEnvironment(asked).filter((one) => one.status === 'running') }),
    ],
    [
      /^POST \/api\/v4\/projects\/team%2Fweb%2Fsite\/deployments$/,
      (asked) => ({ ...deploy(asked, {}), body: { ...deployments.at(-1), environment: { id: 9 } } }),
    ],
    [/^PUT \/api\/v4\/projects\/team%2Fweb%2Fsite\/deployments\/\d+$/, () => ({ body: {} })],
    [/^GET \/api\/v4\/projects\/team%2Fweb%2Fsite\/environments\?name=/, () => ({ body: [{ id: 9 }] })],
    [/^PUT \/api\/v4\/projects\/team%2Fweb%2Fsite\/environments\/9$/, () => ({ body: { id: 9 } })],
    [/^POST \/api\/v4\/projects\/team%2Fweb%2Fsite\/environments\/9\/stop$/, () => ({ body: { id: 9 } })],
    [
      /^GET \/api\/v4\/projects\/team%2Fweb%2Fsite\/merge_requests\/7\/notes\?/,
      (asked) => ({ body: pageOf(asked, 100).map(note) }),
    ],
    [
      /^POST \/api\/v4\/projects\/team%2Fweb%2Fsite\/merge_requests\/7\/notes$/,
      (asked) => ({ status: 201, body: note(add(server.me ?? 'me', asked.body.body)) }),
    ],
    [
      /^PUT \/api\/v4\/projects\/team%2Fweb%2Fsite\/merge_requests\/7\/notes\/(\d+)$/,
      (asked, id) => edit(id ?? '', asked.body.body, note),
    ],

    [/^GET \/api\/v1\/user$/, () => user('id')],
    [/^POST \/api\/v1\/repos\/ada\/site\/statuses\/\w+$/, () => ({ status: 201, body: { id: 1 } })],
    [/^GET \/api\/v1\/repos\/ada\/site\/issues\/7\/comments$/, () => ({ body: notes.map(issue) })],
    [
      /^POST \/api\/v1\/repos\/ada\/site\/issues\/7\/comments$/,
      (asked) => ({ status: 201, body: issue(add(server.me ?? 'me', asked.body.body)) }),
    ],
    [/^PATCH \/api\/v1\/repos\/ada\/site\/issues\/comments\/(\d+)$/, (asked, id) => edit(id ?? '', asked.body.body, issue)],

    [/^GET \/2\.0\/user$/, () => user('uuid')],
    [/^POST \/2\.0\/repositories\/team\/site\/commit\/\w+\/statuses\/build$/, () => ({ status: 201, body: { uuid: '{1}' } })],
    [
      /^GET \/2\.0\/repositories\/team\/site\/pullrequests\/7\/comments\?/,
      (asked) => ({ body: { pagelen: 100, values: pageOf(asked, 100).map(cloud) } }),
    ],
    [
      /^POST \/2\.0\/repositories\/team\/site\/pullrequests\/7\/comments$/,
      (asked) => ({ status: 201, body: cloud(add(server.me ?? 'me', asked.body.content.raw)) }),
    ],
    [
      /^PUT \/2\.0\/repositories\/team\/site\/pullrequests\/7\/comments\/(\d+)$/,
      (asked, id) => edit(id ?? '', asked.body.content.raw, cloud),
    ],
  ]

  const http = createServer(async (request, response) => {
    const sent = await text(request)
    const asked = {
      what: `${request.method} ${request.url}`,
      headers: request.headers,
      body: sent === '' ? undefined : JSON.parse(sent),
    }
    server.asked.push(asked)
    const told: Told = (await server.instead?.(asked)) ?? answer(routes, asked) ?? missing
    const isText = typeof told.body === 'string'
    response.writeHead(told.status ?? 200, { 'content-type': isText ? 'text/html' : 'application/json', ...told.headers })
    response.end(isText ? told.body : JSON.stringify(told.body))
  })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  stack.defer(() => {
    http.closeAllConnections()
    http.close()
  })
  const origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  const server: ForgeServer = { origin, asked: [], notes, me: 'me', instead: undefined, send: sendTo(origin) }
  return server
}

function answer(routes: readonly Route[], asked: Asked): Told | undefined {
  for (const [pattern, act] of routes) {
    const found = pattern.exec(asked.what)
    if (found) return act(asked, ...found.slice(1))
  }
  return undefined
}

/** Without redirects, as the real transport; Bitbucket Cloud has one address only, so its name leads here. */
const sendTo = (origin: string) =>
  (async ({ method, url, headers, body, timeoutMs }) => {
    const response = await fetch(url.replace(bitbucketHost, origin), {
      method,
      headers,
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
      ...(body !== undefined && { body }),
    })
    return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.text() }
  }) satisfies Send
