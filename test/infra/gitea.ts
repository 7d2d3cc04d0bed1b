import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, chmod, chown, cp, mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { execa } from 'execa'
import { loadConfig } from '../../infra/config.ts'
import { freePort } from '../../infra/local/ports.ts'
import { serviceUser } from '../../infra/local/service-user.ts'
import { waitUntil } from '../../infra/local/wait.ts'

const version = '1.26.0'
const module = `code.gitea.io/gitea@v${version}`
/** What the program reads beside itself, as it is built without its assets inside. */
const assets = ['templates', 'options', 'public']

/** Of a cold build, with the download of its modules, on a machine that does other things too. */
export const giteaBuildTimeoutMs = 20 * 60_000

/**
 * The folder of a built Gitea with its assets. The first call on a machine builds it, which takes 3 minutes on two free cores; needs Go
 * and a C compiler.
 */
export async function findGitea(): Promise<string> {
  const folder = join(loadConfig().cacheDir, `gitea-${version}-${process.platform}-${process.arch}`)
  if (await exists(join(folder, 'gitea'))) return folder
  const report = (line: string) => process.stdout.write(`Gitea ${version}: ${line}\n`)
  const startedAt = performance.now()
  report('building it (usually three minutes)')
  const temporary = `${folder}.${process.pid}.new`
  try {
    await build(temporary)
    // another run may have put the same there meanwhile
    await rename(temporary, folder).catch(async (error: unknown) => {
      if (!(await exists(join(folder, 'gitea')))) throw error
    })
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
  report(`done in ${Math.round((performance.now() - startedAt) / 1000)} s`)
  return folder
}

/** `go install` refuses the module because of its replace directives, so that it is built in a copy of its folder. */
async function build(into: string): Promise<void> {
  const source = join(into, 'source')
  await mkdir(into, { recursive: true })
  const { stdout } = await execa('go', ['mod', 'download', '-json', module], { cwd: into })
  const { Dir: dir } = JSON.parse(stdout) as { Dir: string }
  await cp(dir, source, { recursive: true })
  await execa('chmod', ['-R', 'u+w', source])
  const flags = ['-trimpath', '-ldflags', `-s -w -X main.Version=${version}`]
  await execa('nice', ['go', 'build', '-mod=mod', '-tags', 'sqlite sqlite_unlock_notify', ...flags, '-o', join(into, 'gitea')], {
    cwd: source,
    env: { CGO_ENABLED: '1' },
  })
  for (const folder of assets) await rename(join(source, folder), join(into, folder))
  await rm(source, { recursive: true, force: true })
}

const exists = (file: string) =>
  access(file).then(
    () => true,
    () => false,
  )

export interface Answer {
  readonly status: number
  readonly body: any
}

export interface Gitea extends AsyncDisposable {
  readonly url: string
  readonly username: string
  /** May write repositories and issues, and nothing else. */
  readonly token: string
  /** Calls its API below /api/v1 as the user. */
  api(method: string, path: string, body?: unknown): Promise<Answer>
  /** A private repository of the user with a first commit on `main`. */
  createRepository(name: string): Promise<GiteaRepository>
  /** Ends its process; what it holds is there when it starts again. */
  stop(): Promise<void>
  /** Resolves when it answers, at the same address. */
  start(): Promise<void>
}

export interface GiteaRepository {
  readonly name: string
  readonly cloneUrl: string
  /** Commits files, with null for those to remove, on top of a branch and pushes it with git. @returns the commit */
  push(branch: string, files: Readonly<Record<string, string | null>>, message: string): Promise<string>
  deleteBranch(branch: string): Promise<void>
  /** Lets every push and pull request be delivered to an address of this machine. */
  addWebhook(url: string, secret: string): Promise<void>
}

/** A real Gitea with one user, on a free port of this machine. It may deliver webhooks to loopback addresses. */
export async function startGitea(): Promise<Gitea> {
  const built = await findGitea()
  await using stack = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'plinth-gitea-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  const user = await serviceUser()
  await chmod(dir, 0o711)
  // the cache may lie where the user of Gitea, which refuses root, cannot pass
  await cp(built, join(dir, 'program'), { recursive: true })
  const work = join(dir, 'work')
  await mkdir(join(work, 'custom', 'conf'), { recursive: true })
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  await writeFile(join(work, 'custom', 'conf', 'app.ini'), settings(dir, port, user?.name ?? userInfo().username))
  if (user) await chownAll(work, user.uid, user.gid)

  const options = {
    cwd: work,
    env: { PATH: process.env['PATH'] ?? '', HOME: work, GITEA_WORK_DIR: work, TMPDIR: work },
    ...(user && { uid: user.uid, gid: user.gid }),
  }
  const program = join(dir, 'program', 'gitea')
  const password = 'correct horse battery staple'
  const account = ['--username', 'ada', '--password', password, '--email', 'ada@example.com', '--must-change-password=false']
  await execa(program, ['migrate'], { ...options, extendEnv: false })
  await execa(program, ['admin', 'user', 'create', ...account], { ...options, extendEnv: false })
  let child: ChildProcess | undefined
  const stop = async () => {
    if (child) await end(child)
  }
  stack.defer(stop)
  async function start(): Promise<void> {
    const started = spawn(program, ['web'], { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    child = started
    const said = Promise.all([text(started.stdout), text(started.stderr)])
    const isReady = () =>
      fetch(`${url}/api/healthz`).then(
        ({ ok }) => ok,
        () => false,
      )
    await waitUntil('Gitea', isReady, { timeoutMs: 60_000, ended: said.then((lines) => lines.join('\n').slice(-2000)) })
  }
  await start()

  const basic = `Basic ${Buffer.from(`ada:${password}`).toString('base64')}`
  const scopes = ['write:repository', 'write:issue']
  const made = await callGitea(url, basic, 'POST', '/users/ada/tokens', { name: 'plinth', scopes })
  const token = made.body.sha1 as string
  const api = (method: string, path: string, body?: unknown) => callGitea(url, basic, method, path, body)
  const running = stack.move()
  return {
    url,
    username: 'ada',
    token,
    api,
    createRepository: (name) => createRepository({ url, token, api, folder: join(dir, 'clones', name) }, name),
    stop,
    start,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

const settings = (dir: string, port: number, user: string) => `
APP_NAME = Gitea
RUN_USER = ${user}
WORK_PATH = ${join(dir, 'work')}
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = ${port}
ROOT_URL = http://127.0.0.1:${port}/
STATIC_ROOT_PATH = ${join(dir, 'program')}
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = ${join(dir, 'work', 'gitea.db')}
[security]
INSTALL_LOCK = true
SECRET_KEY = only-for-tests
PASSWORD_HASH_ALGO = pbkdf2$1000$50
[repository]
DEFAULT_BRANCH = main
[webhook]
ALLOWED_HOST_LIST = loopback
[service]
DISABLE_REGISTRATION = true
[cron]
ENABLED = false
[actions]
ENABLED = false
[packages]
ENABLED = false
[log]
LEVEL = Error
`

async function callGitea(url: string, authorization: string, method: string, path: string, body?: unknown): Promise<Answer> {
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: { authorization, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const answer = await response.text()
  if (!response.ok) throw new Error(`Gitea answered ${response.status} to ${method} ${path}: ${answer}`)
  return { status: response.status, body: answer === '' ? undefined : JSON.parse(answer) }
}

type Caller = Pick<Gitea, 'url' | 'token' | 'api'> & { readonly folder: string }

async function createRepository({ url, token, api, folder }: Caller, name: string): Promise<GiteaRepository> {
  await api('POST', '/user/repos', { name, private: true, auto_init: true, default_branch: 'main' })
  const cloneUrl = `${url}/ada/${name}.git`
  const authorization = `Authorization: Basic ${Buffer.from(`ada:${token}`).toString('base64')}`
  const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', '-c', 'commit.gpgsign=false']
  const git = (...args: string[]) =>
    execa('git', ['-c', `http.extraHeader=${authorization}`, ...identity, ...args], {
      cwd: folder,
      env: { GIT_CONFIG_GLOBAL: '/dev/null', GIT_TERMINAL_PROMPT: '0' },
    })
  await mkdir(folder, { recursive: true })
  await git('clone', '--quiet', cloneUrl, '.')
  return {
    name,
    cloneUrl,
    async push(branch, files, message) {
      await git('checkout', '--quiet', '-B', branch)
      for (const [path, content] of Object.entries(files)) {
        const file = join(folder, path)
        await mkdir(join(file, '..'), { recursive: true })
        await (content === null ? rm(file) : writeFile(file, content))
      }
      await git('add', '--all')
      await git('commit', '--quiet', '--allow-empty', '--message', message)
      await git('push', '--quiet', 'origin', branch)
      return (await git('rev-parse', 'HEAD')).stdout
    },
    async deleteBranch(branch) {
      await git('push', '--quiet', 'origin', `:${branch}`)
    },
    async addWebhook(hookUrl, secret) {
      const config = { url: hookUrl, content_type: 'json', secret }
      await api('POST', `/repos/ada/${name}/hooks`, {
        type: 'gitea',
        active: true,
        events: ['push', 'delete', 'pull_request', 'pull_request_sync'],
        config,
      })
    },
  }
}

async function chownAll(dir: string, uid: number, gid: number): Promise<void> {
  const paths = await readdir(dir, { recursive: true })
  for (const path of ['', ...paths]) await chown(join(dir, path), uid, gid)
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}
