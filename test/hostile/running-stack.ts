import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { type Agent, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { loadConfig } from '../../infra/config.ts'
import { freePort } from '../../infra/local/ports.ts'
import { startStack } from '../../infra/local/stack.ts'
import { waitUntil } from '../../infra/local/wait.ts'

export interface Sent {
  readonly key?: string
  /** Of the request; that of the api when absent. */
  readonly host?: string
  readonly json?: unknown
  readonly bytes?: Buffer
  readonly agent?: Agent
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  /** Parsed when it is JSON. */
  readonly body: any
}

export interface TestSite {
  readonly id: string
  readonly host: string
  readonly key: string
}

export type RunningStack = Awaited<ReturnType<typeof runStack>>

/** The processes of `npm start` in a folder and on ports of their own, whose launcher is this process. `settings` go over the environment. */
export async function runStack(settings: Readonly<Record<string, string>> = {}, folder?: string) {
  await using opened = new AsyncDisposableStack()
  const dir = folder ?? (await mkdtemp(join(tmpdir(), 'plinth-hostile-')))
  // the users of PostgreSQL and of builds have to pass through
  await chmod(dir, 0o711)
  if (folder === undefined) opened.defer(() => rm(dir, { recursive: true, force: true }))
  const said: string[] = []
  const own = {
    PLINTH_DATA_DIR: join(dir, 'data'),
    PLINTH_HTTP_PORT: `${await freePort()}`,
    PLINTH_HTTPS_PORT: `${await freePort()}`,
  }
  const started = await startStack(loadConfig({ ...process.env, ...own, ...settings }), {
    report: (line) => said.push(line),
    signal: new AbortController().signal,
  })
  opened.use(started)
  const { config } = started

  /** One request through Caddy, whatever its status is. @throws when the connection fails */
  async function call(endpoint: string, { key, host = 'localhost', json, bytes, agent }: Sent = {}): Promise<Answer> {
    const [method, path] = endpoint.split(' ') as [string, string]
    const body = bytes ?? (json === undefined ? undefined : JSON.stringify(json))
    const headers = {
      host,
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && {
        'content-type': bytes ? 'application/octet-stream' : 'application/json',
        'content-length': Buffer.byteLength(body),
      }),
    }
    const outgoing = request({ host: '127.0.0.1', port: config.http.port, method, path, headers, agent }).end(body)
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    const received = await buffer(response)
    const isJson = response.headers['content-type']?.includes('json') ?? false
    return { status: response.statusCode ?? 0, headers: response.headers, body: isJson ? parsed(received) : received.toString() }
  }

  async function pidOf(name: string): Promise<number> {
    const record = await readFile(join(config.dataDir, 'run', `${name}.json`), 'utf8')
    return (JSON.parse(record) as { pid: number }).pid
  }

  const restartsOf = (name: string) => said.filter((line) => line === `${name} runs again`).length

  const stack = opened.move()
  return {
    config,
    /** What the launcher has said. */
    said,
    call,
    pidOf,
    /** Sends a signal that ends the process, and waits until the launcher has put a new one in its place. Answers the milliseconds that it took. */
    async restart(name: string, signal: 'SIGTERM' | 'SIGKILL'): Promise<number> {
      const before = restartsOf(name)
      const startedAt = performance.now()
      process.kill(await pidOf(name), signal)
      await waitUntil(`a new ${name}`, () => restartsOf(name) > before, { timeoutMs: 120_000 })
      return Math.round(performance.now() - startedAt)
    },
    /** A project of its own with one empty site, on the plan without limits. */
    async site(subdomain: string): Promise<TestSite> {
      const key = config.operatorToken ?? ''
      const owner = { name: subdomain, owner_email: 'owner@example.com', plan: 'enterprise' }
      const project = await ok(call('POST /operator/v1/projects', { key, json: owner }))
      const made = await ok(call(`POST /operator/v1/projects/${project.id}/keys`, { key, json: { name: 'k', scope: 'full' } }))
      const site = await ok(call('POST /api/v1/sites', { key: made.key, json: { name: subdomain, subdomain } }))
      return { id: site.id, host: new URL(site.url).host, key: made.key }
    },
    /** Asks until the deploy has one of the statuses; the api may be away meanwhile. */
    async reaches(
      { key }: Pick<TestSite, 'key'>,
      deployId: string,
      statuses: readonly string[] = ended,
    ): Promise<Answer['body']> {
      for (;;) {
        const answer = await call(`GET /api/v1/deploys/${deployId}`, { key }).catch(() => undefined)
        if (answer?.status === 200 && statuses.includes(answer.body.status)) return answer.body
        if (answer && answer.status !== 200 && answer.status !== 503)
          throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`)
        await pause(50)
      }
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

const ended = ['active', 'superseded', 'failed', 'ready'] as const

/** The body of an answer that has to be a 200. */
export async function ok(answer: Promise<Answer>): Promise<Answer['body']> {
  const { status, body } = await answer
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
  return body
}

/** One line of the table that `npm run test:hostile` prints. */
export function report(check: string, figure: string, target: string): void {
  process.stdout.write(`check ${check} | ${figure} | ${target}\n`)
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return bytes.toString()
  }
}
