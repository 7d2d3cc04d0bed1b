import { BlockList, isIP } from 'node:net'

// IANA's special-purpose registries, without what they call globally reachable (RFC 6890 and its successors)
const notPublic = new BlockList()
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  // link-local, with the metadata services of clouds
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const) {
  notPublic.addSubnet(network, prefix, 'ipv4')
}

// of IPv6 only global unicast counts; inside of it, what is special or carries an IPv4 address
const globalUnicast = new BlockList()
globalUnicast.addSubnet('2000::', 3, 'ipv6')
for (const [network, prefix] of [
  // protocol assignments, with Teredo and benchmarking
  ['2001::', 23],
  ['2001:db8::', 32],
  // 6to4
  ['2002::', 16],
  ['2620:4f:8000::', 48],
  ['3fff::', 20],
] as const) {
  notPublic.addSubnet(network, prefix, 'ipv6')
}

/**
 * Whether an address literal is global unicast, so that connecting to it cannot reach this machine or its networks.
 * Mapped, NAT64, 6to4 and Teredo forms are never public, because they contain an IPv4 address.
 */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !notPublic.check(address, 'ipv4')
  return family === 6 && !address.includes('%') && globalUnicast.check(address, 'ipv6') && !notPublic.check(address, 'ipv6')
}

// they belong to no network
const documentation = new BlockList()
for (const [network, prefix] of [
  ['192.0.2.0', 24],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
] as const) {
  documentation.addSubnet(network, prefix, 'ipv4')
}
documentation.addSubnet('2001:db8::', 32, 'ipv6')
documentation.addSubnet('3fff::', 20, 'ipv6')

/** Whether an address may be one of the network of this platform, so that users must not learn which names have it. */
export const mayBeInternal = (address: string): boolean =>
  !isPublicAddress(address) && !documentation.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6')
