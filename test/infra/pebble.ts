import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createHttpsServer, request, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { loadConfig } from '../../infra/config.ts'
import { freePort } from '../../infra/local/ports.ts'
import { findTool, type ToolName } from '../../infra/local/tools.ts'
import { waitUntil } from '../../infra/local/wait.ts'

/** Fetched by the first test that needs it: building it takes some seconds. */
export const findTestTool = (name: ToolName) => findTool(name, { cacheDir: loadConfig().cacheDir, report: () => undefined })

export interface PebbleOptions {
  /** Settings such as PEBBLE_WFE_NONCEREJECT. */
  readonly env?: Record<string, string>
  /** `ip:port` of the name server that validations use. */
  readonly dnsServer: string
  /** Where HTTP-01 is asked. */
  readonly httpPort?: number
  readonly caaIdentities?: readonly string[]
  readonly retryAfter?: { readonly authz: number; readonly order: number }
}

export interface Pebble extends AsyncDisposable {
  readonly directoryUrl: string
  /** PEM file of the authority that signed its TLS certificate, and PEM of that certificate with its key. */
  readonly caFile: string
  readonly tls: { readonly cert: string; readonly key: string }
  /** PEM of the root of what it issues. */
  readonly root: () => Promise<string>
  readonly stop: () => Promise<void>
}

/** A real Pebble on ports of its own. Nothing is rejected, slept or reused unless `env` says so. */
export async function startPebble({
  env = {},
  dnsServer,
  httpPort = 1,
  caaIdentities = [],
  retryAfter = { authz: 0, order: 0 },
}: PebbleOptions): Promise<Pebble> {
  const binary = await findTestTool('pebble')
  const dir = await mkdtemp(join(tmpdir(), 'plinth-pebble-'))
  const [cert, key, config] = ['cert.pem', 'key.pem', 'config.json'].map((file) => join(dir, file)) as [string, string, string]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
  await promisify(execFile)('openssl', [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-days',
    '2',
    '-keyout',
    key,
    '-out',
    cert,
    ...subject,
  ])
  const [port, managementPort] = [await freePort(), await freePort()]
  const settings = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${managementPort}`,
    certificate: cert,
    privateKey: key,
    httpPort,
    tlsPort: 1,
    caaIdentities,
    retryAfter,
    domainBlocklist: ['blocked.example'],
  }
  await writeFile(config, JSON.stringify({ pebble: settings }))
  const quiet = { PEBBLE_WFE_NONCEREJECT: '0', PEBBLE_VA_NOSLEEP: '1', PEBBLE_AUTHZREUSE: '0' }
  const child = spawn(binary, ['-config', config, '-dnsserver', dnsServer], {
    env: { ...quiet, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const tls = { cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') }
  const directoryUrl = `https://127.0.0.1:${port}/dir`
  const get = (url: string) => fetchText(url, tls.cert)
  const stop = () => end(child)
  try {
    await waitUntil(
      'Pebble',
      () =>
        get(directoryUrl).then(
          () => true,
          () => false,
        ),
      { timeoutMs: 20_000, ended: endOf(child) },
    )
  } catch (error) {
    await stop()
    throw error
  }
  return {
    directoryUrl,
    caFile: cert,
    tls,
    root: () => get(`https://127.0.0.1:${managementPort}/roots/0`),
    stop,
    async [Symbol.asyncDispose]() {
      await stop()
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** The name server of Pebble's own tests: every name is at 127.0.0.1. @returns its `ip:port` */
export async function startChallengeServer(stack: AsyncDisposableStack): Promise<string> {
  const binary = await findTestTool('pebble-challtestsrv')
  const [dns, management] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
  const off = ['-http01', '', '-https01', '', '-tlsalpn01', '', '-doh', '', '-defaultIPv6', '']
  const child = spawn(binary, ['-dnsserver', dns, '-management', management, ...off], { stdio: ['ignore', 'ignore', 'pipe'] })
  stack.defer(() => end(child))
  const body = JSON.stringify({ host: 'ready.example', addresses: ['127.0.0.1'] })
  const isReady = () =>
    fetch(`http://${management}/add-a`, { method: 'POST', body }).then(
      ({ ok }) => ok,
      () => false,
    )
  await waitUntil('pebble-challtestsrv', isReady, { timeoutMs: 60_000, ended: endOf(child) })
  return dns
}

const endOf = (child: ChildProcess) => once(child, 'exit').then(([code]) => `exit code ${String(code)}`)

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

async function fetchText(url: string, ca: string): Promise<string> {
  const outgoing = request(url, { ca }).end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  return (await buffer(response)).toString()
}

/** What answers the challenges of HTTP-01, as the edge does: bodies by token. */
export async function startChallengeSite(stack: AsyncDisposableStack) {
  const bodies = new Map<string, string>()
  const asked: string[] = []
  const server = createHttpServer(({ url = '', headers }, response) => {
    asked.push(`${headers.host?.split(':')[0]} ${url}`)
    const body = bodies.get(url.replace('/.well-known/acme-challenge/', ''))
    response.writeHead(body === undefined ? 404 : 200).end(body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stack.defer(() => void server.close())
  return { port: (server.address() as AddressInfo).port, bodies, asked }
}

export interface Passed {
  readonly method: string
  readonly path: string
  readonly body: string
}

/** Says what is answered instead of Pebble, or changes what Pebble has answered; undefined leaves it as it is. */
export interface Fault {
  readonly instead?: (
    request: Passed,
  ) => { readonly status: number; readonly headers?: Record<string, string>; readonly body?: unknown } | undefined
  readonly change?: (request: Passed, body: string) => string | undefined
}

/** Stands between a client and Pebble, under the same certificate, and makes it a bad authority. */
export async function startFaultProxy(stack: AsyncDisposableStack, pebble: Pebble, { instead, change }: Fault) {
  const seen: Passed[] = []
  const target = new URL(pebble.directoryUrl)
  async function pass(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const passed: Passed = { method: incoming.method ?? '', path: incoming.url ?? '', body: (await buffer(incoming)).toString() }
    seen.push(passed)
    const own = instead?.(passed)
    if (own)
      return void response
        .writeHead(own.status, own.headers)
        .end(typeof own.body === 'string' ? own.body : JSON.stringify(own.body))
    // the name that the client used is signed and part of every link
    const outgoing = request({
      host: target.hostname,
      port: target.port,
      method: passed.method,
      path: passed.path,
      headers: incoming.headers,
      ca: pebble.tls.cert,
    })
    outgoing.end(passed.body)
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage]
    const body = (await buffer(answer)).toString()
    const { 'content-length': _length, ...headers } = answer.headers
    response.writeHead(answer.statusCode ?? 502, headers).end(change?.(passed, body) ?? body)
  }
  const server: Server = createHttpsServer(
    pebble.tls,
    (incoming, response) => void pass(incoming, response).catch(() => response.destroy()),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stack.defer(() => {
    server.closeAllConnections()
    server.close()
  })
  return { directoryUrl: `https://127.0.0.1:${(server.address() as AddressInfo).port}/dir`, seen }
}
