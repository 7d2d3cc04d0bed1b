import { join } from 'node:path'
import { minBodyBytesPerSecond, slowBodyGraceMs } from '../../core/limits.ts'
import { type Config, required } from '../config.ts'
import { certificatePaths } from './certificate-getter.ts'
import { logEncoder } from './log-encoder.ts'
import { internalNames } from './names.ts'
import { errorRoutes, redirectRoutes, routes } from './routes.ts'

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
    // what that handler logs are visitors who leave early; preparing an entry for each request costs a fiftieth of Caddy's processor time
    logging: { logs: { default: { level: 'WARN', encoder: logEncoder(config), exclude: ['http.handlers.reverse_proxy'] } } },
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
