import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { keptLog } from '../kept-log.ts'
import { archiveOf, makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

// E30: builds use secrets and show them in every way; then everything that was written, and that other users can see, is searched for them.

const canary = 'canary 5d/41?f0+e1'
const forms = [
  canary,
  encodeURIComponent(canary),
  Buffer.from(canary).toString('base64'),
  Buffer.from(canary).toString('base64url'),
  Buffer.from(`TOKEN=${canary}`).toString('base64').slice(8, 28),
]
const leaksIn = (content: string | Buffer) => forms.filter((form) => content.includes(form))

const show = `
const t = process.env.TOKEN ?? 'none'
const b = Buffer.from(t)
console.log('raw', t, 'url', encodeURIComponent(t), 'base64', b.toString('base64'), b.toString('base64url'))
console.log('json', JSON.stringify(process.env))
console.log('length', t.length, 'context', process.env.PLINTH_CONTEXT, 'ci', process.env.CI)
process.stdout.write('unfinished ' + t.slice(0, 9))
`
const built = {
  'package.json': JSON.stringify({
    name: 'x',
    version: '1.0.0',
    scripts: { preinstall: 'node show.cjs', build: 'node show.cjs && node build.cjs' },
  }),
  'show.cjs': show,
}
const succeeds = `
require('node:fs').mkdirSync('dist')
require('node:fs').writeFileSync('dist/index.html', 'length ' + (process.env.TOKEN ?? '').length)
setTimeout(() => console.log(process.env.TOKEN.slice(9)), 3000)
`

const stack = new AsyncDisposableStack()
const { log, written: lines } = keptLog()
const seen = { cmdline: [] as string[], environ: [] as number[] }
let w: World
let owner: TestProject
let site: any
let deploys: { live: any; preview: any; failed: any; after: any }

beforeAll(async () => {
  w = stack.use(await world({ runner: true, edge: true, log }))
  owner = await w.project('pro')
  site = await makeSite(w, owner)
  const json = { value: canary, secret: true, contexts: ['production'] }
  expect((await w.call(`PUT /api/v1/sites/${site.id}/env/TOKEN`, { key: owner.key, json })).status).toBe(200)
  const watch = setInterval(lookAtProcesses, 100)
  stack.defer(() => clearInterval(watch))
  deploys = {
    live: await deploy({ ...built, 'build.cjs': succeeds }),
    preview: await deploy(
      { ...built, 'build.cjs': "require('node:fs').mkdirSync('dist'); require('node:fs').writeFileSync('dist/index.html', 'x')" },
      '?activate=false',
    ),
    failed: await deploy({ ...built, 'build.cjs': "throw new Error('no ' + process.env.TOKEN)" }),
    after: await deploy({
      ...built,
      'build.cjs': "require('node:fs').mkdirSync('www-' + encodeURIComponent(process.env.TOKEN))",
    }),
  }
}, 240_000)
afterAll(() => stack.disposeAsync())

async function deploy(files: Record<string, string>, query = ''): Promise<any> {
  const sent = { key: owner.key, bytes: archiveOf(files), type: 'application/gzip' }
  const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploys${query}`, sent)
  const ended = await w.ended(body.id, owner.key)
  const log = await w.call(`GET /api/v1/deploys/${body.id}/logs`, { key: owner.key })
  return { ...ended, log: log.body.text }
}

/** Command lines can be read by every user of a machine, environments by the user of the process. */
function lookAtProcesses(): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const read = (file: string) => {
      try {
        return readFileSync(`/proc/${pid}/${file}`)
      } catch {
        return Buffer.alloc(0)
      }
    }
    const line = read('cmdline')
    if (leaksIn(line).length > 0) seen.cmdline.push(line.toString())
    if (leaksIn(read('environ')).length > 0) seen.environ.push(statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? -1)
  }
}

test('the build step has the secret, in production only, and the install has it nowhere', () => {
  expect(deploys.live).toMatchObject({ status: 'active' })
  expect(deploys.live.log.match(/^length .*$/gm)).toEqual([
    'length 4 context undefined ci true',
    `length ${canary.length} context production ci true`,
  ])
  expect(deploys.preview.log.match(/^length .*$/gm)).toEqual([
    'length 4 context undefined ci true',
    'length 4 context preview ci true',
  ])
  expect(deploys.failed.status).toBe('failed')
})

test('logs and errors have marks in its place', () => {
  expect(deploys.live.log).toContain('raw [masked] url [masked] base64 [masked] [masked]')
  expect(deploys.live.log).toContain('unfinished [masked]')
  expect(deploys.failed.error).toContain('no [masked]')
  expect(deploys.after.error).toContain('www-[masked]')
  for (const one of Object.values(deploys)) expect(leaksIn(JSON.stringify(one))).toEqual([])
})

test('no row of the database has it', async () => {
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables where table_schema = 'public'`.execute(w.db)
  expect(tables.map(({ name }) => name)).toContain('site_variables')
  for (const { name } of tables) {
    const { rows } = await sql<{ row: string }>`select t::text as row from ${sql.table(name)} t`.execute(w.db)
    expect([name, rows.flatMap(({ row }) => leaksIn(row))]).toEqual([name, []])
  }
})

test('no file has it: storage, logs of builds, kept packages, Temporal', () => {
  const files = readdirSync(w.dir, { recursive: true, encoding: 'utf8' })
  const regular = files.filter((name) => statSync(join(w.dir, name), { throwIfNoEntry: false })?.isFile())
  expect(regular.some((name) => name.startsWith('temporal.db'))).toBe(true)
  expect(regular.flatMap((name) => leaksIn(readFileSync(join(w.dir, name))).map((form) => `${form} in ${name}`))).toEqual([])
})

test('no history of a workflow has it, and no line of the log', () => {
  const flags = ['--address', w.temporal.address, '--namespace', w.temporal.namespace, '--output', 'json']
  const listed = execFileSync(inject('temporal'), ['workflow', 'list', ...flags]).toString()
  const ids = (JSON.parse(listed) as { execution: { workflowId: string } }[]).map(({ execution }) => execution.workflowId)
  expect(ids.length).toBeGreaterThanOrEqual(4)
  for (const id of ids) {
    const history = execFileSync(inject('temporal'), ['workflow', 'show', '--workflow-id', id, ...flags]).toString()
    const decoded = history.replaceAll(/"data": ?"([^"]+)"/g, (_all, data: string) => Buffer.from(data, 'base64').toString())
    expect([id, leaksIn(history), leaksIn(decoded)]).toEqual([id, [], []])
  }
  expect(lines.flatMap((line) => leaksIn(line))).toEqual([])
})

test('no command line has it, and no environment but those of the user of the build', () => {
  expect(seen.cmdline).toEqual([])
  expect(seen.environ.length).toBeGreaterThan(0)
  expect(seen.environ.filter((uid) => uid === process.getuid?.() && uid === 0)).toEqual([])
})
