import type { IncomingMessage } from 'node:http'

export interface OriginOptions {
  readonly platformDomain: string
  /** The address of the platform: its own hosts have its scheme and port. */
  readonly baseUrl: string
  /** Whether there is a certificate for the host; none when absent. */
  readonly isSecured?: ((host: string) => boolean) | undefined
}

export interface Origins {
  /** Where a redirect to the host leads, without a path. */
  of(host: string, req: IncomingMessage): string
  /** The https origin that a request over http for a custom domain is led to; undefined when it is answered as it came. */
  toSecure(host: string, req: IncomingMessage): string | undefined
}

/**
 * Schemes and ports of hosts. Those of the platform have the ones of the base address, and Caddy leads them to https. A custom domain goes
 * over https as soon as it has a certificate, and over http until then, so that its owner can see the site in the meantime.
 */
export function createOrigins({ platformDomain, baseUrl, isSecured = () => false }: OriginOptions): Origins {
  const base = new URL(baseUrl)
  const isOwn = (host: string) => host.endsWith(`.${platformDomain}`)
  const ofBase = (host: string) => `${base.protocol}//${host}${base.port === '' ? '' : `:${base.port}`}`
  const isSecure = (host: string) => base.protocol === 'https:' && isSecured(host)
  return {
    of(host, req) {
      const scheme = schemeOf(req)
      if (scheme === undefined || isOwn(host) || (scheme === 'http' && isSecure(host))) return ofBase(host)
      return `${scheme}://${host}${portOf(req)}`
    },
    toSecure: (host, req) => (schemeOf(req) === 'http' && !isOwn(host) && isSecure(host) ? ofBase(host) : undefined),
  }
}

/** As Caddy tells it; undefined without Caddy. */
function schemeOf({ headers }: IncomingMessage): 'http' | 'https' | undefined {
  const scheme = headers['x-forwarded-proto']
  return scheme === 'http' || scheme === 'https' ? scheme : undefined
}

/** The port that the visitor has used, with its colon. */
const portOf = ({ headers }: IncomingMessage) => /:\d{1,5}$/.exec(headers.host ?? '')?.[0] ?? ''
