import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { FetchError } from './fetch-error.ts'

/** All addresses of a name. */
export type LookUp = (host: string) => Promise<readonly LookupAddress[]>

export const lookUpBySystem: LookUp = (host) => lookup(host, { all: true })

export interface Admission {
  readonly allowPrivate: boolean
  readonly ports: readonly number[]
  /** The addresses by name; a known name is not looked up again. */
  readonly pins: Map<string, Promise<readonly LookupAddress[]>>
  readonly lookUp: LookUp
  readonly isPublic: (address: string) => boolean
  readonly signal: AbortSignal
}

const hostName = /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/

/**
 * Makes sure that a request may go to this address, and pins the addresses of its name, which are the only ones to connect to.
 * @throws FetchError `forbidden`, or `unreachable` when the name has no address
 */
export async function admitUrl(url: URL, admission: Admission): Promise<readonly LookupAddress[]> {
  const { allowPrivate, ports, isPublic } = admission
  const isHttp = url.protocol === 'http:'
  if (url.protocol !== 'https:' && !(isHttp && allowPrivate)) {
    throw new FetchError('forbidden', `${url.protocol}// addresses are not allowed; use https://`)
  }
  if (url.username !== '' || url.password !== '')
    throw new FetchError('forbidden', 'an address must not contain a user or a password')
  const port = Number(url.port) || (isHttp ? 80 : 443)
  if (!allowPrivate && !ports.includes(port)) throw new FetchError('forbidden', `port ${port} is not allowed; use 443`)

  const host = url.hostname.replace(/^\[|\]$/g, '')
  const family = isIP(host)
  const addresses = family > 0 ? [{ address: host, family }] : await pinned(host, admission)
  if (!allowPrivate && !addresses.every(({ address }) => isPublic(address))) {
    throw new FetchError(
      'forbidden',
      `${host} does not have public addresses only; private networks are not reached from here, unless the operator permits it`,
    )
  }
  return addresses
}

async function pinned(host: string, { pins, lookUp, signal }: Admission): Promise<readonly LookupAddress[]> {
  if (!hostName.test(host) || host.length > 253) throw new FetchError('forbidden', `${host} is not a host name`)
  let addresses = pins.get(host)
  if (!addresses) {
    addresses = lookUp(host)
    // callers that await it get the failure
    addresses.catch(() => undefined)
    pins.set(host, addresses)
  }
  const found = await Promise.race([addresses, aborted(signal)])
  if (found.length === 0) throw new FetchError('unreachable', `the host ${host} has no address`)
  return found
}

const aborted = (signal: AbortSignal) =>
  new Promise<never>((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason as Error)
    else signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
