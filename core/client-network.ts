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

/** A network from {@link networkOf} as it is shown: of IPv4 the first three bytes, of IPv6 the first six. */
export function maskedNetwork(network: string): string {
  const address = network.slice(network.lastIndexOf(':') + 1)
  if (address.includes('.')) return `${address.split('.').slice(0, 3).join('.')}.0/24`
  return `${network.split(':').slice(0, 3).join(':')}::/48`
}
