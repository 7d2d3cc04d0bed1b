import { isIP } from 'node:net'
import type { Config } from '../config.ts'

type Names = Pick<Config, 'urls' | 'acme'>

/** Whether a public authority may issue for the name: it is no IP address and not local to this machine. */
const isPublic = (name: string) =>
  name.includes('.') && isIP(name.replace(/^\[(.*)\]$/, '$1')) === 0 && name !== 'localhost' && !name.endsWith('.localhost')

const hostOf = (url: string) => new URL(url).hostname

const wildcards = ({ urls }: Names) => [`*.${urls.platformDomain}`, `*.${hostOf(urls.preview)}`].filter(isPublic)

/**
 * The platform's own names for which certificates are ordered; none while no authority is set. Wildcards can only be proved through DNS, so
 * they need the settings of our own name server.
 */
export function orderedPlatformNames(config: Names): string[] {
  const { urls, acme } = config
  if (acme.directory === undefined) return []
  const hosts = [urls.base, urls.mcp, urls.preview].map(hostOf).filter(isPublic)
  return [...new Set([...hosts, ...(acme.dns ? wildcards(config) : [])])]
}

/** The wildcards that would be ordered if DNS-01 were configured. */
export function wildcardsWithoutDns(config: Names): string[] {
  return config.acme.directory === undefined || config.acme.dns ? [] : wildcards(config)
}

/** Makes a predicate: whether a host belongs to the platform, including its sites and previews, and is no custom domain. */
export function platformHosts({ urls }: Pick<Config, 'urls'>): (host: string) => boolean {
  const exact = new Set([urls.base, urls.mcp, urls.preview].map(hostOf))
  const parents = new Set([urls.platformDomain, hostOf(urls.preview)])
  return (host) => exact.has(host) || parents.has(host) || parents.has(host.slice(host.indexOf('.') + 1))
}
