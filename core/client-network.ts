/**
 * The key of limits per address: the IPv4 address, or the /64 network of an IPv6 address, because one client has all addresses of such a
 * network. An address that carries an IPv4 address, such as `::ffff:192.0.2.1`, is kept whole.
 */
export function networkOf(address: string): string {
  if (!address.includes(':') || address.includes('.')) return address
  const [head = '', tail] = address.split('::')
  const first = head.split(':').filter((group) => group !== '')
  if (tail === undefined) return first.slice(0, 4).join(':')
  const last = tail.split(':').filter((group) => group !== '')
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => '0')
  return [...first, ...zeros, ...last].slice(0, 4).join(':')
}

/**
 * The larger networks around one from {@link networkOf}, smallest first: of IPv4 the /24, of IPv6 the /56 that providers give to one customer and
 * the /48 that one organisation has. None for a text that is no network.
 */
export function widerNetworks(network: string): readonly string[] {
  const address = network.slice(network.lastIndexOf(':') + 1)
  if (address.includes('.')) return [`${address.split('.').slice(0, 3).join('.')}.0/24`]
  const groups = network.split(':')
  if (groups.length !== 4) return []
  const customer = (Number.parseInt(groups[3] ?? '', 16) & 0xff00).toString(16)
  const organisation = groups.slice(0, 3).join(':')
  return [`${organisation}:${customer}::/56`, `${organisation}::/48`]
}

/** A network from {@link networkOf} as it is shown and kept: of IPv4 the first three bytes, of IPv6 the first six. */
export const maskedNetwork = (network: string): string => widerNetworks(network).at(-1) ?? 'unknown'
