import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort } from '../../infra/local/ports.ts'
import { waitUntil } from '../../infra/local/wait.ts'

/** The processes of ours, whose memory is watched. */
export const roles = ['api', 'worker', 'runner', 'edge'] as const
export type Role = (typeof roles)[number]

export interface Answer {
  readonly status: number
  readonly body: any
}

export interface Sent {
  readonly key?: string | undefined
  readonly json?: unknown
  readonly bytes?: string | Buffer
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
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
}

/** `npm start` of a checkout in a folder and on ports of its own, reached as its users reach it. */
export interface Platform extends AsyncDisposable {
  readonly port: number
  readonly dataDir: string
  /** Everything that the launcher has printed. */
  readonly output: () => string
  /** Through Caddy, whatever the status is. */
  call(endpoint: string, sent?: Sent): Promise<Answer>
  operator(endpoint: string, json?: unknown): Promise<Answer>
  project(plan: string): Promise<Project>
  site(project: Project, files?: readonly { readonly path: string; readonly content: string }[]): Promise<Site>
  /** Sends an archive and waits until its deploy has ended. */
  deployArchive(project: Project, siteId: string, archive: Buffer): Promise<Answer>
  ended(project: Project, deployId: string): Promise<Answer>
  /** Largest memory in MiB that each process has had since it started, and its pid. */
  memory(): Promise<Record<Role, { readonly pid: number; readonly peakMiB: number }>>
}

/** @param tree the checkout to start; this one when absent */
export async function startPlatform(tree = resolve(import.meta.dirname, '../..')): Promise<Platform> {
  await using stack = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'plinth-hostile-'))
  // the users of PostgreSQL and of builds have to pass through
  await chmod(dir, 0o711)
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  const port = await freePort()
  const dataDir = join(dir, 'data')
  const launcher = spawn(process.execPath, ['infra/local/main.ts'], {
    cwd: tree,
    env: {
      ...process.env,
      PLINTH_DATA_DIR: dataDir,
      PLINTH_HTTP_PORT: String(port),
      PLINTH_HTTPS_PORT: String(await freePort()),
      // every look-up fails at once: no attack asks the name servers of this machine
      PLINTH_DNS_SERVERS: '127.0.0.1:9',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  stack.defer(() => stop(launcher))
  let output = ''
  for (const stream of [launcher.stdout, launcher.stderr]) stream.on('data', (chunk) => (output += chunk))
  const ended = once(launcher, 'exit').then(() => output)
  await waitUntil('npm start', () => output.includes('--data-binary'), { timeoutMs: 280_000, ended })
  const operatorToken = (await readFile(join(dataDir, 'operator-token'), 'utf8')).trim()
  const agent = new Agent({ keepAlive: true })
  stack.defer(() => agent.destroy())
  let names = 0

  async function call(endpoint: string, { key, json, bytes, type, headers }: Sent = {}): Promise<Answer> {
    const [method = '', path = ''] = endpoint.split(' ')
    const body = bytes ?? (json === undefined ? undefined : JSON.stringify(json))
    const outgoing = request({
      host: '127.0.0.1',
      port,
      method,
      path,
      agent,
      headers: {
        host: 'localhost',
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { 'content-type': type ?? 'application/json', 'content-length': Buffer.byteLength(body) }),
        ...headers,
      },
    })
    outgoing.on('error', () => undefined)
    outgoing.end(body)
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    return { status: response.statusCode ?? 0, body: parsed(await text(response)) }
  }

  async function expectOk(answer: Promise<Answer>): Promise<Answer['body']> {
    const { status, body } = await answer
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(body).slice(0, 300)}`)
    return body
  }

  const platform: Omit<Platform, keyof AsyncDisposable> = {
    port,
    dataDir,
    output: () => output,
    call,
    operator: (endpoint, json) => call(endpoint, { key: operatorToken, json }),
    async project(plan) {
      const owner = { name: 'hostile', owner_email: 'owner@example.com', plan }
      const { id } = await expectOk(platform.operator('POST /operator/v1/projects', owner))
      const keyOf = async (scope: string) =>
        (await expectOk(platform.operator(`POST /operator/v1/projects/${id}/keys`, { name: scope, scope }))).key
      return { id, key: await keyOf('full'), readonlyKey: await keyOf('readonly') }
    },
    async site(project, files = [{ path: 'index.html', content: '<!doctype html><title>x</title>' }]) {
      const json = { name: 'site', subdomain: `hostile-site-${names++}` }
      const site = await expectOk(call('POST /api/v1/sites', { key: project.key, json }))
      const deploy = await expectOk(call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: project.key, json: { files } }))
      await platform.ended(project, deploy.id)
      return { id: site.id, host: new URL(site.url).host }
    },
    async deployArchive(project, siteId, bytes) {
      const sent = { key: project.key, bytes, type: 'application/gzip' }
      const answer = await call(`POST /api/v1/sites/${siteId}/deploys`, sent)
      return answer.status === 200 ? await platform.ended(project, answer.body.id) : answer
    },
    async ended({ key }, deployId) {
      for (;;) {
        const answer = await call(`GET /api/v1/deploys/${deployId}`, { key })
        if (answer.status === 200 && !['queued', 'building'].includes(answer.body.status)) return answer
        await pause(25)
      }
    },
    async memory() {
      const found = await Promise.all(roles.map(async (role) => [role, await memoryOf(join(dataDir, 'run', `${role}.json`))]))
      return Object.fromEntries(found)
    },
  }
  const owned = stack.move()
  return { ...platform, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

async function memoryOf(record: string) {
  const { pid } = JSON.parse(await readFile(record, 'utf8')) as { pid: number }
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return { pid, peakMiB: Math.round(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024) }
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
export async function storedFiles({ dataDir }: Pick<Platform, 'dataDir'>): Promise<number> {
  const entries = await readdir(join(dataDir, 'cas'), { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).length
}
