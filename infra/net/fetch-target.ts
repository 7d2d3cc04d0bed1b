import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { FetchError, type RefusedName } from './fetch-error.ts'
import { untilRefusal } from './refusal-time.ts'

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
  /** The refusal of a name takes a multiple of it. */
  readonly refusalMs: number | undefined
}

const hostName = /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/

/**
 * Makes sure that a request may go to this address, and pins the addresses of its name, which are the only ones to connect to. Names that are
 * unknown and names with a private address are refused alike, so that users do not learn what the network of the platform has.
 * @throws FetchError `forbidden`
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
  if (family === 0) return await admitName(host, admission)
  if (!allowPrivate && !isPublic(host)) {
    throw new FetchError(
      'forbidden',
      `${host} is not a public address; private networks are not reached from here, unless the operator permits it`,
    )
  }
  return [{ address: host, family }]
}

async function admitName(host: string, admission: Admission): Promise<readonly LookupAddress[]> {
  const { allowPrivate, isPublic, signal, refusalMs } = admission
  if (!hostName.test(host) || host.length > 253) throw new FetchError('forbidden', `${host} is not a host name`)
  const startedAtMs = performance.now()
  const addresses = await pinned(host, admission)
  if (addresses.length > 0 && (allowPrivate || addresses.every(({ address }) => isPublic(address)))) return addresses
  if (allowPrivate) throw new FetchError('unreachable', `the host ${host} does not exist, or has no address`)
  await untilRefusal(startedAtMs, refusalMs, signal)
  const refusedName: RefusedName = addresses.length > 0 ? 'not_public' : 'unknown_name'
  throw new FetchError(
    'forbidden',
    `the host ${host} has no public address: check its name; private networks are not reached from here, unless the operator permits it`,
    { refusedName },
  )
}

/** The addresses of a name; none when it is unknown. */
async function pinned(host: string, { pins, lookUp, signal }: Admission): Promise<readonly LookupAddress[]> {
  let addresses = pins.get(host)
  if (!addresses) {
    addresses = lookUp(host).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOTFOUND' || error.code === 'EAI_NODATA') return []
      throw error
    })
    // callers that await it get the failure
    addresses.catch(() => undefined)
    pins.set(host, addresses)
  }
  return await Promise.race([addresses, aborted(signal)])
}

const aborted = (signal: AbortSignal) =>
  new Promise<never>((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason as Error)
    else signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
