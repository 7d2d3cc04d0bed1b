import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createHttps } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type SelfSigned, selfSigned } from './self-signed.ts'

const environment = {
  PATH: process.env['PATH'],
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'Ada Lovelace',
  GIT_AUTHOR_EMAIL: 'ada@example.com',
  GIT_AUTHOR_DATE: '2026-01-02T03:04:05Z',
  GIT_COMMITTER_NAME: 'Ada Lovelace',
  GIT_COMMITTER_EMAIL: 'ada@example.com',
  GIT_COMMITTER_DATE: '2026-01-02T03:04:05Z',
}

/** Runs git for a bare repository; answers what it prints, without the last line break. */
export const git = (dir: string, args: readonly string[], input?: string | Buffer): string =>
  execFileSync('git', args, {
    cwd: dir,
    env: environment,
    stdio: ['pipe', 'pipe', 'pipe'],
    maxBuffer: 64 * 1024 * 1024,
    ...(input !== undefined && { input }),
  })
    .toString()
    .replace(/\n$/, '')

export interface TreeLine {
  readonly mode: '100644' | '100755' | '120000' | '160000' | '40000'
  readonly name: string
  readonly oid: string
}

/** A bare repository whose objects can be made by hand, whatever git itself would refuse. */
export function bareRepository(dir: string) {
  mkdirSync(dir, { recursive: true })
  git(dir, ['init', '--quiet', '--bare', '--initial-branch=main'])
  git(dir, ['config', 'http.receivepack', 'true'])
  const blob = (data: string | Buffer) => git(dir, ['hash-object', '-w', '--stdin'], data)
  const rawTree = (lines: readonly TreeLine[]) =>
    git(
      dir,
      ['hash-object', '-t', 'tree', '-w', '--literally', '--stdin'],
      Buffer.concat(lines.flatMap(({ mode, name, oid }) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(oid, 'hex')])),
    )
  const commit = (tree: string, { message = 'First', branch = 'main' } = {}) => {
    const oid = git(dir, ['commit-tree', tree, '-m', message])
    git(dir, ['update-ref', `refs/heads/${branch}`, oid])
    return oid
  }
  return { dir, blob, rawTree, commit, pushFiles: (files: Files, options?: PushOptions) => pushFiles(dir, files, options) }
}

export type Files = Readonly<Record<string, string | Buffer>>

export interface PushOptions {
  readonly message?: string
  readonly branch?: string
}

/** Makes a commit of exactly these files; answers its id. */
function pushFiles(dir: string, files: Files, { message = 'First', branch = 'main' }: PushOptions = {}): string {
  const parts: (string | Buffer)[] = [
    `commit refs/heads/${branch}\ncommitter Ada Lovelace <ada@example.com> 1767323045 +0000\n`,
    `data ${Buffer.byteLength(message)}\n${message}\ndeleteall\n`,
  ]
  for (const [path, data] of Object.entries(files)) {
    parts.push(`M ${path.endsWith('.sh') ? '100755' : '100644'} inline ${path}\ndata ${Buffer.byteLength(data)}\n`, data, '\n')
  }
  git(dir, ['fast-import', '--quiet', '--force'], Buffer.concat(parts.map((part) => Buffer.from(part))))
  return git(dir, ['rev-parse', `refs/heads/${branch}`])
}

export interface GitServerOptions {
  readonly tls?: boolean
  /** `user:password`; without it everything is public. */
  readonly credentials?: string
  /** Answers a request in place of git; true when it has done so. */
  readonly intercept?: (req: IncomingMessage, res: ServerResponse) => boolean
  /** Ignore the header by which a client asks for protocol 2. */
  readonly oldProtocol?: boolean
}

export interface GitServer extends AsyncDisposable {
  /** Repositories lie in it as `name.git`. */
  readonly root: string
  readonly port: number
  /** `https://localhost:<port>` or the same with http. */
  readonly origin: string
  /** Of the certificate, when there is one. */
  readonly caFile: string
  /** What came, oldest first. */
  readonly requests: { readonly line: string; readonly authorization: string | undefined }[]
  readonly repository: (name: string) => ReturnType<typeof bareRepository>
}

/** A smart HTTP server: git http-backend as CGI. */
export async function startGitServer(options: GitServerOptions = {}): Promise<GitServer> {
  const root = mkdtempSync(join(tmpdir(), 'plinth-git-server-'))
  const requests: GitServer['requests'] = []
  const handler = (req: IncomingMessage, res: ServerResponse) => {
    const { authorization } = req.headers
    requests.push({ line: `${req.method} ${req.url}`, authorization })
    if (options.intercept?.(req, res)) return
    if (options.credentials !== undefined && authorization !== `Basic ${btoa(options.credentials)}`) {
      res.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end('no access')
      return
    }
    runBackend(root, req, res, options)
  }
  const tls: SelfSigned | undefined = options.tls ? selfSigned('localhost') : undefined
  const server = tls ? createHttps({ cert: tls.certificate, key: tls.key }, handler) : createHttp(handler)
  const caFile = join(root, 'ca.pem')
  if (tls) writeFileSync(caFile, tls.certificate)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    root,
    port,
    origin: `${tls ? 'https' : 'http'}://localhost:${port}`,
    caFile,
    requests,
    repository: (name) => bareRepository(join(root, `${name}.git`)),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
      rmSync(root, { recursive: true, force: true })
    },
  }
}

function runBackend(root: string, req: IncomingMessage, res: ServerResponse, { oldProtocol }: GitServerOptions): void {
  const url = new URL(req.url ?? '/', 'http://localhost')
  const child = spawn('git', ['-c', 'safe.directory=*', 'http-backend'], {
    cwd: dirname(root),
    env: {
      ...environment,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: decodeURIComponent(url.pathname),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: req.method,
      CONTENT_TYPE: req.headers['content-type'],
      CONTENT_LENGTH: req.headers['content-length'],
      REMOTE_ADDR: '127.0.0.1',
      ...(!oldProtocol && { GIT_PROTOCOL: req.headers['git-protocol'] as string | undefined }),
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  req.pipe(child.stdin)
  child.stdin.on('error', () => undefined)
  res.on('close', () => child.kill())
  let head = Buffer.alloc(0)
  const onHead = (chunk: Buffer) => {
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end === -1) return
    child.stdout.off('data', onHead)
    for (const line of head.toString('latin1', 0, end).split('\r\n')) {
      const [name = '', value = ''] = line.split(/: (.*)/)
      if (name === 'Status') res.statusCode = Number.parseInt(value, 10)
      else res.setHeader(name, value)
    }
    res.write(head.subarray(end + 4))
    child.stdout.pipe(res)
  }
  child.stdout.on('data', onHead)
}
