import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { type Config, loadConfig } from '../../infra/config.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import { platformPorts } from '../ports.ts'
import { peakMemory, resetPeak } from './peak-memory.ts'

/** The processes of ours, whose memory is watched. */
export const roles = ['api', 'worker', 'runner', 'edge'] as const
export type Role = (typeof roles)[number]

export interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  /** Parsed when it is JSON. */
  readonly body: any
}

export interface Sent {
  readonly key?: string | undefined
  /** Of the request; that of the api when absent. */
  readonly host?: string
  readonly json?: unknown
  readonly bytes?: string | Buffer
  /** Of the bytes; that of JSON for text when absent. */
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly agent?: Agent
}

export interface Project {
  readonly id: string
  /** Of full scope. */
  readonly key: string
  readonly readonlyKey: string
}

export interface Site {
  readonly id: string
  readonly host: string
  /** Of full scope. */
  readonly key: string
}

export interface PlatformOptions {
  /** The checkout to start; this one when absent. */
  readonly tree?: string | undefined
  /** Go over the environment. */
  readonly settings?: Readonly<Record<string, string>>
  /** Where `data` lies, or is made. It is kept; without it the platform has a folder of its own. */
  readonly folder?: string
}

/** `npm start` of a checkout in a folder and on ports of its own, reached as its users reach it. */
export interface Platform extends AsyncDisposable {
  readonly port: number
  /** As the settings say, without what the launcher adds. */
  readonly config: Config
  readonly operatorToken: string
  /** Every line that the launcher has printed. */
  readonly lines: readonly string[]
  /** One request through Caddy, whatever its status is. @throws when the connection fails */
  call(endpoint: string, sent?: Sent): Promise<Answer>
  operator(endpoint: string, json?: unknown): Promise<Answer>
  project(plan: string): Promise<Project>
  /** A site with one page. */
  site(project: Project): Promise<Site>
  /** A project of its own, on the plan without limits, with one site that has no deploy yet. */
  emptySite(subdomain: string): Promise<Site>
  /** Sends an archive and waits until its deploy has ended. */
  deployArchive(project: Pick<Project, 'key'>, siteId: string, archive: Buffer): Promise<Answer>
  /** Asks until the deploy has one of the statuses, those of an ended one when absent; the api may be away for a while. */
  reaches(caller: Pick<Project, 'key'>, deployId: string, statuses?: readonly string[]): Promise<Answer['body']>
  pidOf(process: string): Promise<number>
  /** Sends a signal that ends the process, and waits until the launcher has put a new one in its place. Answers the milliseconds that it took. */
  restart(process: string, signal: 'SIGTERM' | 'SIGKILL'): Promise<number>
  /** Largest memory in MiB that each process has had since it started, or since this was last asked, and its pid. */
  memory(): Promise<Record<Role, { readonly pid: number; readonly peakMiB: number }>>
}

const ended = ['active', 'superseded', 'failed', 'ready'] as const

export async function startPlatform({ tree, settings, folder }: PlatformOptions = {}): Promise<Platform> {
  await using stack = new AsyncDisposableStack()
  const dir = folder ?? (await mkdtemp(join(tmpdir(), 'plinth-hostile-')))
  // the users of PostgreSQL and of builds have to pass through
  await chmod(dir, 0o711)
  if (folder === undefined) stack.defer(() => rm(dir, { recursive: true, force: true }))
  const env = {
    ...process.env,
    PLINTH_DATA_DIR: join(dir, 'data'),
    ...(await platformPorts()).settings,
    // every look-up fails at once: nothing here asks the name servers of this machine
    PLINTH_DNS_SERVERS: '127.0.0.1:9',
    ...settings,
  }
  const config = loadConfig(env)
  const { port } = config.http
  const launcher = spawn(process.execPath, ['infra/local/main.ts'], {
    cwd: tree ?? resolve(import.meta.dirname, '../..'),
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  stack.defer(() => stop(launcher))
  const lines: string[] = []
  for (const input of [launcher.stdout, launcher.stderr]) createInterface({ input }).on('line', (line) => lines.push(line))
  const exited = once(launcher, 'exit').then(() => lines.join('\n'))
  await waitUntil('npm start', () => lines.at(-1)?.includes('--data-binary') ?? false, { timeoutMs: 280_000, ended: exited })
  const operatorToken = config.operatorToken ?? (await readFile(join(config.dataDir, 'operator-token'), 'utf8')).trim()
  const ownAgent = new Agent({ keepAlive: true })
  stack.defer(() => ownAgent.destroy())
  let names = 0

  async function call(endpoint: string, sent: Sent = {}): Promise<Answer> {
    const { key, host = 'localhost', json, bytes, headers, agent = ownAgent } = sent
    const [method = '', path = ''] = endpoint.split(' ')
    const type = sent.type ?? (Buffer.isBuffer(bytes) ? 'application/octet-stream' : 'application/json')
    const body = bytes ?? (json === undefined ? undefined : JSON.stringify(json))
    const outgoing = request({
      host: '127.0.0.1',
      port,
      method,
      path,
      agent,
      headers: {
        host,
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { 'content-type': type, 'content-length': Buffer.byteLength(body) }),
        ...headers,
      },
    })
    outgoing.on('error', () => undefined)
    outgoing.end(body)
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    return { status: response.statusCode ?? 0, headers: response.headers, body: parsed(await text(response)) }
  }

  const operator: Platform['operator'] = (endpoint, json) => call(endpoint, { key: operatorToken, json })

  async function project(plan: string): Promise<Project> {
    const owner = { name: 'hostile', owner_email: 'owner@example.com', plan }
    const { id } = await ok(operator('POST /operator/v1/projects', owner))
    const keyOf = async (scope: string) =>
      (await ok(operator(`POST /operator/v1/projects/${id}/keys`, { name: scope, scope }))).key
    return { id, key: await keyOf('full'), readonlyKey: await keyOf('readonly') }
  }

  async function siteWithoutDeploy(key: string, subdomain: string): Promise<Site> {
    const site = await ok(call('POST /api/v1/sites', { key, json: { name: 'site', subdomain } }))
    return { id: site.id, host: new URL(site.url).host, key }
  }

  async function site({ key }: Project): Promise<Site> {
    const made = await siteWithoutDeploy(key, `hostile-site-${names++}`)
    const files = [{ path: 'index.html', content: '<!doctype html><title>x</title>' }]
    const deploy = await ok(call(`POST /api/v1/sites/${made.id}/deploy-files`, { key, json: { files } }))
    await reaches(made, deploy.id)
    return made
  }

  const reaches: Platform['reaches'] = async ({ key }, deployId, statuses = ended) => {
    for (;;) {
      const answer = await call(`GET /api/v1/deploys/${deployId}`, { key }).catch(() => undefined)
      if (answer?.status === 200 && statuses.includes(answer.body.status)) return answer.body
      if (answer && ![200, 429, 503].includes(answer.status)) throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`)
      await pause(25)
    }
  }

  const deployArchive: Platform['deployArchive'] = async ({ key }, siteId, bytes) => {
    const answer = await call(`POST /api/v1/sites/${siteId}/deploys`, { key, bytes, type: 'application/gzip' })
    return answer.status === 200 ? { ...answer, body: await reaches({ key }, answer.body.id) } : answer
  }

  async function pidOf(name: string): Promise<number> {
    const record = await readFile(join(config.dataDir, 'run', `${name}.json`), 'utf8')
    return (JSON.parse(record) as { pid: number }).pid
  }

  const restartsOf = (name: string) => lines.filter((line) => line === `${name} runs again`).length

  async function restart(name: string, signal: 'SIGTERM' | 'SIGKILL'): Promise<number> {
    const before = restartsOf(name)
    const startedAt = performance.now()
    process.kill(await pidOf(name), signal)
    await waitUntil(`a new ${name}`, () => restartsOf(name) > before, { timeoutMs: 120_000 })
    return Math.round(performance.now() - startedAt)
  }

  async function memory(): ReturnType<Platform['memory']> {
    const peakOf = async (pid: number) => {
      const peakMiB = Math.round(await peakMemory(pid))
      await resetPeak(pid)
      return { pid, peakMiB }
    }
    const found = await Promise.all(roles.map(async (role) => [role, await peakOf(await pidOf(role))] as const))
    return Object.fromEntries(found) as Awaited<ReturnType<Platform['memory']>>
  }

  const owned = stack.move()
  return {
    port,
    config,
    operatorToken,
    lines,
    call,
    operator,
    project,
    site,
    emptySite: async (subdomain) => await siteWithoutDeploy((await project('enterprise')).key, subdomain),
    deployArchive,
    reaches,
    pidOf,
    restart,
    memory,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** The body of an answer that has to be a 200. */
export async function ok(answer: Promise<Answer>): Promise<Answer['body']> {
  const { status, body } = await answer
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body).slice(0, 300)}`)
  return body
}

/** One line of the table that `npm run test:hostile` prints. */
export function report(check: string, figure: string, target: string): void {
  process.stdout.write(`check ${check} | ${figure} | ${target}\n`)
}

function parsed(answer: string): unknown {
  try {
    return JSON.parse(answer)
  } catch {
    return answer
  }
}

async function stop(launcher: ChildProcess): Promise<void> {
  if (launcher.exitCode !== null) return
  launcher.kill('SIGTERM')
  await once(launcher, 'exit')
}

/** Files in the storage, those of writes under way included. */
export async function storedFiles({ config }: Pick<Platform, 'config'>): Promise<number> {
  const entries = await readdir(join(config.dataDir, 'cas'), { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).length
}
