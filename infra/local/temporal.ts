import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from '../http.ts'
import { lastLines, type OnSpawn, startChild } from './child.ts'
import { freePort, portWithoutBrowsers } from './ports.ts'
import type { SocketAddress } from './temporal-ui.ts'
import { waitUntil } from './wait.ts'

export interface TemporalOptions {
  /** Path of the Temporal CLI. */
  readonly binary: string
  /** SQLite file that keeps the workflows; without it they are lost at the end. */
  readonly dbFile?: string
  /** Without it any free port. */
  readonly port?: number
  /** Where the web interface listens; without it there is none. It answers whoever reaches it, so only {@link openTemporalUi} should. */
  readonly ui?: SocketAddress | undefined
  /** Names with their types. */
  readonly searchAttributes: Readonly<Record<string, string>>
  readonly logFile?: string
  readonly signal?: AbortSignal | undefined
  readonly onSpawn?: OnSpawn | undefined
}

export interface RunningTemporal extends AsyncDisposable {
  readonly address: string
  readonly pid: number
  readonly exited: Promise<string>
}

const maxTries = 3

/**
 * Starts a Temporal development server on loopback and waits until its namespace answers.
 * @throws Error with the last lines of its log
 */
export async function startTemporal(options: TemporalOptions): Promise<RunningTemporal> {
  for (let tries = 1; ; tries++) {
    try {
      return await tryStart(options)
    } catch (error) {
      // another program may have taken one of its ports between the choice and the use
      if (tries === maxTries || !(error instanceof EndedError)) throw error
    }
  }
}

/** The server ended before it answered. */
class EndedError extends Error {}

async function tryStart(options: TemporalOptions): Promise<RunningTemporal> {
  const { dbFile, ui } = options
  const port = options.port ?? (await freePort())
  const httpPort = await freePort()
  // the figures of this port have no check of their own; when 19 servers run on this machine, a page could read them
  const metricsPort = (await portWithoutBrowsers()) ?? (await freePort())
  const logFile = options.logFile ?? (dbFile === undefined ? undefined : `${dbFile}.log`)
  const child = await startChild({
    command: [
      options.binary,
      'server',
      'start-dev',
      ...flags({ ip: '127.0.0.1', port, 'http-port': httpPort, 'metrics-port': metricsPort, 'log-level': 'warn' }),
      ...(ui === undefined ? ['--headless'] : flags({ 'ui-ip': ui.host, 'ui-port': ui.port })),
      // wal: 55 workflows/s instead of 16; synchronous=1 survives a kill of the process, and PostgreSQL is the truth anyway
      ...(dbFile === undefined ? [] : flags({ 'db-filename': dbFile, 'sqlite-pragma': ['journal_mode=wal', 'synchronous=1'] })),
      ...flags({ 'search-attribute': Object.entries(options.searchAttributes).map(([name, type]) => `${name}=${type}`) }),
      // projects share a queue fairly, but only with one partition
      ...flags({
        'dynamic-config-value': [
          'matching.enableFairness=true',
          'matching.numTaskqueueReadPartitions=1',
          'matching.numTaskqueueWritePartitions=1',
          // over HTTP a page in a browser of this machine could start and terminate workflows: the server has no check of origins
          `frontend.httpAllowedHosts=${JSON.stringify([httpHost])}`,
        ],
      }),
    ],
    // its heap may grow by half instead of twofold between two collections: 7 MiB when idle
    env: { GOGC: '50' },
    logFile,
    signal: options.signal,
    onSpawn: options.onSpawn,
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 5000,
  })
  let hasEnded = false
  void child.exited.then(() => {
    hasEnded = true
  })
  try {
    await waitUntil('the Temporal server', () => hasNamespace(httpPort).catch(() => false), {
      timeoutMs: 30_000,
      ended: child.exited,
    })
    if (dbFile !== undefined) await keepForAWeek(httpPort)
  } catch (error) {
    const Failure = hasEnded ? EndedError : Error
    await child[Symbol.asyncDispose]()
    throw new Failure(`${(error as Error).message}\n${await lastLines(logFile)}`, { cause: error })
  }
  return { ...child, address: `127.0.0.1:${port}` }
}

/** The only Host that the HTTP port answers. No browser sends it, as no name below .invalid resolves (RFC 6761). */
const httpHost = 'plinth.invalid'

const hasNamespace = async (port: number) => (await ask(port, 'GET', '/api/v1/namespaces/default')) === 200

/** Closed workflows stay readable for seven days; the server's own default is one. */
async function keepForAWeek(port: number): Promise<void> {
  const config = { workflowExecutionRetentionTtl: `${7 * 24 * 3600}s` }
  const status = await ask(port, 'POST', '/api/v1/namespaces/default/update', { config })
  if (status !== 200) throw new Error(`Temporal refused to keep closed workflows for a week, with the HTTP status ${status}`)
}

/** Answers the status. Starting the CLI for a request would take a quarter of a second of a processor. */
async function ask(port: number, method: string, path: string, body?: unknown): Promise<number | undefined> {
  const outgoing = request({ port, host: '127.0.0.1', method, path, headers: { host: httpHost } })
  outgoing.end(body === undefined ? undefined : JSON.stringify(body))
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  response.resume()
  return response.statusCode
}

/** `{ port: 1, pragma: ['a', 'b'] }` becomes `--port 1 --pragma a --pragma b`. */
function flags(values: Readonly<Record<string, string | number | readonly string[]>>): string[] {
  return Object.entries(values).flatMap(([name, value]) => [value].flat().flatMap((one) => [`--${name}`, String(one)]))
}
