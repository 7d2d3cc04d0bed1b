import type { IncomingMessage } from 'node:http'

export interface OriginOptions {
  readonly platformDomain: string
  /** The base URL of the platform, whose scheme and port its own hosts have. */
  readonly baseUrl: string
  /** Whether there is a certificate for the host; none when absent. */
  readonly isSecured?: ((host: string) => boolean) | undefined
}

export interface Origins {
  /** The origin for a redirect to the host. */
  of(host: string, req: IncomingMessage): string
  /** The https origin to which a request over http for a custom domain is redirected; undefined when it is served over http. */
  toSecure(host: string, req: IncomingMessage): string | undefined
  /** Whether the visitor uses https. */
  isSecure(req: IncomingMessage): boolean
}

/**
 * Schemes and ports of hosts. Hosts of the platform have those of the base URL, and Caddy redirects them to https. A custom domain is served
 * over https as soon as it has a certificate, and over http until then, so that its owner can already see the site.
 */
export function createOrigins({ platformDomain, baseUrl, isSecured = () => false }: OriginOptions): Origins {
  const base = new URL(baseUrl)
  const isOwn = (host: string) => host.endsWith(`.${platformDomain}`)
  const ofBase = (host: string) => `${base.protocol}//${host}${base.port === '' ? '' : `:${base.port}`}`
  const hasHttps = (host: string) => base.protocol === 'https:' && isSecured(host)
  return {
    of(host, req) {
      const scheme = schemeOf(req)
      if (scheme === undefined || isOwn(host) || (scheme === 'http' && hasHttps(host))) return ofBase(host)
      return `${scheme}://${host}${portOf(req)}`
    },
    toSecure: (host, req) => (!isOwn(host) && schemeOf(req) === 'http' && hasHttps(host) ? ofBase(host) : undefined),
    isSecure: (req) => (schemeOf(req) ?? base.protocol.slice(0, -1)) === 'https',
  }
}

/** The scheme that Caddy reports; undefined without Caddy. */
function schemeOf({ headers }: IncomingMessage): 'http' | 'https' | undefined {
  const scheme = headers['x-forwarded-proto']
  return scheme === 'http' || scheme === 'https' ? scheme : undefined
}

/** The port of the visitor's request, with its colon. */
const portOf = ({ headers }: IncomingMessage) => /:\d{1,5}$/.exec(headers.host ?? '')?.[0] ?? ''
