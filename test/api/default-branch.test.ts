import { writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { packet } from '../infra/git-fixtures.ts'
import { type GitServer, startGitServer } from '../infra/git-server.ts'
import { makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

/** A busy machine may be late once. */
const bestOfThree = { retry: 2 }

// The branch of a connection that names none, with real git servers and with hostile ones.

const stack = new AsyncDisposableStack()
let w: World
let owner: TestProject
let server: GitServer
beforeAll(async () => {
  w = stack.use(await world({ worker: false, env: { PLINTH_ALLOW_PRIVATE_GIT: 'true' } }))
  owner = await w.project('enterprise')
  server = stack.use(await startGitServer({ credentials: 'ada:secret' }))
})
afterAll(() => stack.disposeAsync())

const token = 'ada:secret'
const connect = async (siteId: string, json: object, project = owner): Promise<any> => {
  const { status, body } = await w.call(`PUT /api/v1/sites/${siteId}/git`, { key: project.key, json })
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
  return body
}
const newSite = async (project = owner): Promise<string> => (await makeSite(w, project)).id

let repositories = 0
/** The address of a repository whose HEAD has this content. */
function withHead(head: string | ((commit: string) => string)): string {
  const name = `r${++repositories}`
  const repository = server.repository(name)
  const commit = repository.pushFiles({ 'index.html': 'hi' })
  repository.pushFiles({ 'index.html': 'hi' }, { branch: 'trunk' })
  writeFileSync(join(repository.dir, 'HEAD'), `${typeof head === 'string' ? head : head(commit)}\n`)
  return `${server.origin}/${name}.git`
}
const trunk = 'ref: refs/heads/trunk'

describe('E38: without a branch', () => {
  test('a new connection gets the branch that HEAD of the repository names', async () => {
    expect(await connect(await newSite(), { repo_url: withHead(trunk), token })).toMatchObject({ branch: 'trunk' })
  })

  test('a repository whose HEAD is detached gets main', async () => {
    expect(await connect(await newSite(), { repo_url: withHead((commit) => commit), token })).toMatchObject({ branch: 'main' })
  })

  test('a repository that refuses the token gets main', async () => {
    expect(await connect(await newSite(), { repo_url: withHead(trunk), token: 'ada:wrong' })).toMatchObject({ branch: 'main' })
  })

  test('a connection to the same repository keeps its branch, and the server is not asked', async () => {
    const site = await newSite()
    const repo_url = withHead(trunk)
    await connect(site, { repo_url, token, branch: 'next' })
    const before = server.requests.length
    expect(await connect(site, { repo_url: repo_url.replace('.git', ''), build_command: 'make' })).toMatchObject({
      branch: 'next',
    })
    expect(server.requests.length).toBe(before)
  })

  test('another repository on the same server is read with the kept token', async () => {
    const site = await newSite()
    await connect(site, { repo_url: withHead(trunk), token, branch: 'next' })
    expect(await connect(site, { repo_url: withHead(trunk) })).toMatchObject({ branch: 'trunk', has_token: true })
  })

  test('a host that does not exist gets main at once', bestOfThree, async () => {
    const startedAt = performance.now()
    expect(await connect(await newSite(), { repo_url: 'https://forge.example.invalid/x' })).toMatchObject({ branch: 'main' })
    expect(performance.now() - startedAt).toBeLessThan(2000)
  })
})

describe('E38: a hostile server gets main', () => {
  const serve = async (intercept: (req: IncomingMessage, res: ServerResponse) => unknown, options: object = {}) => {
    const hostile = stack.use(
      await startGitServer({
        ...options,
        intercept(req, res) {
          intercept(req, res)
          return true
        },
      }),
    )
    return `${hostile.origin}/site.git`
  }
  const head = { 'content-type': 'application/x-git-upload-pack-advertisement' }
  const oldAnswer = (capabilities: string) =>
    Buffer.concat([
      packet('# service=git-upload-pack\n'),
      Buffer.from('0000'),
      packet(`${'a'.repeat(40)} HEAD\0${capabilities}\n`),
      Buffer.from('0000'),
    ])

  test.each([
    ['a path', 'symref=HEAD:refs/heads/../../x'],
    ['a control character', 'symref=HEAD:refs/heads/x\x1b[31m'],
    ['an option', 'symref=HEAD:refs/heads/--upload-pack=touch'],
    ['a name that is too long', `symref=HEAD:refs/heads/${'x'.repeat(10_000)}`],
    ['a full ref', 'symref=HEAD:refs/heads/refs/heads/x'],
    ['the id of a commit', `symref=HEAD:refs/heads/${'a'.repeat(40)}`],
    ['no branch', 'symref=HEAD:refs/pull/1/head'],
    ['nothing', 'symref=HEAD'],
  ])('whose HEAD names %s', async (_what, capabilities) => {
    const repo_url = await serve((_req, res) => res.writeHead(200, head).end(oldAnswer(capabilities)))
    expect(await connect(await newSite(), { repo_url })).toMatchObject({ branch: 'main' })
  })

  test('whose answer does not end, and of which little is read', async () => {
    let sent = 0
    const repo_url = await serve((_req, res) => {
      res.writeHead(200, head)
      const line = packet(`${'a'.repeat(40)} refs/heads/${'b'.repeat(60_000)}\n`)
      const more = () => {
        if (res.destroyed) return
        sent += line.length
        if (res.write(line)) setImmediate(more)
      }
      res.on('drain', more)
      more()
    })
    expect(await connect(await newSite(), { repo_url })).toMatchObject({ branch: 'main' })
    expect(sent).toBeLessThan(16 * 1024 * 1024)
  })

  test('that is slow keeps the caller for 4 s at most, and other projects not at all', bestOfThree, async () => {
    const repo_url = await serve((_req, res) => {
      res.writeHead(200, head)
      const drip = setInterval(() => res.write('0'), 500)
      res.on('close', () => clearInterval(drip))
    })
    const sites = await Promise.all(Array.from({ length: 12 }, () => newSite()))
    const other = await w.project('enterprise')
    const otherSite = await newSite(other)
    const startedAt = performance.now()
    const slow = sites.map(async (site) => {
      expect(await connect(site, { repo_url })).toMatchObject({ branch: 'main' })
      return performance.now() - startedAt
    })
    expect(await connect(otherSite, { repo_url: withHead(trunk), token }, other)).toMatchObject({ branch: 'trunk' })
    expect(performance.now() - startedAt).toBeLessThan(2000)
    expect(Math.max(...(await Promise.all(slow)))).toBeLessThan(6000)
  })
})
