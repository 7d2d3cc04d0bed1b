import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { homedir, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { execa } from 'execa'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { moscowDay } from '../../core/traffic-days.ts'
import { reachableFolder } from '../../infra/local/place.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import { startGitServer } from '../infra/git-server.ts'
import { listeningPorts } from '../infra/listening-ports.ts'
import { openReboundPage } from '../infra/rebound-page.ts'
import { platformPorts } from '../ports.ts'

const root = resolve(import.meta.dirname, '../..')

interface Started {
  readonly npm: ChildProcess
  readonly exited: Promise<unknown>
  /** What stands behind a word at the beginning of a line. */
  readonly line: (word: string) => string
  readonly deployLine: string
}

let dir: string
let ports: Awaited<ReturnType<typeof platformPorts>>
let started: Started

beforeAll(async () => {
  // closed to others, as a home directory may be: what another user has to reach must lie elsewhere
  dir = await mkdtemp(join(tmpdir(), 'plinth-start-'))
  ports = await platformPorts()
  started = await start()
}, 600_000)
afterAll(async () => {
  await stop()
  const dataDir = join(dir, 'data')
  const place = await reachableFolder(dataDir)
  for (const folder of [place, dir]) await rm(folder, { recursive: true, force: true })
})

/**
 * `npm start`, in an empty or a used data directory, until it says that it is ready.
 * @param inDemo done when everything runs and only the demo site is missing
 */
async function start(inDemo?: () => Promise<void>): Promise<Started> {
  const npm = spawn('npm', ['start'], {
    cwd: root,
    env: {
      ...process.env,
      PLINTH_DATA_DIR: join(dir, 'data'),
      PLINTH_ALLOW_PRIVATE_GIT: 'true',
      ...ports.settings,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  npm.stdout.on('data', (chunk) => (output += chunk))
  npm.stderr.on('data', (chunk) => (output += chunk))
  const exited = once(npm, 'close')
  const ended = exited.then(() => output)
  if (inDemo) {
    await waitUntil('the demo site', () => output.includes('\nbuilds '), { timeoutMs: 300_000, ended })
    await inDemo()
  }
  await waitUntil('npm start', () => output.includes('--data-binary'), { timeoutMs: 590_000, ended })
  const line = (word: string) => new RegExp(`^${word} (.*)$`, 'm').exec(output)?.[1] ?? `no line ${word} in ${output}`
  return { npm, exited, line, deployLine: /^tar -C .*$/m.exec(output)?.[0] ?? '' }
}

async function stop(): Promise<void> {
  started.npm.kill('SIGTERM')
  await started.exited
}

/** The pid of the launcher or of one of the processes that it has started, by its name. */
async function pidOf(name: string): Promise<number> {
  const file = name === 'launcher' ? 'launcher.lock' : `run/${name}.json`
  return (JSON.parse(await readFile(join(dir, 'data', file), 'utf8')) as { pid: number }).pid
}

interface Got {
  readonly status: number | undefined
  readonly type: string | undefined
  readonly encoding: string | undefined
  readonly cookies: readonly string[] | undefined
  readonly page: string
}

/** `*.localhost` does not resolve in Node, so the address is given and the name goes into Host and SNI. */
async function get(url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Got> {
  const { hostname, protocol, port, pathname, search } = new URL(url)
  const options = {
    host: '127.0.0.1',
    port,
    method,
    path: pathname + search,
    headers: { ...headers, host: `${hostname}:${port}` },
  }
  const outgoing =
    protocol === 'https:'
      ? httpsRequest({ ...options, servername: hostname, ca: await readFile(started.line('CA certificate')) })
      : httpRequest(options)
  outgoing.end()
  const [response] = await once(outgoing, 'response')
  const { 'content-type': type, 'content-encoding': encoding, 'set-cookie': cookies } = response.headers
  return { status: response.statusCode, type, encoding, cookies, page: await text(response) }
}

/** Sends a folder with the printed line, and waits until its deploy has ended. */
async function deploy(folder: string): Promise<{ status: string; error: string | null; build_mode: string }> {
  const { stdout } = await execa('bash', ['-c', started.deployLine.replace('<folder>', folder)])
  return await ended((JSON.parse(stdout) as { id: string }).id)
}

async function ended(deployId: string): Promise<{ status: string; error: string | null; build_mode: string }> {
  for (;;) {
    const deploy = await call(`GET /api/v1/deploys/${deployId}`)
    if (!['queued', 'building', 'ready'].includes(deploy.status)) return deploy
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function call(endpoint: string, json?: unknown): Promise<any> {
  const [method = '', path = ''] = endpoint.split(' ')
  const response = await fetch(started.line('API') + path, {
    method,
    headers: {
      authorization: `Bearer ${started.line('Demo key')}`,
      ...(json !== undefined && { 'content-type': 'application/json' }),
    },
    ...(json !== undefined && { body: JSON.stringify(json) }),
  })
  const body: any = await response.json()
  if (!response.ok) throw new Error(`${endpoint}: ${response.status} ${JSON.stringify(body)}`)
  return body
}

async function folderWith(files: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(dir, 'site-'))
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(folder, path, '..'), { recursive: true })
    await writeFile(join(folder, path), content)
  }
  return folder
}

/** Every process whose command line names our data directory, or one below /var/lib that belongs to it. */
async function processesOf(dataDir: string): Promise<string[]> {
  const place = await reachableFolder(dataDir)
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(
    pids.map((pid) =>
      Promise.all([readFile(`/proc/${pid}/cmdline`, 'utf8'), readFile(`/proc/${pid}/environ`, 'utf8')]).then(
        (parts) => parts.join('\0'),
        () => '',
      ),
    ),
  )
  return lines.filter(
    (line) => line.includes(`PLINTH_DATA_DIR=${dataDir}\0`) || line.includes(`${place}/`) || line.includes(`${dataDir}/`),
  )
}

test('N09 S07: the demo site answers over http and https', async () => {
  const site = started.line('Site')
  expect(await get(site)).toMatchObject({
    status: 200,
    type: 'text/html; charset=utf-8',
    page: expect.stringContaining('It stands'),
  })
  expect(await get(`https://plinth-demo.plinth.localhost:${ports.https}/style.css`)).toMatchObject({ status: 200 })
})

test('the contact form of the demo site works', async () => {
  const site = started.line('Site')
  const { page } = await get(site)
  const endpoint = /<form action="([^"]+)"/.exec(page)?.[1] ?? ''
  const trap = /name="(_hp_\w+)"/.exec(page)?.[1] ?? ''
  const post = (fields: Record<string, string>) =>
    fetch(endpoint, {
      method: 'POST',
      headers: { origin: new URL(site).origin, accept: 'text/html' },
      body: new URLSearchParams(fields),
    })
  const sent = await post({ name: 'Ada', email: 'ada@example.com', message: 'It stands.', [trap]: '', _submit_time: '0' })
  expect([sent.status, await sent.text()]).toEqual([200, expect.stringContaining('Thank you')])
  const headers = { authorization: `Bearer ${started.line('Demo key')}` }
  const inbox = await fetch(`${started.line('API')}/api/v1/forms/submissions`, { headers })
  const { items } = (await inbox.json()) as { items: { data: unknown }[] }
  expect(items.map(({ data }) => data)).toEqual([{ name: 'Ada', email: 'ada@example.com', message: 'It stands.' }])
})

test('B04 D01: a plain folder sent with the printed line is live', async () => {
  const folder = await folderWith({
    'index.html': '<title>plain</title>',
    'about.html': '<title>about</title>',
    '.env': 'SECRET=1',
  })
  expect(await deploy(folder)).toMatchObject({ status: 'active', build_mode: 'static' })
  const site = started.line('Site')
  expect((await get(`${site}/`)).page).toContain('plain')
  expect((await get(`${site}/about`)).page).toContain('about')
  expect((await get(`https://plinth-demo.plinth.localhost:${ports.https}/about`)).page).toContain('about')
  expect((await get(`${site}/.env`)).page).not.toContain('SECRET')
})

test('B06: a build that fails says why, and the live site stays', async () => {
  const folder = await folderWith({
    'package.json': JSON.stringify({ name: 'broken', private: true, scripts: { build: 'echo about to fail && exit 3' } }),
  })
  const failed = await deploy(folder)
  expect(failed).toMatchObject({ status: 'failed', error: expect.stringContaining('about to fail') })
  expect((await get(started.line('Site'))).page).toContain('plain')
})

test('B01 B03 B05: a Vite React project as its own generator makes it is built on Node 20 and served', async () => {
  // npm waits five minutes for a registry that has fallen silent, as long as this test may take
  const env = { npm_config_fetch_timeout: '30000' }
  await execa('npm', ['create', 'vite@latest', 'app', '--yes', '--', '--template', 'react-ts', '--no-interactive'], {
    cwd: dir,
    env: { ...env, HOME: homedir() },
    stdin: 'ignore',
  })
  const app = join(dir, 'app')
  await execa('npm', ['install', '--package-lock-only'], { cwd: app, env })
  await writeFile(join(app, 'public', 'marker.txt'), 'from vite')
  expect(await deploy(app)).toMatchObject({ status: 'active', error: null, build_mode: 'build' })
  const site = started.line('Site')
  const { page } = await get(`${site}/`)
  const script = /src="(\/assets\/[^"]+\.js)"/.exec(page)?.[1]
  expect(await get(site + script)).toMatchObject({ status: 200, type: expect.stringContaining('javascript') })
  expect((await get(`https://plinth-demo.plinth.localhost:${ports.https}/marker.txt`)).page).toBe('from vite')
}, 300_000)

describe('the programs that a process of npm start starts run too', () => {
  let siteId: string
  let url: string
  beforeAll(async () => {
    const site = await call('POST /api/v1/sites', { name: 'programs', subdomain: 'programs' })
    siteId = site.id
    url = site.url
  })

  test('a repository is fetched, and its text is compressed', async () => {
    await using server = await startGitServer()
    server.repository('site').pushFiles({ 'index.html': '<p>from git</p>'.repeat(500) })
    await call(`PUT /api/v1/sites/${siteId}/git`, { repo_url: `${server.origin}/site.git` })
    const { id } = await call(`POST /api/v1/sites/${siteId}/git/deploy`)
    expect(await ended(id)).toMatchObject({ status: 'active', error: null })
    expect((await get(`${url}/`)).page).toContain('from git')
    await expect.poll(async () => (await get(`${url}/`, { 'accept-encoding': 'br' })).encoding).toBe('br')
  })

  test('an image is resized', async () => {
    const image = await sharp({ create: { width: 2000, height: 500, channels: 3, background: '#c00' } })
      .png()
      .toBuffer()
    const { brand } = await call(`PATCH /api/v1/sites/${siteId}/access/brand`, { logo_base64: image.toString('base64') })
    expect(brand.logo_url).toBe(`${url}/__svc/brand/logo.webp`)
  })
})

describe('what visitors open is what the owner reads, a few seconds later', () => {
  const browser = (version: number, more = {}) => ({
    'user-agent': `Mozilla/5.0 (X11; Linux x86_64; rv:${version}.0) Gecko/20100101 Firefox/${version}.0`,
    'accept-language': 'en',
    ...more,
  })
  const program = { 'user-agent': 'curl/8.9.1' }
  const index = '<!doctype html><title>x</title>'

  /** A new site with one page, which is served. */
  async function servedSite(subdomain: string): Promise<{ id: string; url: string }> {
    const { id, url } = await call('POST /api/v1/sites', { name: 'counted', subdomain })
    await call(`POST /api/v1/sites/${id}/deploy-files`, { files: [{ path: 'index.html', content: index }] })
    // by requests that count nothing
    await expect.poll(async () => (await get(url, {}, 'HEAD')).status).toBe(200)
    return { id, url }
  }

  test('K01 K02 K03 K04 K05 K06 J07: visits, submissions and publishes are in the statistics', async () => {
    const { id, url } = await servedSite('counted')
    const open = (count: number, path: string, headers: Record<string, string>) =>
      Promise.all(Array.from({ length: count }, () => get(url + path, headers)))
    const answers = [
      ...(await open(3, '/', browser(140, { referer: 'https://search.example/?q=x' }))),
      ...(await open(2, '/?from=mail', browser(141, { referer: 'https://search.example/' }))),
      ...(await open(1, '/', program)),
      ...(await open(5, '/gone.txt', browser(140))),
      ...(await open(4, '/lost.txt', browser(140))),
    ]
    expect(answers.map(({ status }) => status)).toEqual([...Array(6).fill(200), ...Array(9).fill(404)])
    for (const { cookies } of answers) expect(cookies).toBeUndefined()
    for (const { page } of answers.slice(0, 6)) expect(page).toBe(index)
    const body = JSON.stringify({ message: 'It stands.' })
    const headers = { origin: new URL(url).origin, 'content-type': 'application/json' }
    expect((await fetch(`${started.line('API')}/f/${id}`, { method: 'POST', headers, body })).status).toBe(200)

    const sizes = answers.map(({ page }) => Buffer.byteLength(page))
    const all = sizes.reduce((sum, size) => sum + size, 0)
    const day = {
      views: 6,
      visitors: 3,
      bytes: all,
      human_views: 5,
      human_visitors: 2,
      human_bytes: all - (sizes[5] ?? 0),
      form_submissions: 1,
      publishes: 1,
    }
    const today = moscowDay(Date.now())
    const read = (path: string) => call(`GET /api/v1/sites/${id}/stats${path}?days=2`)
    await expect.poll(async () => (await read('')).summary).toEqual(day)
    const stats = await read('')
    expect([stats.to, stats.days[1]]).toEqual([today, { date: today, ...day }])
    expect(await read('/tops')).toEqual({
      from: stats.from,
      to: today,
      pages: [{ value: '/', hits: 6, visitors: 3 }],
      sources: [{ value: 'search.example', hits: 5, visitors: 2 }],
      downloads: [],
      not_found: [{ value: '/gone.txt', hits: 5, visitors: 1 }],
      devices: [{ value: 'desktop', hits: 5, visitors: 2 }],
      bot_reasons: [],
    })
    const params = { name: 'get_site_stats', arguments: { site_id: id, days: 2 } }
    const called = await call('POST /mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params })
    expect(called.result.structuredContent).toEqual(stats)
  })

  test('E38: the live view shows visitors who come', async () => {
    const { id, url } = await servedSite('watched')
    const closed = new AbortController()
    const response = await fetch(`${started.line('API')}/api/v1/sites/${id}/stats/live`, {
      headers: { authorization: `Bearer ${started.line('Demo key')}` },
      signal: closed.signal,
    })
    let received = ''
    const append = new WritableStream<string>({
      write(chunk) {
        received += chunk
      },
    })
    const reading = response.body?.pipeThrough(new TextDecoderStream()).pipeTo(append)
    await expect.poll(() => received).toBe('event: live\ndata: {"visitors":0,"paths":[]}\n\n')
    for (let n = 0; n < 5; n++) await get(url, browser(140))
    await expect.poll(() => received).toContain('data: {"visitors":1,"paths":[{"path":"/","hits":5}]}')
    closed.abort()
    await expect(reading).rejects.toThrow(/aborted/)
  })
})

test('a page whose name is rebound to loopback reads nothing of ours and ends no workflow, whichever port it opens', async () => {
  // a workflow that waits for a day
  const { id } = await call('POST /api/v1/sites', { name: 'in the trash', subdomain: 'in-the-trash' })
  await call(`DELETE /api/v1/sites/${id}`)
  const waiting = async () => {
    const query = encodeURIComponent(`ExecutionStatus="Running" AND SiteId="${id}"`)
    const { page } = await get(`${started.line('Temporal UI')}/api/v1/namespaces/default/workflows?query=${query}`)
    const { executions = [] } = JSON.parse(page) as { executions?: { execution: { workflowId: string } }[] }
    return executions.map(({ execution }) => execution.workflowId)
  }
  await expect.poll(waiting, { timeout: 30_000 }).toHaveLength(1)
  const [workflowId = ''] = await waiting()

  const names = ['launcher', ...(await readdir(join(dir, 'data', 'run'))).map((file) => file.replace('.json', ''))]
  const ports = (await Promise.all(names.map(async (name) => await listeningPorts(await pidOf(name))))).flat()
  // Caddy's two, the certificates of the edge, PostgreSQL, the UI and what the Temporal server has
  expect(ports.length).toBeGreaterThanOrEqual(8)
  for (const { host, port } of ports) {
    await using page = openReboundPage(host, port)
    for (const path of ['/', '/api/v1/whoami', '/api/v1/namespaces', '/metrics', '/healthz', '/operator/v1/projects']) {
      const read = await page.read(path)
      expect([port, path, read === undefined || read.status >= 400]).toEqual([port, path, true])
    }
    const ended = await page.terminate(workflowId)
    expect([port, ended === undefined || ended.status >= 400]).toEqual([port, true])
  }
  expect(await waiting()).toEqual([workflowId])
})

test('npm run project:create makes a project and prints its first key once', async () => {
  const create = (...args: string[]) =>
    execa('npm', ['run', '--silent', 'project:create', '--', ...args], {
      cwd: root,
      env: { PLINTH_DATA_DIR: join(dir, 'data') },
      reject: false,
    })
  const made = await create('--name', 'Shop', '--email', 'owner@example.com', '--plan', 'pro')
  const key = /svc_\S+/.exec(made.stdout)?.[0]
  const response = await fetch(`${started.line('API')}/api/v1/whoami`, { headers: { authorization: `Bearer ${key}` } })
  expect(await response.json()).toMatchObject({ project_name: 'Shop', plan: 'pro', key: { scope: 'full' } })
  const wrong = await create('--name', 'Shop', '--email', 'owner@example.com', '--plan', 'gold')
  expect([wrong.exitCode, wrong.stderr]).toEqual([1, expect.stringContaining('plan')])
  const help = await create('--help')
  expect([help.exitCode, help.stdout]).toEqual([0, expect.stringContaining('--email')])
  const bare = await create()
  expect([bare.exitCode, bare.stderr]).toEqual([1, expect.stringContaining('--email')])
})

test('SIGTERM to npm leaves no process, and the next start finds everything, though PostgreSQL dies before it is complete', async () => {
  const before = { key: started.line('Demo key'), site: started.line('Site') }
  expect(await processesOf(join(dir, 'data'))).not.toEqual([])
  await stop()
  expect(await processesOf(join(dir, 'data'))).toEqual([])
  started = await start(async () => void process.kill(await pidOf('postgres'), 'SIGKILL'))
  expect({ key: started.line('Demo key'), site: started.line('Site') }).toEqual(before)
  expect((await get(`${before.site}/marker.txt`)).page).toBe('from vite')
}, 300_000)
