import { isIP } from 'node:net'
import type { Config } from '../config.ts'

type Names = Pick<Config, 'urls' | 'acme'>

/** A name that a public authority may know: no address, nothing of this machine alone. */
const isPublic = (name: string) =>
  name.includes('.') && isIP(name.replace(/^\[(.*)\]$/, '$1')) === 0 && name !== 'localhost' && !name.endsWith('.localhost')

const hostOf = (url: string) => new URL(url).hostname

const wildcards = ({ urls }: Names) => [`*.${urls.platformDomain}`, `*.${hostOf(urls.preview)}`].filter(isPublic)

/**
 * Names of the platform itself for which certificates are ordered; none while no authority is set. Wildcards can be proved through DNS only,
 * so they need the settings of our own name server.
 */
export function orderedPlatformNames(config: Names): string[] {
  const { urls, acme } = config
  if (acme.directory === undefined) return []
  const hosts = [urls.base, urls.mcp, urls.preview].map(hostOf).filter(isPublic)
  return [...new Set([...hosts, ...(acme.dns ? wildcards(config) : [])])]
}

/** Wildcards that would be ordered if the settings of DNS-01 were there. */
export function wildcardsWithoutDns(config: Names): string[] {
  return config.acme.directory === undefined || config.acme.dns ? [] : wildcards(config)
}

/** Tells of a host whether it is one of the platform, its sites and previews included, and no custom domain. */
export function platformHosts({ urls }: Pick<Config, 'urls'>): (host: string) => boolean {
  const exact = new Set([urls.base, urls.mcp, urls.preview].map(hostOf))
  const parents = new Set([urls.platformDomain, hostOf(urls.preview)])
  return (host) => exact.has(host) || parents.has(host) || parents.has(host.slice(host.indexOf('.') + 1))
}
