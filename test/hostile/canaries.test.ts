import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { sql } from 'kysely'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type GitServer, startGitServer } from '../infra/git-server.ts'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

// Checks 60 and 61: secrets are used everywhere, then everything that was written is searched for them.

const gitToken = 'canary-7c1f0a-git-token'
const stack = new AsyncDisposableStack()
const lines: string[] = []
let w: World
let owner: TestProject
let vault: GitServer
/** What no reader of a disk, a dump or a log may find, by name. */
const secrets = new Map<string, string>()

beforeAll(async () => {
  vault = stack.use(await startGitServer({ tls: true, credentials: `oauth2:${gitToken}` }))
  const sink = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk))
      done()
    },
  })
  const env = { PLINTH_ALLOW_PRIVATE_GIT: 'true', NODE_EXTRA_CA_CERTS: vault.caFile }
  w = stack.use(await world({ runner: true, edge: true, env, log: pino({ level: 'trace' }, sink) }))
  owner = await w.project('pro')
  const site = await makeSite(w, owner)
  const repository = vault.repository('vault')
  repository.pushFiles({
    'package.json': JSON.stringify({
      name: 'x',
      version: '1.0.0',
      scripts: { build: 'env; mkdir dist; echo x > dist/index.html' },
    }),
  })
  const call = async (endpoint: string, json?: object) => {
    const { status, body } = await w.call(endpoint, { key: owner.key, ...(json && { json }) })
    expect([endpoint, status, body]).toEqual([endpoint, 200, body])
    return body
  }
  const path = `/api/v1/sites/${site.id}`
  await call(`PUT ${path}/git`, { repo_url: `${vault.origin}/vault.git`, token: gitToken, branch: 'main' })
  const { secret } = await call(`POST ${path}/git/webhook`)
  const deploy = await w.ended((await call(`POST ${path}/git/deploy`)).id, owner.key)
  expect(deploy.status).toBe('active')
  await call(`PUT ${path}/git`, { repo_url: `${vault.origin}/vault.git`, token: `${gitToken}-wrong` })
  expect((await w.ended((await call(`POST ${path}/git/deploy`)).id, owner.key)).status).toBe('failed')
  await w.call(`POST /hooks/git/${site.id}`, { headers: { 'x-svc-token': secret }, json: { ref: 'refs/heads/main' } })
  // as callers send them by mistake: in the wrong place, cut off, with the wrong method
  await w.call(`GET /api/v1/whoami?key=${owner.key}`)
  await w.call('POST /mcp', { key: owner.key, json: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'whoami' } } })
  await w.call('GET /operator/v1/projects', { key: `${operatorToken}x` })

  // svc_<id>_<secret>; the secret itself may hold an underscore
  secrets.set('project key', owner.key.split('_').slice(2).join('_'))
  secrets.set('git token', gitToken)
  secrets.set('git token in a header', btoa(`oauth2:${gitToken}`))
  secrets.set('webhook secret', secret)
  secrets.set('operator token', operatorToken)
  secrets.set('secret key', Buffer.from(w.config.secretKey ?? []).toString('base64'))
})
afterAll(() => stack.disposeAsync())

/** The names of the secrets that the text or the bytes contain. */
const leaksIn = (content: string | Buffer) => [...secrets].filter(([, secret]) => content.includes(secret)).map(([name]) => name)

test('the search finds a secret that is there', () => {
  for (const [name, secret] of secrets) {
    expect(secret.length, name).toBeGreaterThanOrEqual(20)
    expect(leaksIn(Buffer.from(`a ${secret} b`))).toContain(name)
  }
})

test('check 60: no row of the database contains a secret', async () => {
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables where table_schema = 'public'`.execute(w.db)
  expect(tables.length).toBeGreaterThan(20)
  for (const { name } of tables) {
    const { rows } = await sql<{ row: string }>`select t::text as row from ${sql.table(name)} t`.execute(w.db)
    expect([name, rows.flatMap(({ row }) => leaksIn(row))]).toEqual([name, []])
  }
})

test('check 60: no file of the storage, the logs of builds, the snapshots or Temporal contains a secret', () => {
  const files = readdirSync(w.dir, { recursive: true, encoding: 'utf8' }).filter((name) => {
    // other processes are writing and removing files
    const facts = statSync(join(w.dir, name), { throwIfNoEntry: false })
    return facts?.isFile()
  })
  expect(files.some((name) => name.startsWith('temporal.db'))).toBe(true)
  expect(files.some((name) => name.startsWith('cas'))).toBe(true)
  const leaks = files.flatMap((name) => leaksIn(readFileSync(join(w.dir, name))).map((secret) => `${secret} in ${name}`))
  expect(leaks).toEqual([])
})

test('check 61: no line of the log contains a secret', () => {
  expect(lines.length).toBeGreaterThan(20)
  expect(lines.flatMap((line) => leaksIn(line).map((secret) => `${secret} in ${line}`))).toEqual([])
})

test('check 61: no history of a workflow contains a secret, in whatever encoding the payload is', () => {
  const flags = ['--address', w.temporal.address, '--output', 'json']
  const listed = execFileSync(inject('temporal'), ['workflow', 'list', ...flags]).toString()
  const ids = (JSON.parse(listed) as { execution: { workflowId: string } }[]).map(({ execution }) => execution.workflowId)
  expect(ids.filter((id) => id.startsWith('deploy:')).length).toBeGreaterThanOrEqual(2)
  for (const id of ids) {
    const history = execFileSync(inject('temporal'), ['workflow', 'show', '--workflow-id', id, ...flags]).toString()
    const decoded = history.replaceAll(/"data": ?"([^"]+)"/g, (_all, data: string) => Buffer.from(data, 'base64').toString())
    expect([id, leaksIn(history), leaksIn(decoded)]).toEqual([id, [], []])
  }
})
