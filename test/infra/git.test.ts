import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { getCompileCacheDir, stripTypeScriptTypes } from 'node:module'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { findDefaultBranch } from '../../infra/git/default-branch.ts'
import { type FetchRequest, startFetchProcess } from '../../infra/git/fetch-process.ts'
import { openSourceFetcher } from '../../infra/git/source-fetcher.ts'
import { fetchingProcesses, filesOf } from './git-fixtures.ts'
import { type GitServer, git, startGitServer } from './git-server.ts'

const root = resolve(import.meta.dirname, '../..')
const uidOf = (uid: number) => (process.getuid?.() === 0 ? uid : undefined)
const dir = mkdtempSync(join(tmpdir(), 'plinth-git-'))
const stack = new AsyncDisposableStack()
afterAll(() => stack.disposeAsync())
afterAll(() => rmSync(dir, { recursive: true, force: true }))
const work = join(dir, 'work')
mkdirSync(work)
// whatever a test did, nothing of it stays
afterEach(() => expect(readdirSync(work)).toEqual([]))
const fetcher = openSourceFetcher(work, { spareMs: 0 })
const fetchSource = (request: FetchRequest) => fetcher.fetch(request)

let made = 0
const options = (server: GitServer, own: Partial<FetchRequest> = {}): FetchRequest => {
  made += 1
  return {
    repo_url: `${server.origin}/site.git`,
    ref: 'main',
    archive: join(dir, `archive-${made}`),
    allowPrivate: true,
    ...own,
  }
}

async function open(own: Parameters<typeof startGitServer>[0] = {}) {
  const server = stack.use(await startGitServer(own))
  return { server, repository: server.repository('site') }
}

const site = {
  'index.html': '<h1>hi</h1>',
  'empty.txt': '',
  'bin/build.sh': '#!/bin/sh\n',
  'ünï cöde/ä.txt': 'ä',
  [`${'deep/'.repeat(40)}x`]: 'x',
}

describe('a public repository', () => {
  let server: GitServer
  let commit: string
  let older: string
  beforeAll(async () => {
    const opened = await open()
    server = opened.server
    older = opened.repository.pushFiles({ 'old.txt': 'old' }, { message: 'Older' })
    commit = opened.repository.pushFiles(site, { message: 'Newest\n\nand more of it' })
    opened.repository.pushFiles({ 'other.txt': 'other' }, { branch: 'feature/x' })
    git(opened.repository.dir, ['update-ref', 'refs/pull/1/head', older])
  })

  test('G02: its newest commit becomes an archive with modes, folders and names', async () => {
    const asked = options(server)
    const fetched = await fetchSource(asked)
    expect(fetched).toEqual({
      commit: { oid: commit, message: 'Newest', author: 'Ada Lovelace', committed_at: new Date('2026-01-02T03:04:05Z') },
      files: 5,
      bytes: 24,
      skipped: [],
    })
    const files = await filesOf(asked.archive)
    expect(Object.fromEntries(Object.entries(files).map(([path, { text }]) => [path, text]))).toEqual(site)
    expect(Object.entries(files).filter(([, { executable }]) => executable)).toEqual([['bin/build.sh', expect.anything()]])
  })

  test('the same commit makes the same bytes', async () => {
    const [first, second] = [options(server), options(server)]
    await fetchSource(first)
    await fetchSource(second)
    expect(readFileSync(first.archive).equals(readFileSync(second.archive))).toBe(true)
  })

  test.each([
    ['another branch', 'feature/x', 'other.txt'],
    ['a pull request', 'refs/pull/1/head', 'old.txt'],
  ])('%s is fetched by its name', async (_what, ref, path) => {
    const asked = options(server, { ref })
    await fetchSource(asked)
    expect(Object.keys(await filesOf(asked.archive))).toEqual([path])
  })

  test('a commit that is not the newest is fetched by its id', async () => {
    const asked = options(server, { ref: older })
    expect((await fetchSource(asked)).commit).toMatchObject({ oid: older, message: 'Older' })
    expect(Object.keys(await filesOf(asked.archive))).toEqual(['old.txt'])
  })

  test('a branch that is not there names those that are', async () => {
    await expect(fetchSource(options(server, { ref: 'master' }))).rejects.toMatchObject({
      kind: 'unprocessable',
      reason: 'no_branch',
      message: 'the repository has no branch master; it has feature/x, main',
    })
  })

  test('a commit that is not there is told so', async () => {
    const asked = options(server, { ref: 'a'.repeat(40) })
    await expect(fetchSource(asked)).rejects.toMatchObject({ reason: 'no_commit' })
    expect(existsSync(asked.archive)).toBe(false)
  })

  test('a repository that is not there, and a page in its place', async () => {
    await expect(fetchSource(options(server, { repo_url: `${server.origin}/gone.git` }))).rejects.toMatchObject({
      reason: 'no_access',
      message: expect.stringMatching(/not found, or there is no access .*404.*a private repository needs a token/),
    })
  })
})

test('many branches are named up to ten', async () => {
  const { server, repository } = await open()
  const commit = repository.pushFiles(site)
  for (let i = 10; i < 25; i++) git(repository.dir, ['update-ref', `refs/heads/b${i}`, commit])
  await expect(fetchSource(options(server, { ref: 'b1' }))).rejects.toThrow(
    'no branch b1; it has b10, b11, b12, b13, b14, b15, b16, b17, b18, b19 and 6 more',
  )
})

test('an empty repository is told so', async () => {
  const { server } = await open()
  await expect(fetchSource(options(server))).rejects.toMatchObject({ reason: 'empty' })
})

test('a server that knows only the old protocol gives out branches, and other commits it refuses', async () => {
  const { server, repository } = await open({ oldProtocol: true })
  const older = repository.pushFiles({ 'old.txt': 'old' })
  const commit = repository.pushFiles(site)
  expect((await fetchSource(options(server))).commit.oid).toBe(commit)
  await expect(fetchSource(options(server, { ref: older }))).rejects.toMatchObject({ reason: 'no_commit' })
})

describe('G01: the default branch', () => {
  const found = ({ origin }: GitServer) =>
    findDefaultBranch({ repo_url: `${origin}/site.git`, token: undefined, allowPrivate: true, timeoutMs: 20_000 })

  test.each([{ oldProtocol: false }, { oldProtocol: true }])('is the one that HEAD names: %j', async (own) => {
    const { server, repository } = await open(own)
    repository.pushFiles(site)
    repository.pushFiles(site, { branch: 'release/trunk' })
    git(repository.dir, ['symbolic-ref', 'HEAD', 'refs/heads/release/trunk'])
    expect(await found(server)).toBe('release/trunk')
  })

  test('is not known while HEAD is detached', async () => {
    const { server, repository } = await open()
    writeFileSync(join(repository.dir, 'HEAD'), `${repository.pushFiles(site)}\n`)
    expect(await found(server)).toBe(undefined)
  })

  test('is not known while the repository is empty', async () => {
    expect(await found((await open()).server)).toBe(undefined)
  })

  test('is not known when HEAD names no branch', async () => {
    const { server, repository } = await open()
    const commit = repository.pushFiles(site)
    git(repository.dir, ['update-ref', 'refs/pull/1/head', commit])
    writeFileSync(join(repository.dir, 'HEAD'), 'ref: refs/pull/1/head\n')
    expect(await found(server)).toBe(undefined)
  })
})

describe('G05: a private repository over TLS', () => {
  const token = 'canary-5e0f7a-token'
  let server: GitServer
  beforeAll(async () => {
    const opened = await open({ tls: true, credentials: `oauth2:${token}` })
    server = opened.server
    opened.repository.pushFiles(site)
  })

  test('is fetched with its token', async () => {
    const asked = options(server, { token, caFile: server.caFile })
    expect((await fetchSource(asked)).files).toBe(5)
  })

  test.each([
    [undefined, 'a private repository needs a token'],
    ['wrong-canary', 'check the address, and that the token is valid'],
  ])('with the token %s it is refused with a hint, which does not show it', async (wrong, hint) => {
    const failed = fetchSource(options(server, { token: wrong, caFile: server.caFile }))
    await expect(failed).rejects.toMatchObject({
      kind: 'unprocessable',
      reason: 'no_access',
      message: expect.stringContaining(hint),
    })
    await expect(failed).rejects.not.toThrow('canary')
  })

  test('an authority that is not trusted ends it before the token is sent', async () => {
    server.requests.length = 0
    await expect(fetchSource(options(server, { token }))).rejects.toMatchObject({
      reason: 'tls',
      message: expect.stringContaining('its certificate is self-signed'),
    })
    expect(server.requests).toEqual([])
  })

  test('after a redirect to another origin the token stays behind, and the pack comes from there', async () => {
    const { server: other, repository } = await open()
    repository.pushFiles({ 'moved.txt': 'moved' })
    const { server: old } = await open({
      intercept: (req, res) => !!res.writeHead(301, { location: `${other.origin}${req.url}` }).end(),
    })
    const asked = options(old, { token })
    await fetchSource(asked)
    expect(Object.keys(await filesOf(asked.archive))).toEqual(['moved.txt'])
    expect(old.requests.map(({ authorization }) => authorization)).toEqual([`Basic ${btoa(`oauth2:${token}`)}`])
    expect(other.requests.length).toBeGreaterThan(1)
    expect(other.requests.map(({ authorization }) => authorization).filter(Boolean)).toEqual([])
  })

  test('a redirect of the pack itself is not followed', async () => {
    const { server: other, repository } = await open()
    repository.pushFiles(site)
    const own = await open({
      oldProtocol: true,
      intercept: (req, res) => req.method === 'POST' && !!res.writeHead(307, { location: `${other.origin}${req.url}` }).end(),
    })
    own.repository.pushFiles(site)
    await expect(fetchSource(options(own.server, { token }))).rejects.toMatchObject({ reason: 'not_git' })
    expect(other.requests).toEqual([])
  })
})

describe('the process', () => {
  const token = 'canary-b81d44-token'
  const hanging = async () => {
    const reached = Promise.withResolvers<void>()
    const { server } = await open({
      intercept: () => {
        reached.resolve()
        return true
      },
    })
    return { server, reached: reached.promise }
  }

  test('has the token neither in its arguments nor in its environment, which is empty; an abort ends it', async () => {
    const { server, reached } = await hanging()
    const abort = new AbortController()
    const fetching = fetchSource(options(server, { token, signal: abort.signal }))
    fetching.catch(() => undefined)
    await reached
    const [pid, ...others] = fetchingProcesses()
    expect(others).toEqual([])
    expect(server.requests[0]?.authorization).toBe(`Basic ${btoa(`oauth2:${token}`)}`)
    expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).not.toContain('canary')
    expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).not.toMatch(/canary|PATH=|HOME=/)
    abort.abort(new Error('a newer push came'))
    await expect(fetching).rejects.toThrow('a newer push came')
    expect(fetchingProcesses()).toEqual([])
  })

  test.skipIf(process.getuid?.() !== 0)(
    'runs as a user of its own, which owns its folder, without root or its groups',
    async () => {
      const { server, reached } = await hanging()
      const abort = new AbortController()
      const fetching = fetchSource(options(server, { signal: abort.signal }))
      fetching.catch(() => undefined)
      await reached
      const [pid] = fetchingProcesses()
      const status = readFileSync(`/proc/${pid}/status`, 'utf8')
      const [uid = ''] = /^Uid:\t(\d+)\t\1\t\1\t\1$/m.exec(status)?.slice(1) ?? []
      expect(Number(uid)).toBeGreaterThanOrEqual(53_000)
      expect(status).toMatch(new RegExp(`^Gid:\t${uid}\t${uid}\t${uid}\t${uid}$`, 'm'))
      expect(status).toMatch(/^Groups:\t *$/m)
      expect(status).toMatch(/^Cap(?:Prm|Eff):\t0+$/m)
      for (const thread of readdirSync(`/proc/${pid}/task`))
        expect(readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8')).toMatch(new RegExp(`^Uid:\t${uid}\t${uid}\t`, 'm'))
      const [folder = ''] = readdirSync(work)
      expect(statSync(join(work, folder))).toMatchObject({ uid: Number(uid), mode: 0o40700 })
      expect(readFileSync(`/proc/${pid}/limits`, 'utf8')).toMatch(/Max data size +1610612736 .*\n/)
      abort.abort(new Error('seen'))
      await expect(fetching).rejects.toThrow('seen')
    },
  )

  test.skipIf(process.getuid?.() !== 0)('reads a repository from a folder that only root can reach', async () => {
    const { server, repository } = await open()
    repository.pushFiles(site)
    const shut = join(dir, 'shut')
    mkdirSync(shut, { mode: 0o700 })
    await using fetcher = openSourceFetcher(join(shut, 'work'), { spareMs: 0 })
    const asked = options(server)
    expect((await fetcher.fetch(asked)).files).toBe(5)
    expect(Object.keys(await filesOf(asked.archive))).toHaveLength(5)
  })

  describe('reads and writes', () => {
    interface Tried {
      readonly own: string
      readonly refused: Readonly<Record<string, string>>
    }
    let tried: Tried
    // not below the folder of this file, through which only root may pass
    const outside = mkdtempSync(join(tmpdir(), 'plinth-open-'))
    afterAll(() => rmSync(outside, { recursive: true }))
    beforeAll(async () => {
      const folder = join(dir, 'confined')
      chmodSync(outside, 0o777)
      writeFileSync(join(outside, 'secret'), 'canary')
      chmodSync(join(outside, 'secret'), 0o666)
      await using _other = await startFetchProcess(folder, uidOf(53_901))
      const [other = ''] = readdirSync(folder)
      await using _process = await startFetchProcess(folder, uidOf(53_900))
      const own = readdirSync(folder).find((name) => name !== other) ?? ''
      const [pid] = await vi.waitUntil(() => {
        const found = fetchingProcesses(process.pid, join(folder, own))
        return found.length > 0 && found
      })
      const commandLine = () => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
      // at first it is the shell that sets the limits
      await vi.waitFor(() => expect(commandLine()[0]).toBe(process.execPath))
      const [node = '', ...args] = commandLine()
      const rights = args.filter((arg) => arg.startsWith('--'))
      const places = { outside, other: join(folder, other), code: root, compiled: getCompileCacheDir(), parent: process.pid }
      const program = join(import.meta.dirname, 'confined-process.ts')
      // the rights, the user and the folder of the true process, with a hostile program
      const probe = ['--input-type=module', '-e', stripTypeScriptTypes(readFileSync(program, 'utf8'))]
      const given = [...rights, ...probe, JSON.stringify({ ...places, uid: uidOf(53_900) })]
      tried = JSON.parse(execFileSync(node, given, { cwd: join(folder, own), env: {}, encoding: 'utf8' }))
    }, 60_000)

    test('its own folder', () => {
      expect(tried.own).toBe('written and read')
    })

    test('nothing else, and starts nothing', () => {
      const denied = expect.stringMatching(/^(?:ERR_ACCESS_DENIED|EACCES|EPERM)$/)
      expect(tried.refused).toEqual(Object.fromEntries(Object.keys(tried.refused).map((name) => [name, denied])))
      expect(Object.keys(tried.refused)).toHaveLength(19)
      expect(readdirSync(outside)).toEqual(['secret'])
      expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe('canary')
    })
  })

  test('ends with its time', async () => {
    const { server } = await hanging()
    const fetching = fetchSource(options(server, { limits: { timeoutMs: 3000 } }))
    await expect(fetching).rejects.toMatchObject({
      kind: 'unavailable',
      reason: 'timeout',
      message: expect.stringContaining('3 s'),
    })
    expect(fetchingProcesses()).toEqual([])
  })

  test('is taken along when its parent is killed', async () => {
    const { server, reached } = await hanging()
    const asked = { ...options(server), archive: join(dir, 'orphan') }
    const source = resolve(import.meta.dirname, '../../infra/git/source-fetcher.ts')
    const folder = JSON.stringify(join(dir, 'orphaned'))
    const script = `import { openSourceFetcher } from ${JSON.stringify(source)}; await openSourceFetcher(${folder}).fetch(${JSON.stringify(asked)})`
    const parent = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'ignore' })
    await reached
    const [pid] = fetchingProcesses(parent.pid)
    expect(pid).toBeGreaterThan(0)
    parent.kill('SIGKILL')
    await once(parent, 'exit')
    await expect.poll(() => existsSync(`/proc/${pid}`)).toBe(false)
  })

  test('is started ahead for the next repository, reads only one, and ends when none comes', async () => {
    const { server, repository } = await open()
    repository.pushFiles(site)
    const folder = join(dir, 'ahead')
    await using fetcher = openSourceFetcher(folder, { spareMs: 5000 })
    expect(fetchingProcesses()).toEqual([])
    await fetcher.fetch(options(server))
    await expect.poll(() => fetchingProcesses()).toHaveLength(1)
    const [spare] = fetchingProcesses()
    const asked = options(server)
    await fetcher.fetch(asked)
    expect(existsSync(asked.archive)).toBe(true)
    await expect.poll(() => fetchingProcesses()).toHaveLength(1)
    const [next = 0] = fetchingProcesses()
    expect(next).not.toBe(spare)
    process.kill(next, 'SIGKILL')
    await expect.poll(() => existsSync(`/proc/${next}`)).toBe(false)
    expect((await fetcher.fetch(options(server))).files).toBe(5)
    await expect.poll(() => fetchingProcesses()).toEqual([])
    expect(readdirSync(folder)).toEqual([])
  })

  test('an abort before the start starts nothing', async () => {
    const { server } = await hanging()
    const signal = AbortSignal.abort(new Error('not needed'))
    await expect(fetchSource(options(server, { signal }))).rejects.toThrow('not needed')
    expect(server.requests).toEqual([])
  })

  test('5,000 files with 60 MB are fetched in less than 400 MB of memory', async () => {
    const { server, repository } = await open()
    const files = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`d${i % 50}/f${i}.bin`, randomBytes(12_000)]))
    repository.pushFiles({ ...files, 'similar-a.txt': 'line\n'.repeat(50_000), 'similar-b.txt': `${'line\n'.repeat(50_000)}end` })
    const fetched = await fetchSource(options(server, { limits: { maxMemoryBytes: 400 * 1024 * 1024 } }))
    expect(fetched).toMatchObject({ files: 5002, bytes: 60_500_003 })
  })
})
