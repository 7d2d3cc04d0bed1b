import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findDefaultBranch } from '../../infra/git/default-branch.ts'
import type { FetchRequest } from '../../infra/git/fetch-process.ts'
import { fetchRepository } from '../../infra/git/fetch-repository.ts'
import { defaultGitLimits } from '../../infra/git/limits.ts'
import { openSourceFetcher } from '../../infra/git/source-fetcher.ts'
import { copies, filesOf, idOf, type MadeObject, makePack, packAnswer, packet } from './git-fixtures.ts'
import { bareRepository, type GitServer, startGitServer, type TreeLine } from './git-server.ts'

const MiB = 1024 * 1024
const dir = mkdtempSync(join(tmpdir(), 'plinth-git-hostile-'))
const stack = new AsyncDisposableStack()
afterAll(() => stack.disposeAsync())
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const fetcher = openSourceFetcher(dir, { spareMs: 0 })
const fetchSource = (request: FetchRequest) => fetcher.fetch(request)

let made = 0
const options = (repo_url: string, own: Partial<FetchRequest> = {}): FetchRequest => {
  made += 1
  return { repo_url, ref: 'main', archive: join(dir, `a${made}.tgz`), allowPrivate: true, ...own }
}

const look = (repo_url: string) => ({ repo_url, token: undefined, allowPrivate: true, timeoutMs: 20_000 })

function workFolder() {
  const workDir = mkdtempSync(join(dir, 'work-'))
  return { workDir, [Symbol.dispose]: () => rmSync(workDir, { recursive: true }) }
}

/** As `refusal`, without the process around it. */
async function refusalHere(repo_url: string) {
  using work = workFolder()
  const asked = { ...options(repo_url), workDir: work.workDir, limits: defaultGitLimits }
  return await fetchRepository(asked).then(() => 'it was fetched', explained)
}

const explained = ({ kind, reason, message }: Error & { kind?: string; reason?: string }) => ({ kind, reason, message })

/** The refusal, after which nothing is left. */
async function refusal(repo_url: string, own: Partial<FetchRequest> = {}) {
  const before = readdirSync(dir)
  const failed = await fetchSource(options(repo_url, own)).then(() => 'it was fetched', explained)
  expect(readdirSync(dir)).toEqual(before)
  return failed
}

describe('check 56: repositories that git itself would not make', () => {
  let server: GitServer
  let repositories = 0
  beforeAll(async () => {
    server = stack.use(await startGitServer())
  })

  type Repository = ReturnType<typeof bareRepository>
  const repositoryOf = (make: (repository: Repository) => readonly TreeLine[]) => {
    const name = `r${repositories++}`
    const repository = bareRepository(join(server.root, `${name}.git`))
    repository.commit(repository.rawTree(make(repository)))
    return `${server.origin}/${name}.git`
  }
  const file = (name: string, oid: string): TreeLine => ({ mode: '100644', name, oid })

  test('links are left out and listed, and what they point to is not read', async () => {
    const url = repositoryOf(({ blob, rawTree }) => [
      { mode: '120000', name: 'evil', oid: blob('../../etc/passwd') },
      { mode: '40000', name: 'in', oid: rawTree([{ mode: '120000', name: 'dir', oid: blob('/') }]) },
      file('index.html', blob('hi')),
      file('index.html', blob('another of the same name')),
    ])
    const asked = options(url)
    const skipped = [
      { path: 'evil', reason: 'a link' },
      { path: 'in/dir', reason: 'a link' },
      { path: 'index.html', reason: 'a second entry with the same path' },
    ]
    expect(await fetchSource(asked)).toMatchObject({ files: 1, skipped })
    expect(await filesOf(asked.archive)).toEqual({ 'index.html': { text: 'hi', executable: false } })
  })

  test('repositories and packages inside of the repository are left out as a whole', async () => {
    const url = repositoryOf(({ blob, rawTree }) => [
      file('a.txt', blob('a')),
      { mode: '40000', name: 'node_modules', oid: rawTree([file('x', blob('x'))]) },
    ])
    expect(await fetchSource(options(url))).toMatchObject({ files: 1, skipped: [{ path: 'node_modules/' }] })
  })

  test('a submodule names .gitmodules, whatever stands in there', async () => {
    const url = repositoryOf(({ blob }) => [
      file('.gitmodules', blob('[submodule "x"]\n\tpath = theme\n\turl = ext::sh -c "touch /tmp/pwned"\n')),
      { mode: '160000', name: 'theme', oid: 'a'.repeat(40) },
    ])
    expect(await refusal(url)).toMatchObject({
      kind: 'unprocessable',
      reason: 'submodule',
      message: expect.stringMatching(/^theme is a submodule \(see \.gitmodules\), and submodules are not fetched/),
    })
  })

  test('a pointer of Git LFS names the file', async () => {
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 12345\n`
    const url = repositoryOf(({ blob, rawTree }) => [
      { mode: '40000', name: 'img', oid: rawTree([file('hero.png', blob(pointer))]) },
    ])
    expect(await refusal(url)).toMatchObject({
      reason: 'lfs',
      message: expect.stringMatching(/^img\/hero\.png is kept in Git LFS, which is not supported/),
    })
  })

  test.each([
    '..',
    '.',
    '..\\x',
    'a\\b',
    '../x',
    '/etc/passwd',
    '.git',
    '.GIT',
    '.Git',
    'git~1',
    'GIT~1',
    '.git ',
    '.git.',
    '.git . .',
    '.g\u200cit',
    '.\ufeffgit',
    '.git\u202e',
    '.git::$INDEX_ALLOCATION',
    '.git:x',
  ])('a folder named %j is refused', async (name) => {
    const url = repositoryOf(({ blob, rawTree }) => [{ mode: '40000', name, oid: rawTree([file('config', blob('x'))]) }])
    expect(await refusalHere(url)).toMatchObject({
      reason: 'unsafe_path',
      message: expect.stringContaining('git would not check out'),
    })
  })

  test('names that no site could have are left out and listed, without their control characters', async () => {
    const names = ['line\nbreak', 'esc\x1b[31m', 'C:x', 'x'.repeat(300), '.DS_Store', 'ok.txt', '-rf']
    const url = repositoryOf(({ blob }) => names.map((name) => file(name, blob(name))))
    const asked = options(url)
    const { skipped } = await fetchSource(asked)
    expect(Object.keys(await filesOf(asked.archive)).sort()).toEqual(['-rf', '.DS_Store', 'ok.txt'])
    expect(skipped).toHaveLength(4)
    expect(skipped.map(({ path }) => path).join('')).not.toMatch(/\p{Cc}/u)
  })

  const tooManyFiles = {
    kind: 'conflict',
    reason: 'too_many_files',
    message: 'the repository has more than 20000 files and folders',
  }

  test('100,000 files end with a message', async () => {
    const url = repositoryOf(({ blob }) => {
      const oid = blob('x')
      return Array.from({ length: 100_000 }, (_, i) => file(`f${String(i).padStart(6, '0')}`, oid))
    })
    expect(await refusal(url)).toEqual(tooManyFiles)
  })

  test('a tree that contains itself ten times over ends with a message', async () => {
    const url = repositoryOf(({ blob, rawTree }) => {
      let oid = rawTree([file('x', blob('x'))])
      const ten = (): TreeLine[] => Array.from({ length: 10 }, (_, i) => ({ mode: '40000', name: `d${i}`, oid }))
      for (let level = 0; level < 10; level++) oid = rawTree(ten())
      return ten()
    })
    expect(await refusal(url)).toEqual(tooManyFiles)
  })

  test('one large file that is there many times counts each time', async () => {
    const url = repositoryOf(({ blob }) => {
      const oid = blob(Buffer.alloc(2 * MiB))
      return Array.from({ length: 50 }, (_, i) => file(`f${i}`, oid))
    })
    expect(await refusal(url, { limits: { maxBytes: 20 * MiB } })).toMatchObject({
      reason: 'too_large',
      message: expect.stringContaining('its files have more than 20 MB'),
    })
  })

  test('a file that is too large, and too much in all, is said with its size', async () => {
    const url = repositoryOf(({ blob }) => [
      file('a', blob(Buffer.alloc(3 * MiB, 'a'))),
      file('b', blob(Buffer.alloc(3 * MiB, 'b'))),
    ])
    const large = { kind: 'conflict', reason: 'too_large' }
    expect(await refusal(url, { limits: { maxFileBytes: MiB } })).toMatchObject({
      ...large,
      message: expect.stringContaining('a file of 3 MB'),
    })
    expect(await refusal(url, { limits: { maxBytes: 4 * MiB } })).toMatchObject({
      ...large,
      message: expect.stringContaining('more than 4 MB'),
    })
  })

  test.each(['main\r', 'main\n', '--upload-pack=touch /tmp/x', 'a b', '../x'])(
    'a ref named %j is asked of nobody',
    async (ref) => {
      server.requests.length = 0
      expect(await refusal(`${server.origin}/r0.git`, { ref })).toMatchObject({
        reason: 'no_branch',
        message: expect.not.stringMatching(/\p{Cc}/u),
      })
      expect(server.requests).toEqual([])
    },
  )
})

describe('check 56: packs that git itself would not send', () => {
  let repository: ReturnType<typeof bareRepository>
  let answer: (req: IncomingMessage, res: ServerResponse) => void
  let url: string
  beforeAll(async () => {
    const server = stack.use(
      await startGitServer({
        oldProtocol: true,
        intercept(req, res) {
          if (req.method !== 'POST') return false
          res.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' })
          answer(req, res)
          return true
        },
      }),
    )
    repository = server.repository('site')
    repository.pushFiles({ 'index.html': 'hi' })
    url = `${server.origin}/site.git`
  })
  const send = (objects: readonly MadeObject[], count?: number) => {
    answer = (_req, res) => res.end(packAnswer(makePack(objects, count)))
  }

  const zeros = Buffer.alloc(MiB)
  const byId = (base: Buffer, delta: Buffer, type = 'blob'): MadeObject => ({ type: 7, base: idOf(type, base), data: delta })

  test.each<[string, MadeObject[], string, string]>([
    [
      'a blob that inflates to more than it says',
      [{ type: 3, data: Buffer.alloc(200 * MiB), size: 10 }],
      'damaged',
      'cannot be inflated',
    ],
    ['a blob of a gigabyte', [{ type: 3, data: Buffer.alloc(10), size: 1024 * MiB }], 'too_large', 'a file of 1024 MB'],
    ['a size of more than 32 bits', [{ type: 3, data: Buffer.alloc(10), size: 2 ** 32 + 10 }], 'too_large', 'a file of 4096 MB'],
    [
      'a delta that makes a gigabyte of a megabyte',
      [{ type: 3, data: zeros }, byId(zeros, copies(MiB, 1024, MiB))],
      'too_large',
      'a file of 1024 MB',
    ],
    [
      'forty deltas that make 60 MB each',
      [{ type: 3, data: zeros }, ...Array.from({ length: 40 }, () => byId(zeros, copies(MiB, 60, MiB)))],
      'too_large',
      'more than 512 MB',
    ],
    [
      'a delta that makes more than it says',
      [{ type: 3, data: zeros }, byId(zeros, copies(MiB, 60, MiB, 100))],
      'damaged',
      'does not fit',
    ],
    ['a delta for a base of another size', [{ type: 3, data: zeros }, byId(zeros, copies(10, 1, 10))], 'damaged', 'does not fit'],
    ['a delta that is cut short', [{ type: 3, data: zeros }, byId(zeros, Buffer.from([0x80]))], 'damaged', 'does not fit'],
    ['a delta without a base', [byId(Buffer.from('gone'), copies(4, 1, 4))], 'damaged', 'deltas without a base'],
    [
      'a delta that is its own base',
      [{ type: 6, base: Buffer.from([0]), data: copies(4, 1, 4) }],
      'damaged',
      'deltas without a base',
    ],
    [
      'a delta whose base lies before the pack',
      [{ type: 6, base: Buffer.from([0xff, 0xff, 0x7f]), data: copies(4, 1, 4) }],
      'damaged',
      'without a base',
    ],
    ['an unknown type', [{ type: 5, data: zeros }], 'damaged', 'an object of type 5'],
    ['no objects that were asked for', [{ type: 3, data: zeros }], 'damaged', 'cannot be read'],
  ])('%s', async (_what, objects, reason, words) => {
    send(objects)
    expect(await refusal(url)).toMatchObject({ reason, message: expect.stringContaining(words) })
  })

  test('a count that is too high, or higher than what follows', async () => {
    send([{ type: 3, data: zeros }], 100_000)
    expect(await refusal(url)).toMatchObject({ reason: 'too_many_files', message: expect.stringContaining('100000 objects') })
    send([{ type: 3, data: zeros }], 2)
    expect(await refusal(url)).toMatchObject({ reason: 'damaged' })
    send(
      [
        { type: 3, data: zeros },
        { type: 3, data: zeros },
      ],
      1,
    )
    expect(await refusal(url)).toMatchObject({ reason: 'damaged', message: expect.stringContaining('goes on') })
  })

  test.each<[string, Buffer, string, string]>([
    ['nothing', Buffer.alloc(0), 'damaged', 'no objects'],
    ['no pack', packAnswer(Buffer.from('<html></html> and so on and on')), 'damaged', 'not a pack'],
    [
      'a packet that is cut short',
      packAnswer(makePack([{ type: 3, data: zeros }])).subarray(0, -10),
      'damaged',
      'broke off in the middle',
    ],
    ['text', Buffer.from('hello there'), 'not_git', 'not in the form'],
    ['an error with colours', packet('\x03\x1b[31mout of\nmemory'), 'damaged', 'broke off: \ufffd[31mout of\ufffdmemory'],
    ['a refusal', packet('ERR upload-pack: not our ref 123'), 'no_commit', 'is not in the repository any more'],
  ])('an answer with %s', async (_what, bytes, reason, words) => {
    answer = (_req, res) => res.end(bytes)
    expect(await refusalHere(url)).toMatchObject({ reason, message: expect.stringContaining(words) })
  })

  test.each([1, 2])('an answer without an end is cut (band %i)', async (band) => {
    let sent = 0
    answer = (_req, res) => {
      const line = packet(Buffer.alloc(60_000, band))
      const more = () => {
        sent += line.length
        if (res.write(line)) setImmediate(more)
      }
      res.on('drain', more)
      more()
    }
    expect(await refusal(url, { limits: { maxPackBytes: 5 * MiB } })).toMatchObject({
      kind: 'conflict',
      reason: 'too_large',
      message: expect.stringContaining('more than 5 MB to fetch'),
    })
    expect(sent).toBeLessThan(30 * MiB)
  })

  test('a chain of deltas that takes too long ends with its time', async () => {
    const base = Buffer.alloc(60 * MiB)
    const id = idOf('blob', base)
    const data = copies(base.length, 1, 4)
    send([{ type: 3, data: base }, ...Array.from({ length: 19_000 }, (): MadeObject => ({ type: 7, base: id, data }))])
    expect(await refusal(url, { limits: { timeoutMs: 3000 } })).toMatchObject({ kind: 'unavailable', reason: 'timeout' })
  })

  test('deltas that come before their bases are resolved', async () => {
    const raw = (type: string, name: string) => execFileSync('git', ['cat-file', type, name], { cwd: repository.dir })
    const [base, middle] = [Buffer.from('hi there'), Buffer.from('hi t')]
    send([
      byId(middle, copies(4, 1, 2)),
      byId(base, copies(8, 1, 4)),
      { type: 1, data: raw('commit', 'main') },
      { type: 2, data: raw('tree', 'main^{tree}') },
      { type: 3, data: base },
    ])
    const asked = options(url)
    await fetchSource(asked)
    expect(await filesOf(asked.archive)).toEqual({ 'index.html': { text: 'hi', executable: false } })
  })
})

describe('check 56: what is no git server', () => {
  const serve = async (type: string, body: string | Buffer, status = 200) => {
    const server = stack.use(
      await startGitServer({ intercept: (_req, res) => !!res.writeHead(status, { 'content-type': type }).end(body) }),
    )
    return `${server.origin}/site.git`
  }
  const advertisement = 'application/x-git-upload-pack-advertisement'

  test.each<[string, string, string | Buffer, number, string, string]>([
    ['dumb HTTP', 'text/plain', `${'a'.repeat(40)}\trefs/heads/main\n`, 200, 'dumb_http', 'the dumb HTTP protocol'],
    ['a page', 'text/html', '<h1>secret of the intranet</h1>', 200, 'not_git', 'is not a git server'],
    [
      'a page that says it were one',
      advertisement,
      '<h1>secret of the intranet</h1>',
      200,
      'not_git',
      'not that of a git server',
    ],
    ['nothing', advertisement, '', 200, 'not_git', 'not that of a git server'],
    ['a fault', 'text/html', 'secret of the intranet', 502, 'busy', 'it answered 502'],
    ['too many requests', 'text/html', 'secret of the intranet', 429, 'busy', 'it answered 429'],
    ['a teapot', 'text/html', 'secret of the intranet', 418, 'not_git', 'answered 418'],
    ['no access', 'text/html', 'secret of the intranet', 403, 'no_access', 'answered 403'],
  ])('%s', async (_what, type, body, status, reason, words) => {
    const url = await serve(type, body, status)
    for (const failed of [await refusalHere(url), await findDefaultBranch(look(url)).catch(explained)]) {
      expect(failed).toMatchObject({ reason, message: expect.stringContaining(words) })
      expect(failed).not.toMatchObject({ message: expect.stringContaining('secret') })
    }
  })

  test.each([
    ['without an end', 1e9, 'too_large'],
    ['that breaks off', 3, 'unreachable'],
  ])('an advertisement %s is not taken for all branches', async (_what, lines, reason) => {
    let left = lines
    const server = stack.use(
      await startGitServer({
        intercept(_req, res) {
          res.writeHead(200, { 'content-type': advertisement })
          res.write(
            Buffer.concat([packet('# service=git-upload-pack\n'), Buffer.from('0000'), packet(`${'a'.repeat(40)} HEAD\0none\n`)]),
          )
          const line = packet(`${'a'.repeat(40)} refs/heads/${'b'.repeat(60_000)}\n`)
          const more = () => {
            left -= 1
            if (left < 0) res.destroy()
            else if (res.write(line)) setImmediate(more)
          }
          res.on('drain', more)
          more()
          return true
        },
      }),
    )
    expect(await refusal(`${server.origin}/site.git`)).toMatchObject({ reason })
  })

  test('branches with hostile names are shown harmlessly, and become no paths', async () => {
    const id = 'a'.repeat(40)
    const lines = [`${id} refs/heads/ev\x1b[31mil\0symref=HEAD:refs/heads/../../../x\n`, `${id} refs/heads/../../../x\n`]
    const url = await serve(
      advertisement,
      Buffer.concat([packet('# service=git-upload-pack\n'), Buffer.from('0000'), ...lines.map(packet), Buffer.from('0000')]),
    )
    expect(await refusal(url)).toMatchObject({ message: 'the repository has no branch main; it has ev\ufffd[31mil, ../../../x' })
    expect(await refusal(url, { ref: 'refs/heads/../../../x' })).toMatchObject({ reason: 'no_branch' })
  })

  test('a redirect to something else than a repository', async () => {
    const server = stack.use(
      await startGitServer({
        intercept: (req, res) =>
          req.url === '/else'
            ? !!res.writeHead(200, { 'content-type': advertisement }).end(packet('# service=git-upload-pack\n'))
            : !!res.writeHead(302, { location: '/else' }).end(),
      }),
    )
    expect(await refusal(`${server.origin}/site.git`)).toMatchObject({ reason: 'redirect' })
  })
})

describe('checks 65, 66: private addresses', () => {
  test.each([
    'https://127.0.0.1/a.git',
    'https://localhost/a.git',
    'https://[::ffff:127.0.0.1]/a.git',
    'https://10.0.0.1/a.git',
    'http://1.1.1.1/a.git',
  ])('%s is refused by the process that fetches, and by the look-up of the default branch', async (url) => {
    expect(await refusal(url, { allowPrivate: false })).toMatchObject({
      kind: 'unprocessable',
      reason: 'forbidden',
      message: expect.stringMatching(/^the repository cannot be fetched: /),
    })
    await expect(findDefaultBranch({ ...look(url), allowPrivate: false })).rejects.toMatchObject({ reason: 'forbidden' })
  })

  test('a name with a private address is refused in the words for an unknown one', async () => {
    expect(await refusal('https://localhost/a.git', { allowPrivate: false })).toMatchObject({
      reason: 'forbidden',
      message: expect.stringContaining('the host localhost has no public address: check its name'),
    })
  })

  test('a DNS answer that changes between refs and pack is not seen: the pack comes from the same address', async () => {
    const server = stack.use(await startGitServer({ tls: true }))
    server.repository('site').pushFiles({ 'index.html': 'hi' })
    const asked: string[] = []
    using work = workFolder()
    const { workDir } = work
    const { archive } = options('')
    const fetched = await fetchRepository(
      {
        repo_url: `${server.origin}/site.git`,
        ref: 'main',
        archive,
        workDir,
        allowPrivate: false,
        ca: readFileSync(server.caFile, 'utf8'),
        limits: defaultGitLimits,
      },
      {
        ports: [server.port],
        isPublic: (address) => address === '127.0.0.1',
        lookUp: async (host) => {
          asked.push(host)
          return [{ address: asked.length === 1 ? '127.0.0.1' : '127.0.0.2', family: 4 }]
        },
      },
    )
    expect(fetched.files).toBe(1)
    expect(asked).toEqual(['localhost'])
    expect(server.requests.length).toBe(3)
  })
})
