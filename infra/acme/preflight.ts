import { randomBytes } from 'node:crypto'
import { isIPv6 } from 'node:net'
import type { Config } from '../config.ts'
import { openResolver, type Resolver } from '../dns/resolver.ts'
import { dnsServers } from '../dns/servers.ts'
import { request } from '../http.ts'
import { isPublicAddress, mayBeInternal } from '../net/public-address.ts'
import { acmeAccount, challengePath } from './account.ts'

export interface PreflightResult {
  readonly ok: boolean
  /** The finding, and what the owner should do. */
  readonly message: string
}

/** Requests the HTTP-01 answer at a name, as the certificate authority will. It rejects only when the signal is aborted. */
export type PreflightCheck = (name: string, signal?: AbortSignal) => Promise<PreflightResult>

export interface PreflightOptions {
  readonly resolver: Pick<Resolver, 'lookup'>
  /** Addresses of this platform, which are requested even when they are not public. */
  readonly servingIps: readonly string[]
  /** The port to try when port 80 does not answer: a router may forward that one from outside only. */
  readonly httpPort: number
  readonly thumbprint: string
}

const requestMs = 5000
const maxBodyBytes = 1024
const maxAddresses = 4
/** The errors of a machine without IPv6 for every such address. */
const noRoute = ['ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL', 'EAFNOSUPPORT']

/** @throws ConfigError when a name server in the settings is no IP address */
export function openPreflightCheck({ dns, http }: Pick<Config, 'dns' | 'http'>, secretKey: Uint8Array): PreflightCheck {
  const { thumbprint } = acmeAccount(secretKey)
  const resolver = openResolver({ servers: dnsServers(dns.servers) })
  return createPreflightCheck({ resolver, servingIps: dns.servingIps, httpPort: http.port, thumbprint })
}

export function createPreflightCheck({ resolver, servingIps, httpPort, thumbprint }: PreflightOptions): PreflightCheck {
  const isAllowed = (address: string) => servingIps.includes(address) || isPublicAddress(address)
  const ports = [...new Set([80, httpPort])]

  /** Undefined when the right answer was there. */
  async function problemAt(name: string, address: string, signal?: AbortSignal): Promise<string | undefined> {
    if (!isAllowed(address)) return `${name} has the address ${address}, which no visitor can reach`
    let problem: string | undefined
    for (const port of ports) {
      const token = `plinth-${randomBytes(9).toString('base64url')}`
      const answer = await ask({ name, address, port, path: challengePath + token, signal })
      if (answer.body === `${token}.${thumbprint}`) return undefined
      if (isIPv6(address) && noRoute.includes(answer.problem ?? '')) return undefined
      problem ??= `${name} at ${address}, port ${port}, ${answer.problem === undefined ? 'is answered by another server' : says(answer.problem)}`
    }
    return problem
  }

  return async (name, signal) => {
    const found = await Promise.all([resolver.lookup(name, 'A'), resolver.lookup(name, 'AAAA')])
    const failed = found.find((lookup) => lookup.kind === 'failed')
    const addresses = found.flatMap((lookup) => (lookup.kind === 'found' ? lookup.records : []))
    if (failed) return { ok: false, message: `the address of ${name} could not be looked up: ${failed.reason}` }
    // the name may be one of the network of the platform, which its users must not learn
    const shown = addresses.filter((address) => isAllowed(address) || !mayBeInternal(address))
    if (shown.length === 0)
      return { ok: false, message: `${name} has no A record that visitors can reach: add one that leads to this platform` }
    const asked = shown.slice(0, maxAddresses)
    const problems = await Promise.all(asked.map((address) => problemAt(name, address, signal)))
    signal?.throwIfAborted()
    const problem = problems.find((one) => one !== undefined)
    if (problem === undefined) return { ok: true, message: `${name} leads to this platform` }
    return { ok: false, message: `${problem}; every address of the domain must lead to this platform, on port 80` }
  }
}

const says = (problem: string) => (/^E[A-Z]+$/.test(problem) ? `cannot be reached (${problem})` : problem)

interface Asked {
  readonly name: string
  readonly address: string
  readonly port: number
  readonly path: string
  readonly signal: AbortSignal | undefined
}

/** Connects to the address and nowhere else: redirects are not followed. */
async function ask({ name, address, port, path, signal }: Asked): Promise<{ body?: string; problem?: string }> {
  const { promise, resolve } = Promise.withResolvers<{ body?: string; problem?: string }>()
  const limit = AbortSignal.any([AbortSignal.timeout(requestMs), ...(signal ? [signal] : [])])
  const outgoing = request({ host: address, port, path, headers: { host: name }, agent: false, signal: limit }, (response) => {
    const { statusCode = 0 } = response
    if (statusCode !== 200) return resolve({ problem: `answers with status ${statusCode} instead of the expected answer` })
    let body = ''
    response.setEncoding('latin1')
    response.on('data', (chunk: string) => {
      body += chunk
      if (body.length > maxBodyBytes) resolve({ problem: 'answers with a page instead of the expected answer' })
    })
    response.on('end', () => resolve({ body: body.trim() }))
    response.on('error', fail)
  })
  const fail = (error: NodeJS.ErrnoException) =>
    resolve({
      problem:
        error.name === 'AbortError' || error.name === 'TimeoutError' ? 'does not answer in time' : (error.code ?? error.message),
    })
  outgoing.on('error', fail)
  outgoing.end()
  return promise.finally(() => outgoing.destroy())
}
