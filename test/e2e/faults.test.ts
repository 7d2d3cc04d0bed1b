import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { loadConfig } from '../../infra/config.ts'
import { apiOnSocket } from '../../infra/local/api-client.ts'
import { type Stack, startStack } from '../../infra/local/stack.ts'
import { tarGz } from '../infra/archives.ts'
import { builtBy } from '../make.ts'
import { platformPorts } from '../ports.ts'

/** A busy machine may be late once. */
const bestOfThree = { retry: 2 }

// The real processes of `npm start`, killed at bad moments. What was answered with 200 has to be there afterwards.

let dir: string
let stack: Stack
let said: string[]
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-faults-'))
  await chmod(dir, 0o711)
  said = []
  const { bwrap, toolchain } = inject('buildTools')
  const config = loadConfig({
    PLINTH_DATA_DIR: join(dir, 'data'),
    ...(await platformPorts()).settings,
    PLINTH_BUILD_BWRAP: bwrap,
    PLINTH_BUILD_TOOLCHAIN: toolchain,
    PLINTH_CACHE_DIR: loadConfig().cacheDir,
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
  })
  stack = await startStack(config, { report: (line) => said.push(line), signal: new AbortController().signal })
})
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]()
  await rm(dir, { recursive: true, force: true })
})

const siteId = () => stack.demo?.site?.id ?? ''

async function pidOf(name: string): Promise<number> {
  const record = await readFile(join(stack.config.dataDir, 'run', `${name}.json`), 'utf8')
  return (JSON.parse(record) as { pid: number }).pid
}

/** Ends a process as `kill -9` does, and waits until the launcher has started it again. */
async function kill(name: string): Promise<void> {
  const pid = await pidOf(name)
  const count = () => said.filter((line) => line === `${name} runs again`).length
  const before = count()
  process.kill(pid, 'SIGKILL')
  while (count() === before) await pause(20)
}

/** A request to the api that is repeated while it is away. */
async function call(endpoint: string, body?: unknown): Promise<any> {
  for (;;) {
    try {
      const answer = await apiOnSocket(stack.config.sockets.api)(endpoint, stack.demo?.key ?? '', body)
      if (answer.status === 200) return answer.body
      if (answer.status !== 503) throw new Error(`${endpoint}: ${answer.status} ${JSON.stringify(answer.body)}`)
    } catch (error) {
      if (!['ENOENT', 'ECONNREFUSED', 'ECONNRESET'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    }
    await pause(50)
  }
}

async function visit(path = '/'): Promise<{ status: number; body: string }> {
  const host = new URL(stack.demo?.site?.url ?? '').host
  const outgoing = request({ host: '127.0.0.1', port: stack.config.http.port, path, headers: { host } }).end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  return { status: response.statusCode ?? 0, body: await text(response) }
}

async function sendArchive(script: string): Promise<string> {
  const archive = tarGz([{ name: 'plinth.json', data: builtBy(script) }])
  const outgoing = request({
    host: '127.0.0.1',
    port: stack.config.http.port,
    method: 'POST',
    path: `/api/v1/sites/${siteId()}/deploys`,
    headers: { host: 'localhost', authorization: `Bearer ${stack.demo?.key}`, 'content-type': 'application/gzip' },
  }).end(archive)
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  return (JSON.parse(await text(response)) as { id: string }).id
}

async function reaches(deployId: string, statuses: string[]): Promise<any> {
  for (;;) {
    const deploy = await call(`GET /api/v1/deploys/${deployId}`)
    if (statuses.includes(deploy.status)) return deploy
    await pause(50)
  }
}

const ended = ['active', 'failed', 'superseded']

async function expectOneActive(): Promise<void> {
  const deploys = (await call(`GET /api/v1/sites/${siteId()}/deploys`)) as { status: string }[]
  expect(deploys.filter((deploy) => deploy.status === 'active')).toHaveLength(1)
}

test('kill -9 of the worker during a build: the deploy goes live once', async () => {
  const id = await sendArchive('sleep 2 && mkdir dist && echo worker > dist/index.html')
  await reaches(id, ['building'])
  await kill('worker')
  expect((await reaches(id, ended)).status).toBe('active')
  await expectOneActive()
  await expect.poll(() => visit()).toEqual({ status: 200, body: 'worker\n' })
})

test('kill -9 of the runner during a build: the build is done again, and nothing of the first is left', async () => {
  const id = await sendArchive('sleep 2 && mkdir dist && echo runner > dist/index.html')
  await reaches(id, ['building'])
  await pause(500)
  await kill('runner')
  expect((await reaches(id, ended)).status).toBe('active')
  await expectOneActive()
  const left = (await readdir(stack.config.build.dir)).filter(
    (name) => !['status.json', 'support', 'caches', 'kept.prom'].includes(name),
  )
  expect(left).toEqual([])
})

test('kill -9 of the api right after a 200: every deploy that was answered is there and ends', async () => {
  const page = (n: number) => ({ files: [{ path: 'index.html', content: `page ${n}` }] })
  const accepted: string[] = []
  for (const n of [1, 2, 3]) {
    accepted.push((await call(`POST /api/v1/sites/${siteId()}/deploy-files`, page(n))).id)
    await kill('api')
  }
  for (const id of accepted) await reaches(id, ended)
  await expectOneActive()
  await expect.poll(async () => (await visit()).body).toBe('page 3')
})

test('kill -9 of the edge and of Caddy: the sites are back within two seconds', bestOfThree, async () => {
  for (const name of ['edge', 'caddy']) {
    await kill(name)
    const startedAt = performance.now()
    const answers = async () => (await visit().catch(() => undefined))?.status === 200
    while (!(await answers())) await pause(20)
    expect([name, performance.now() - startedAt < 2000]).toEqual([name, true])
  }
})

test('kill -9 of Temporal: a deploy is accepted meanwhile and goes live', async () => {
  const killed = kill('temporal')
  const { id } = await call(`POST /api/v1/sites/${siteId()}/deploy-files`, {
    files: [{ path: 'index.html', content: 'temporal' }],
  })
  await killed
  expect((await reaches(id, ended)).status).toBe('active')
  await expect.poll(async () => (await visit()).body).toBe('temporal')
})

test('kill -9 of PostgreSQL: sites are served meanwhile, and the api is back by itself', async () => {
  const killed = kill('postgres')
  for (let i = 0; i < 20; i++) expect((await visit()).status).toBe(200)
  await killed
  const { id } = await call(`POST /api/v1/sites/${siteId()}/deploy-files`, {
    files: [{ path: 'index.html', content: 'postgres' }],
  })
  expect((await reaches(id, ended)).status).toBe('active')
})

test(
  'a PostgreSQL that is silent: the api says so within five seconds, sites are served, and it recovers',
  bestOfThree,
  async () => {
    const pid = await pidOf('postgres')
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
    const servers = [pid, ...children.trim().split(' ').map(Number)]
    for (const server of servers) process.kill(server, 'SIGSTOP')
    try {
      const startedAt = performance.now()
      const { status } = await apiOnSocket(stack.config.sockets.api)('GET /api/v1/whoami', stack.demo?.key ?? '')
      expect([status, performance.now() - startedAt < 5000]).toEqual([503, true])
      expect((await visit()).status).toBe(200)
    } finally {
      for (const server of servers) process.kill(server, 'SIGCONT')
    }
    expect((await call('GET /api/v1/whoami')).project_name).toBe('Demo')
  },
)
