import { once } from 'node:events'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { ConfigError } from '../config.ts'
import { request } from '../http.ts'
import { openServer } from '../listen.ts'
import { portWithoutBrowsers, privateLoopbackAddress } from './ports.ts'

// The Temporal UI reads and ends every workflow, has no login and answers any Host. A page whose name is rebound to loopback would be of the same
// origin as it, so browsers reach it only through the server of this file. The UI's own public path is no protection: it also answers without it.

export interface SocketAddress {
  readonly host: string
  readonly port: number
}

/**
 * Where the UI listens for this server: where no browser connects, and at an address that cannot be guessed where the system has one.
 * @throws ConfigError when another program has each of these ports
 */
export async function chooseUiAddress(): Promise<SocketAddress> {
  const host = await privateLoopbackAddress()
  const port = await portWithoutBrowsers(host)
  if (port === undefined)
    throw new ConfigError(`the Temporal UI needs a port that browsers refuse, and all of them are taken on ${host}`)
  return { host, port }
}

/** Serves the UI on a loopback port to the browser of this machine's user, and to no page of another origin. */
export function openTemporalUi(port: number, ui: SocketAddress): Promise<AsyncDisposable> {
  const answer = (incoming: IncomingMessage, response: ServerResponse) => {
    const refusal = refusalOf(incoming.method ?? '', incoming.url ?? '', incoming.headers)
    if (refusal) return refuse(response, refusal.status, refusal.message)
    void pass(incoming, response, ui)
  }
  return openServer(answer, { port }, { requestTimeoutMs: 60_000 })
}

/** Names of this machine that no name server can give to another address. A tunnel may lead here from any port. */
const ownHost = /^(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i

/** Why a request is not passed on; undefined when it is. */
export function refusalOf(method: string, target: string, headers: IncomingHttpHeaders) {
  const { host = '', origin, 'sec-fetch-site': site, 'sec-fetch-dest': destination } = headers
  if (!ownHost.test(host) || !target.startsWith('/'))
    return { status: 421, message: 'The Temporal UI has the host localhost or 127.0.0.1, and answers no other.' }
  const isRead = method === 'GET' || method === 'HEAD'
  if (!isRead && origin !== `http://${host}`)
    return { status: 403, message: 'Only pages of the Temporal UI itself may change something here.' }
  const isOwn = site === undefined || site === 'same-origin' || site === 'none'
  // a link from elsewhere opens the UI; nothing that another page loads shows that page something
  if (!isOwn && !(isRead && destination === 'document'))
    return { status: 403, message: 'Only pages of the Temporal UI itself may read something here; open it in a tab of its own.' }
  return undefined
}

async function pass(incoming: IncomingMessage, response: ServerResponse, ui: SocketAddress): Promise<void> {
  const headers = { ...endToEnd(incoming.headers), host: `${ui.host}:${ui.port}` }
  const outgoing = request({ ...ui, method: incoming.method, path: incoming.url, headers, agent: false })
  // what fails is seen below
  outgoing.on('error', () => undefined)
  response.on('close', () => outgoing.destroy())
  try {
    const answering = once(outgoing, 'response') as Promise<[IncomingMessage]>
    const [[answer]] = await Promise.all([answering, pipeline(incoming, outgoing)])
    response.writeHead(answer.statusCode ?? 502, endToEnd(answer.headers))
    await pipeline(answer, response)
  } catch {
    if (response.headersSent) response.destroy()
    else refuse(response, 502, 'Temporal does not answer; it is being started again.')
  }
}

/** Those that concern one connection only (RFC 9110, section 7.6.1). */
const hopByHop = new Set(['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'])
const endToEnd = (headers: IncomingHttpHeaders) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !hopByHop.has(name)))

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${message}\n`)
}
