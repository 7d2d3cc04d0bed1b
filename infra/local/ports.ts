import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { type Config, ConfigError } from '../config.ts'

/**
 * Whether nobody listens on a TCP port. An empty `host` is every address.
 * @throws Error with a code when this user may not use the port
 */
async function isPortFree(port: number, host: string): Promise<boolean> {
  const server = createServer()
  try {
    server.listen({ port, exclusive: true, ...(host === '' ? {} : { host }) })
    await once(server, 'listening')
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false
    throw error
  } finally {
    server.close()
  }
}

/**
 * `preferred` when it is free, else any free port of 127.0.0.1 below those that Linux takes for outgoing connections: one of these could take
 * the port before its server binds it.
 */
export async function freePort(preferred?: number): Promise<number> {
  let port = preferred ?? randomInt(20_000, 32_768)
  while (!(await isPortFree(port, '127.0.0.1'))) port = randomInt(20_000, 32_768)
  return port
}

/** Ports above 1023 to which no browser connects, whatever name a page has for the address: bad ports of the Fetch standard. */
const portsWithoutBrowsers = [
  6669, 6668, 6667, 6666, 6665, 6697, 6679, 10_080, 6566, 4190, 4045, 3659, 1719, 1720, 1723, 5060, 5061, 2049, 6000,
]

/** A free port that no browser connects to, not always the same; undefined when all of them are taken. */
export async function portWithoutBrowsers(host = '127.0.0.1'): Promise<number | undefined> {
  const first = randomInt(portsWithoutBrowsers.length)
  const ports = [...portsWithoutBrowsers.slice(first), ...portsWithoutBrowsers.slice(0, first)]
  for (const port of ports) if (await isPortFree(port, host)) return port
  return undefined
}

/**
 * A loopback address that is hard to guess. Linux answers on all of 127.0.0.0/8; other systems have 127.0.0.1 only, which is the answer there.
 */
export async function privateLoopbackAddress(): Promise<string> {
  const address = ['127', randomInt(1, 255), randomInt(1, 255), randomInt(1, 255)].join('.')
  return (await canBind(address)) ? address : '127.0.0.1'
}

/** The addresses of PLINTH_LISTEN, as in `[::1]`, without those of a protocol that this machine has switched off. */
export async function usableAddresses(addresses: readonly string[]): Promise<string[]> {
  const usable = await Promise.all(addresses.map(async (address) => address === '' || (await canBind(withoutBrackets(address)))))
  return addresses.filter((_address, index) => usable[index])
}

async function canBind(host: string): Promise<boolean> {
  const server = createServer()
  try {
    server.listen({ port: 0, host })
    await once(server, 'listening')
    return true
  } catch (error) {
    return !isUnavailable(error)
  } finally {
    server.close()
  }
}

const withoutBrackets = (address: string) => address.replace(/^\[(.*)\]$/, '$1')
const isUnavailable = (error: unknown) => ['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes((error as NodeJS.ErrnoException).code ?? '')

export interface Ports {
  readonly temporal: number
  readonly temporalUi: number
  readonly postgres: number
  readonly certificates: number
}

/**
 * Checks the ports that are public or were set, and chooses the others: a taken default is replaced by a free one, and that is said.
 * @throws ConfigError naming the setting of a port that cannot be had
 */
export async function choosePorts({ http, temporal, database, acme }: Config, report: (line: string) => void): Promise<Ports> {
  for (const host of http.listen.map(withoutBrackets)) {
    await requirePort('PLINTH_HTTP_PORT', http.port, host)
    await requirePort('PLINTH_HTTPS_PORT', http.httpsPort, host)
  }
  const choose = async (setting: string, set: number | undefined, usual: number | undefined, needed: boolean) => {
    if (set === undefined || !needed) {
      const port = await freePort(usual)
      if (needed && usual !== undefined && port !== usual)
        report(`port ${usual} is taken, using ${port} (${setting} would fix one)`)
      return port
    }
    await requirePort(setting, set, '127.0.0.1')
    return set
  }
  const embedded = temporal.address === undefined
  return {
    temporal: await choose('PLINTH_TEMPORAL_PORT', temporal.port, 7233, embedded),
    temporalUi: await choose('PLINTH_TEMPORAL_UI_PORT', temporal.uiPort, 8233, embedded),
    postgres: await choose('PLINTH_POSTGRES_PORT', database.port, undefined, database.url === undefined),
    certificates: await choose('PLINTH_CERTIFICATES_PORT', acme.certificatesPort, undefined, true),
  }
}

async function requirePort(setting: string, port: number, host: string): Promise<void> {
  const where = host === '' ? `port ${port}` : `port ${port} on ${host}`
  try {
    if (await isPortFree(port, host)) return
  } catch (cause) {
    throw new ConfigError(`${where} cannot be used (${(cause as NodeJS.ErrnoException).code}): set ${setting} to another port`, {
      cause,
    })
  }
  throw new ConfigError(`${where} is taken: stop the program that uses it, or set ${setting} to another port`)
}
