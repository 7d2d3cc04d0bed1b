import { deliveryPath } from '../../core/delivery-files.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { smallBodyBytes, stalledVisitMs } from '../../core/limits.ts'
import { gatePaths } from '../../core/visits.ts'
import { challengePath } from '../acme/account.ts'
import type { Config } from '../config.ts'
import { apiHosts, platformNames } from './names.ts'
import { sendsStoredObjects } from './stored-objects.ts'

type Json = Readonly<Record<string, unknown>>

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
 * The routes, in order: visits of sites to the edge, first because they are nearly all requests and each route that is tried costs about a
 * microsecond; challenges of every host to the edge, the api's host with form posts first, of every other host the links to files and
 * the images of login pages to the edge and the rest of /__svc/ to the api, all other requests to the edge.
 */
export function routes(config: Config): Json[] {
  const api = proxyTo(config, config.sockets.api)
  const forms = proxyTo(config, config.sockets.api, { max_conns_per_host: maxFormConnections })
  // the whole of most files in one or two pieces instead of three: a tenth of the requests a second at 40 KiB
  const toEdge = proxyTo(config, config.sockets.edge, { read_buffer_size: 16 * 1024 })
  const edge = { ...toEdge, handle_response: [sendsStoredObjects(config, stalledVisitMs)] }
  const hosts = apiHosts(config)
  return [
    {
      match: [{ method: ['GET', 'HEAD'], not: [{ host: hosts }, { path: [`${challengePath}*`, '/__svc/*'] }] }],
      handle: [edge],
      terminal: true,
    },
    // the processes refuse TRACE and QUERY with 405, as methods that they know but do not allow
    { match: [{ not: [{ method: [...methods, 'TRACE', 'QUERY'] }] }], handle: [unknownMethod], terminal: true },
    { match: [{ not: [{ method: ['GET', 'HEAD'] }] }], handle: [slowBodies] },
    { match: [{ path: [`${challengePath}*`] }], handle: [edge], terminal: true },
    { match: [{ host: hosts, method: ['POST'], path: ['/f/*'] }], handle: [forms], terminal: true },
    { match: [{ host: hosts }], handle: [api], terminal: true },
    { match: [{ path: [`${deliveryPath}*`, `${gatePaths.brand}*`] }], handle: [edge], terminal: true },
    { match: [{ path: ['/__svc/*'] }], handle: [api], terminal: true },
    { handle: [edge], terminal: true },
  ]
}

/**
 * Redirects to https for the platform's own names; the edge knows which custom domains have a certificate. Requests that may change something
 * are not redirected, because a client would send its body and key a second time.
 */
export function redirectRoutes(config: Config, base: URL): Json[] {
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
 *
 * Measured to change less than the noise of 3 % at 4 KiB: HTTP/2 to the process, 64 KiB buffers, flushing at once, no retries, no buffers of
 * requests, no deadlines of reads and writes.
 */
function proxyTo({ http }: Config, socket: string, transport: Json = {}): Json {
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
      ...transport,
    },
    // a process that restarts takes no connections for one to two seconds, and while it ends its last answers, which may take eight: its
    // callers wait instead of failing
    load_balancing: { try_duration: '15s', try_interval: '200ms' },
    // Exactly one address, whatever the client sent. Without a trusted proxy in front, Caddy sets it to the address of the connection, and
    // another change of the headers would copy them all.
    ...(http.trustedProxies.length > 0 && { headers: { request: { set: { 'X-Forwarded-For': ['{http.vars.client_ip}'] } } } }),
  }
}

/** The response while a process is away, or when Caddy cannot read the object that it was to send: never cached, and never a 404. */
export function errorRoutes(config: Config): Json[] {
  const answer = (headers: Json, body: string) => ({
    handler: 'static_response',
    status_code: 503,
    headers: { ...headers, 'Cache-Control': ['no-store'], 'Retry-After': ['5'] },
    body,
  })
  const starting = { message: 'the API is starting or restarting; try again in a few seconds' }
  const away = { vars: { '{http.error.status_code}': ['502', '503', '504'] } }
  const unreadable = { vars: { '{http.error.status_code}': ['403', '404', '500'] }, not: [{ host: apiHosts(config) }] }
  return [
    {
      match: [{ ...away, host: apiHosts(config) }],
      handle: [answer(errorHeaders('unavailable'), JSON.stringify(starting))],
      terminal: true,
    },
    // the headers of the object have been copied by then
    {
      match: [unreadable],
      handle: [{ handler: 'headers', response: { delete: ['ETag', 'Content-Encoding', 'Accept-Ranges'] } }],
    },
    {
      match: [away, unreadable],
      handle: [answer({ 'Content-Type': ['text/html; charset=utf-8'] }, unavailablePage)],
      terminal: true,
    },
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
