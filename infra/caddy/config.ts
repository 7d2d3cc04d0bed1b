import { join } from 'node:path'
import { deliveryPath } from '../../core/delivery-files.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { minBodyBytesPerSecond, slowBodyGraceMs, smallBodyBytes } from '../../core/limits.ts'
import { gatePaths } from '../../core/visits.ts'
import { challengePath } from '../acme/account.ts'
import { type Config, required } from '../config.ts'
import { certificatePaths } from './certificate-getter.ts'
import { logEncoder } from './log-encoder.ts'
import { apiHosts, internalNames, platformNames } from './names.ts'

/** Caddy's native configuration. */
export type CaddyConfig = Readonly<Record<string, unknown>>
type Json = Readonly<Record<string, unknown>>

/** Where Caddy keeps its own certificate authority, below the data directory. */
export const caddyDir = (config: Pick<Config, 'dataDir'>) => join(config.dataDir, 'caddy')

/** The certificate that a client has to trust for https from the internal authority. */
export const rootCertificateFile = (config: Pick<Config, 'dataDir'>) =>
  join(caddyDir(config), 'pki', 'authorities', 'local', 'root.crt')

/** The configuration at the start of Caddy: only its admin socket. The rest is pushed, so that no stale copy can be resumed. */
export function bootstrapConfig(config: Config): CaddyConfig {
  const { admin, storage } = caddyConfig(config)
  return { admin, storage }
}

/**
 * The whole configuration, computed from the settings only: deploys, sites and domains never change it, because every change is a reload
 * that resets connections. It only chooses the process; host and path are normalised again behind it.
 */
export function caddyConfig(config: Config): CaddyConfig {
  const { http, urls } = config
  const base = new URL(urls.base)
  const internal = internalNames(config)
  const answers = routes(config)
  const server = {
    read_header_timeout: '10s',
    // a body may take this long, and more as it arrives. The rest of a body that nobody reads any more is awaited as well before the answer
    // is passed on. Half of what the api demands, because here the time counts in which the api itself makes a body wait.
    read_idle_timeout: `${slowBodyGraceMs}ms`,
    read_min_rate: minBodyBytesPerSecond / 2,
    idle_timeout: '2m',
    max_header_bytes: 32 * 1024,
    // the source of each certificate is configured below; Caddy's default would order them, redirect, and listen on port 80
    automatic_https: { disable: true },
    errors: { routes: errorRoutes(config) },
    ...(http.trustedProxies.length > 0 && {
      trusted_proxies: { source: 'static', ranges: http.trustedProxies },
      trusted_proxies_strict: 1,
    }),
  }
  return {
    admin: {
      listen: `unix/${config.sockets.caddyAdmin}|0600`,
      enforce_origin: true,
      origins: [adminOrigin],
      config: { persist: false },
    },
    storage: { module: 'file_system', root: caddyDir(config) },
    logging: { logs: { default: { level: 'WARN', encoder: logEncoder(config) } } },
    apps: {
      http: {
        http_port: http.port,
        https_port: http.httpsPort,
        grace_period: '4s',
        servers: {
          http: {
            ...server,
            listen: http.listen.map((address) => `${withBrackets(address)}:${http.port}`),
            protocols: ['h1'],
            routes: base.protocol === 'https:' ? [...redirectRoutes(config, base), ...answers] : answers,
          },
          https: {
            ...server,
            listen: http.listen.map((address) => `${withBrackets(address)}:${http.httpsPort}`),
            protocols: ['h1', 'h2', 'h3'],
            tls_connection_policies: [{}],
            routes: answers,
          },
        },
      },
      tls: {
        // cleaning at the start removes the empty folder of a name just before its certificate is written there; the next try is a minute later
        disable_storage_clean: true,
        certificates: { automate: internal },
        automation: automation(config, internal),
      },
      pki: { certificate_authorities: { local: { name: 'Plinth', install_trust: false } } },
    },
  }
}

/** The admin socket requires this origin in every request, so that no web page can reach it. */
export const adminOrigin = 'plinth-launcher'

/**
 * Certificates of all other names come from the edge at each handshake. For a name without one, Caddy asks the edge for the permission to issue
 * one of its own authority, and gets it for custom domains while no ACME directory is set. There is no public issuer: with one, the handshake of
 * an unknown name would hang for minutes.
 */
function automation({ secretKey, acme }: Config, internal: readonly string[]): Json {
  const { certificate, permission } = certificatePaths(required(secretKey, 'PLINTH_SECRET_KEY'))
  const edge = `http://127.0.0.1:${required(acme.certificatesPort, 'PLINTH_CERTIFICATES_PORT')}`
  const issuers = [{ module: 'internal', ca: 'local' }]
  return {
    policies: [
      { subjects: internal, issuers },
      { on_demand: true, get_certificate: [{ via: 'http', url: edge + certificate }], issuers },
    ],
    on_demand: { permission: { module: 'http', endpoint: edge + permission } },
  }
}

const withBrackets = (address: string) => (address.includes(':') && !address.startsWith('[') ? `[${address}]` : address)

const errorHeaders = (code: ErrorCode) => ({
  'Content-Type': ['application/json'],
  'Cache-Control': ['no-store'],
  'Plinth-Error': [code],
})

/** The methods that the processes behind Caddy can answer. Node's parser closes the connection for CONNECT and for unknown methods. */
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

const unknownMethod = {
  handler: 'static_response',
  status_code: 501,
  headers: errorHeaders('method_not_allowed'),
  body: JSON.stringify({ message: `this method is not known here; use one of ${methods.join(', ')}` }),
}

/** Caddy's own answer to a body that trickles or breaks off has status 499 and no text. */
const slowBodies = {
  handler: 'intercept',
  handle_response: [
    {
      match: { status_code: [499] },
      routes: [
        {
          handle: [
            {
              handler: 'static_response',
              status_code: 408,
              headers: errorHeaders('request_timeout'),
              body: JSON.stringify({ message: 'the body arrived too slowly or broke off; send it again' }),
              close: true,
            },
          ],
        },
      ],
    },
  ],
}

/**
 * Connections to the api that carry form posts; further posts wait in Caddy for one of them. Without a limit a flood on a busy processor opens
 * thousands, and Node accepts one in each turn of its event loop: posts of others then waited 5 to 10 s, and not only those. No sender can hold
 * a connection, because a form is smaller than the beginning of a body that Caddy reads before it takes one.
 */
const maxFormConnections = 128

/**
 * The routes, in order: challenges of every host to the edge, the api's host with form posts first, of every other host the links to files and
 * the images of login pages to the edge and the rest of /__svc/ to the api, all other requests to the edge.
 */
function routes(config: Config): Json[] {
  const api = proxyTo(config.sockets.api)
  const forms = proxyTo(config.sockets.api, { max_conns_per_host: maxFormConnections })
  const edge = proxyTo(config.sockets.edge)
  return [
    // the processes refuse TRACE and QUERY with 405, as methods that they know but do not allow
    { match: [{ not: [{ method: [...methods, 'TRACE', 'QUERY'] }] }], handle: [unknownMethod], terminal: true },
    { match: [{ not: [{ method: ['GET', 'HEAD'] }] }], handle: [slowBodies] },
    { match: [{ path: [`${challengePath}*`] }], handle: [edge], terminal: true },
    { match: [{ host: apiHosts(config), method: ['POST'], path: ['/f/*'] }], handle: [forms], terminal: true },
    { match: [{ host: apiHosts(config) }], handle: [api], terminal: true },
    { match: [{ path: [`${deliveryPath}*`, `${gatePaths.brand}*`] }], handle: [edge], terminal: true },
    { match: [{ path: ['/__svc/*'] }], handle: [api], terminal: true },
    { handle: [edge], terminal: true },
  ]
}

/**
 * Redirects to https for the platform's own names; the edge knows which custom domains have a certificate. Requests that may change something
 * are not redirected, because a client would send its body and key a second time.
 */
function redirectRoutes(config: Config, base: URL): Json[] {
  const port = base.port === '' ? '' : `:${base.port}`
  const kept = [{ path: [`${challengePath}*`] }, { path: ['/healthz'], host: apiHosts(config) }]
  return [
    {
      match: [{ method: ['GET', 'HEAD'], host: platformNames(config), not: kept }],
      handle: [
        {
          handler: 'static_response',
          status_code: 308,
          headers: { Location: [`https://{http.request.host}${port}{http.request.uri}`] },
        },
      ],
      terminal: true,
    },
  ]
}

/**
 * Streams bodies of any length in both directions; their limits are checked behind Caddy. Caddy reads the beginning of a body before it
 * connects to the process, so that a small body that trickles costs the process nothing. It closes the connection of a body that it gives up
 * itself; after a body that the process refused half-read, it would take the rest for another request (seen with 2.11: 26 s instead of 10).
 */
function proxyTo(socket: string, connections: Json = {}): Json {
  return {
    handler: 'reverse_proxy',
    request_buffers: smallBodyBytes,
    upstreams: [{ dial: `unix/${socket}` }],
    transport: {
      protocol: 'http',
      dial_timeout: '2s',
      // files arrive compressed from the edge; asking for compression here would cost a copy
      compression: false,
      // our processes keep idle connections for longer, so none is closed while a request is on its way
      keep_alive: { max_idle_conns_per_host: 512, idle_timeout: '2m' },
      ...connections,
    },
    // a process that restarts takes no connections for one to two seconds, and while it ends its last answers, which may take eight: its
    // callers wait instead of failing
    load_balancing: { try_duration: '15s', try_interval: '200ms' },
    // exactly one address, whatever the client sent: proxies in front count only when they are trusted
    headers: { request: { set: { 'X-Forwarded-For': ['{http.vars.client_ip}'] } } },
  }
}

/** The response while a process is away: never cached, and never a 404. */
function errorRoutes(config: Config): Json[] {
  const answer = (headers: Json, body: string) => ({
    handler: 'static_response',
    status_code: 503,
    headers: { ...headers, 'Cache-Control': ['no-store'], 'Retry-After': ['5'] },
    body,
  })
  const starting = { message: 'the API is starting or restarting; try again in a few seconds' }
  const away = { vars: { '{http.error.status_code}': ['502', '503', '504'] } }
  return [
    {
      match: [{ ...away, host: apiHosts(config) }],
      handle: [answer(errorHeaders('unavailable'), JSON.stringify(starting))],
      terminal: true,
    },
    { match: [away], handle: [answer({ 'Content-Type': ['text/html; charset=utf-8'] }, unavailablePage)], terminal: true },
  ]
}

const unavailablePage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Back in a moment</title>
<style>body{font:17px/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem;color-scheme:light dark}</style>
<h1>Back in a moment</h1>
<p>This site's server is starting or restarting. Try again in a few seconds.</p>
</html>
`
