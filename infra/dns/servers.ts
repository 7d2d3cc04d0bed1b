import { getServers } from 'node:dns'
import { isIP } from 'node:net'
import { ConfigError } from '../config.ts'

export interface ServerAddress {
  readonly address: string
  readonly port: number
}

/**
 * Reads `ip`, `ip:port` or `[ip6]:port`.
 * @throws ConfigError naming the setting
 */
export function parseServerAddress(text: string, setting: string): ServerAddress {
  const [, bracketed, plain, portText] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  const address = bracketed ?? plain ?? text
  const port = portText === undefined ? 53 : Number(portText)
  if (isIP(address) === 0 || port > 65_535) {
    throw new ConfigError(
      `${setting} has ${text}, which is not an address: write it as 192.0.2.1, 192.0.2.1:53 or [2001:db8::1]:53`,
    )
  }
  return { address, port }
}

/** The name servers of PLINTH_DNS_SERVERS, or those of this machine when it is not set. */
export function dnsServers(setting: readonly string[] | undefined): ServerAddress[] {
  return (setting ?? getServers()).map((text) => parseServerAddress(text, 'PLINTH_DNS_SERVERS'))
}
