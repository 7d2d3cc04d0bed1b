import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from 'node:tls'
import type { Role } from './platform.ts'
import type { Hooked } from './secret-hooks.ts'
import { type ClosedSite, connectionAddress, type Delivered, type Previewed, type Uses, visitorHeaders } from './secret-steps.ts'

// Requests with secrets that break off: what stands in front of a process that ends, or of a visitor who leaves, writes about it.

/** As long as Caddy takes to pass a request on. */
const passedOnMs = 500

/** Stops a process, sends requests that reach it, and kills it before it can answer. */
async function crash({ platform }: Uses, role: Role, send: () => Promise<unknown>[]): Promise<void> {
  process.kill(await platform.pidOf(role), 'SIGSTOP')
  const sending = Promise.allSettled(send())
  await pause(passedOnMs)
  await platform.restart(role, 'SIGKILL')
  await sending
}

/** Reads the beginning of a large file. Answers what ends the download. */
async function beginDownload({ platform }: Uses, { host, file }: Delivered): Promise<() => void> {
  const agent = new Agent()
  const address = { host: '127.0.0.1', port: platform.port, localAddress: connectionAddress }
  const outgoing = request({ ...address, path: file, headers: { ...visitorHeaders, host }, agent })
  outgoing.on('error', () => undefined)
  outgoing.end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  response.on('error', () => undefined)
  await once(response, 'readable')
  return () => {
    outgoing.destroy()
    agent.destroy()
  }
}

/** Asks Caddy for a certificate of the name. It requests the edge for those that it does not have, on a path that is a secret. */
async function handshake({ platform }: Uses, servername: string): Promise<void> {
  const port = platform.config.http.httpsPort
  const address = { host: '127.0.0.1', port, localAddress: connectionAddress }
  const socket = connect({ ...address, servername, rejectUnauthorized: false })
  const { promise, resolve } = Promise.withResolvers<void>()
  socket.on('secureConnect', () => resolve()).on('error', () => resolve())
  socket.setTimeout(5000, () => resolve())
  return promise.finally(() => socket.destroy())
}

export async function crashEdge(
  uses: Uses,
  { closed, delivered, previewed }: { closed: ClosedSite; delivered: Delivered; previewed: Previewed },
): Promise<void> {
  const { visit } = uses
  const leave = await beginDownload(uses, delivered)
  leave()
  const stop = await beginDownload(uses, delivered)
  const { cookie, bypass } = closed
  // Caddy repeats GET
  await crash(uses, 'edge', () => [
    visit('HEAD /', closed, { headers: { cookie, 'x-plinth-bypass': bypass } }),
    visit(`HEAD ${delivered.link}`, delivered),
    visit(`HEAD ${delivered.file}`, delivered),
    ...['canary.example', ...previewed.hosts].map((host) => handshake(uses, host.replace(/:\d+$/, ''))),
    ...previewed.hosts.map((host) => visit('HEAD /', { host })),
    ...previewed.hosts.map((host) => visit(`HEAD /${host.split('.', 1)[0]}/`, { host: host.slice(host.indexOf('.') + 1) })),
  ])
  stop()
}

export async function crashOthers(
  uses: Uses,
  { closed, delivered, hooked }: { closed: ClosedSite; delivered: Delivered; hooked: Hooked },
): Promise<void> {
  const { call, post, platform, owner, canaries } = uses
  const password = canaries.all.find(({ name }) => name === 'chosen password')?.value ?? ''
  const email = 'grace.canary@example.com'
  const send = () => [
    post('/__svc/login', closed, { password, to: '/' }, closed.cookie),
    call(`POST ${hooked.deployHook}`),
    call(`POST /hooks/git/${hooked.id}`, {
      headers: { 'x-svc-token': hooked.secret, 'x-gitlab-token': hooked.secret },
      json: {},
    }),
    call(`POST /api/v1/sites/${closed.id}/access/emails`, { key: owner.key, json: { email } }),
    call(`GET ${delivered.link}`),
    call(`POST /f/${delivered.id}`, { json: { email }, headers: { ...visitorHeaders, origin: `http://${delivered.host}` } }),
    platform.operator('GET /operator/v1/projects'),
  ]
  await crash(uses, 'api', send)
  // these are answered while PostgreSQL is away, and once it is back
  const restarting = platform.restart('postgres', 'SIGKILL')
  await pause(100)
  await Promise.allSettled(send())
  await restarting
  await Promise.allSettled(send())
  await platform.restart('worker', 'SIGKILL')
}
