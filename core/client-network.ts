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
