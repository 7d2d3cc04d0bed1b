import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { certificatePaths } from '../../infra/caddy/certificate-getter.ts'
import { deriveRunnerToken } from '../../infra/crypto/runner-token.ts'
import { openDatabase } from '../../infra/db/database.ts'
import { reachableFolder } from '../../infra/local/place.ts'
import { freePort } from '../../infra/local/ports.ts'
import { runningPostgresUrl } from '../../infra/local/postgres.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import { createCanaries, textsIn } from './canaries.ts'
import { type SecretUses, useSecrets } from './secret-uses.ts'

// Checks 60 and 61: secrets are used everywhere, then everything that was written is searched for them.

const stack = new AsyncDisposableStack()
let uses: SecretUses
let db: ReturnType<typeof openDatabase>['db']

beforeAll(async () => {
  uses = stack.use(await useSecrets(await freePort()))
  const { secretKey, dataDir } = uses.platform.config
  const key = secretKey ? Buffer.from(secretKey).toString('base64') : readFileSync(join(dataDir, 'secret-key'), 'utf8').trim()
  uses.canaries.add('credential', 'secret key', key)
  const bytes = Buffer.from(key, 'base64')
  uses.canaries.add('credential', 'path of private keys', certificatePaths(bytes).certificate.split('/')[1] ?? '')
  uses.canaries.add('credential', 'token of runners', deriveRunnerToken(bytes))
  const url = (await runningPostgresUrl(join(await reachableFolder(dataDir), 'postgres'))) ?? ''
  uses.canaries.add('credential', 'password of the database', new URL(url).password)
  db = stack.use(openDatabase(url)).db
  await settled()
})
afterAll(() => stack.disposeAsync())

/** Waits until every email has been sent or given up, which is when codes are erased. */
const settled = () => {
  const waiting = () => db.selectFrom('mails').select('id').where('outcome', 'is', null).execute()
  return waitUntil('the emails', async () => (await waiting()).length === 0, { timeoutMs: 60_000 })
}

const leaksIn: SecretUses['canaries']['leaksIn'] = (text, wanted) => uses.canaries.leaksIn(text, wanted)

const findings = (place: string, text: string, wanted?: Parameters<typeof leaksIn>[1]) =>
  leaksIn(text, wanted).map((name) => `${name} in ${place}`)

test('the search finds each secret, in every form', () => {
  expect(uses.canaries.all.length).toBeGreaterThan(20)
  for (const { name, kind, value } of uses.canaries.all) {
    const forms = {
      raw: value,
      json: JSON.stringify({ value }),
      url: encodeURIComponent(value),
      base64: Buffer.from(value).toString('base64'),
      base64url: Buffer.from(value).toString('base64url'),
    }
    for (const [form, text] of Object.entries(forms))
      expect([name, form, leaksIn(`a ${text} b`)]).toEqual([name, form, expect.arrayContaining([name])])
    expect(leaksIn(`a ${value} b`, [kind])).toContain(name)
  }
})

/** The bytes of a file, which its writer may have removed. */
function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}

describe('check 60', () => {
  test('no row of the database contains a secret, and no email a code', async () => {
    const { rows: tables } = await sql<{ name: string }>`
      select table_name as name from information_schema.tables where table_schema = 'public'`.execute(db)
    expect(tables.length).toBeGreaterThan(20)
    for (const { name } of tables) {
      const { rows } = await sql<{ row: string }>`select to_jsonb(t)::text as row from ${sql.table(name)} t`.execute(db)
      // the owner of a site may read the link in the reply that was sent with it
      const wanted = name === 'mails' ? (['credential', 'code'] as const) : (['credential', 'code', 'link'] as const)
      expect([name, rows.flatMap(({ row }) => findings(row, row, wanted))]).toEqual([name, []])
    }
  })

  test('no file of the storage, the logs of builds, the snapshots or Temporal contains a secret', () => {
    const { dataDir } = uses.platform.config
    const own = ['secret-key', 'operator-token', 'demo-key']
    const files = readdirSync(dataDir, { recursive: true, encoding: 'utf8' })
      // the database has its own test, and its password stands in its folder
      .filter((name) => !name.startsWith('postgres/') && !name.startsWith('toolchains/') && !own.includes(name))
      .filter((name) => statSync(join(dataDir, name), { throwIfNoEntry: false })?.isFile())
    for (const part of ['temporal/', 'cas/', 'logs/'])
      expect([part, files.some((name) => name.startsWith(part))]).toEqual([part, true])
    const leaks = files.flatMap((name) => findings(name, readIfThere(join(dataDir, name)), ['credential', 'link']))
    expect(leaks).toEqual([])
  })
})

describe('check 61', () => {
  const processes = ['api', 'caddy', 'edge', 'postgres', 'runner', 'temporal', 'worker']
  test.each(processes)('no line of the log of %s contains a secret, or what a visitor has entered', (name) => {
    const text = readFileSync(join(uses.platform.config.dataDir, 'logs', `${name}.log`), 'utf8')
    if (['api', 'edge', 'caddy', 'postgres'].includes(name)) expect(text.split('\n').length).toBeGreaterThan(5)
    expect(text.split('\n').flatMap((line) => findings(line, line))).toEqual([])
  })

  test('every log was searched, at the level debug', () => {
    const dir = join(uses.platform.config.dataDir, 'logs')
    expect(readdirSync(dir).sort()).toEqual(processes.map((name) => `${name}.log`))
    for (const name of ['api', 'edge']) expect(readFileSync(join(dir, `${name}.log`), 'utf8')).toContain('"request answered"')
    // the certificates that the edge did not send
    expect(readFileSync(join(dir, 'caddy.log'), 'utf8')).toContain('external certificate manager')
  })

  test('no line of the launcher contains a secret', () => {
    expect(uses.platform.lines.flatMap((line) => findings(line, line))).toEqual([])
  })

  test('no refusal contains a secret', () => {
    const { refusals } = uses
    expect(new Set(refusals.map(({ status }) => status)).size).toBeGreaterThan(5)
    const leaks = refusals.flatMap(({ endpoint, status, text }) => {
      // a refusal may repeat the path that it refuses
      const asked = leaksIn(endpoint)
      const found = leaksIn(text, ['credential', 'code', 'link']).filter((name) => !asked.includes(name))
      return found.map((name) => `${name} in ${status} ${endpoint}: ${text}`)
    })
    expect(leaks).toEqual([])
  })

  test('no history of a workflow contains a secret, or what a visitor has entered', async () => {
    const connection = await Connection.connect({ address: `127.0.0.1:${uses.temporalPort}` })
    stack.defer(() => connection.close())
    const client = new Client({ connection })
    const kinds = new Set<string>()
    const leaks: string[] = []
    for await (const { workflowId, runId, raw } of client.workflow.list()) {
      kinds.add(workflowId.split(':', 1)[0] ?? '')
      const handle = client.workflow.getHandle(workflowId, runId)
      const texts = [...textsIn(raw), ...textsIn(await handle.fetchHistory())]
      leaks.push(...texts.flatMap((text) => findings(`${workflowId}: ${text.slice(0, 300)}`, text)))
    }
    expect([...kinds]).toEqual(expect.arrayContaining(['deploy', 'email', 'autoreply', 'form-digest', 'webhook']))
    expect(leaks).toEqual([])
  })
})

test('the search of small numbers does not take a part of a larger one for a code', () => {
  const canaries = createCanaries()
  canaries.add('code', 'code', '123456')
  expect(['01234567', '1.123456', 'a-123456', 'ab123456'].flatMap((text) => canaries.leaksIn(text))).toEqual([])
  expect(['code 123456.', '"123456"', 'code=123456&to', 'MTIzNDU2'].map((text) => canaries.leaksIn(text))).toEqual([
    ['code'],
    ['code'],
    ['code'],
    ['code'],
  ])
})
