import { type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '../../infra/config.ts'
import { apiOnSocket } from '../../infra/local/api-client.ts'
import { startStack } from '../../infra/local/stack.ts'
import { platformPorts } from '../ports.ts'

// Schemathesis against the published OpenAPI document and the real processes, through Caddy: `npm run test:fuzz [-- --seed 7]`.
// Ends with 1 when a response breaks the document, and prints the number of requests. Needs python3 with venv and the index of pip.

const version = '4.32.5'
const phases = ['examples', 'coverage', 'fuzzing', 'stateful']
const defaults = ['--seed', '20260907', '--max-examples', '300']

/** Each takes 30 posts a minute. */
const formSites = 40

const print = (line: string) => process.stdout.write(`${line}\n`)

/** Path of the program `st`, installed into the cache once. */
async function installSchemathesis(cacheDir: string): Promise<string> {
  const venv = join(cacheDir, `schemathesis-${version}`)
  const program = join(venv, 'bin', 'st')
  if (existsSync(program)) return program
  print(`installing schemathesis ${version}`)
  await run('python3', ['-m', 'venv', venv])
  await run(join(venv, 'bin', 'pip'), ['install', '--quiet', '--disable-pip-version-check', `schemathesis==${version}`])
  return program
}

async function run(program: string, args: readonly string[], options: SpawnOptions = {}): Promise<void> {
  const child = spawn(program, args, { stdio: 'inherit', ...options })
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`${program} ended with ${code}`)
}

interface Report {
  readonly requests: number
  readonly statuses: Readonly<Record<string, number>>
}

/** What was sent, read from the report in the HAR format. */
async function readReport(file: string): Promise<Report> {
  const har = JSON.parse(await readFile(file, 'utf8')) as { log: { entries: { response: { status: number } }[] } }
  const statuses = Object.groupBy(har.log.entries, (entry) => String(entry.response.status))
  return {
    requests: har.log.entries.length,
    statuses: Object.fromEntries(Object.entries(statuses).map(([status, entries]) => [status, entries?.length ?? 0])),
  }
}

// Ctrl-C reaches schemathesis too; what it ends with leads to the clean-up below
process.on('SIGINT', () => undefined)
const dir = await mkdtemp(join(tmpdir(), 'plinth-fuzz-'))
// the user of PostgreSQL has to pass through
await chmod(dir, 0o711)
try {
  const settings = {
    HOME: process.env['HOME'],
    PLINTH_DATA_DIR: join(dir, 'data'),
    ...(await platformPorts()).settings,
    // the fuzzer names the addresses of those who post forms
    PLINTH_TRUSTED_PROXIES: '127.0.0.1/32',
  }
  const given = loadConfig(settings)
  const program = await installSchemathesis(given.cacheDir)
  await using stack = await startStack(given, { report: () => undefined, signal: new AbortController().signal })
  const { config } = stack
  const call = apiOnSocket(config.sockets.api)
  const operate = async (path: string, body: object) =>
    (await call(`POST /operator/v1${path}`, config.operatorToken ?? '', body)).body
  const project = await operate('/projects', { name: 'Fuzz', owner_email: 'fuzz@example.com', plan: 'enterprise' })
  const { key } = await operate(`/projects/${project.id}/keys`, { name: 'fuzz', scope: 'full' })
  const make = async (path: string, body: object) => (await call(`POST /api/v1${path}`, key, body)).body.id as string
  const site = await make('/sites', { name: 'Fuzz', subdomain: 'fuzz-target' })
  const makeForm = async (i: number) => {
    const { body } = await call('POST /api/v1/sites', key, { name: 'Form', subdomain: `fuzz-form-${i}` })
    return { site_id: body.id as string, origin: new URL(body.url).origin }
  }
  const page = (text: string) => ({ files: [{ path: 'index.html', content: text }], activate: false })
  const forms = await Promise.all(Array.from({ length: formSites }, (_, i) => makeForm(i)))
  const deploys = [
    await make(`/sites/${site}/deploy-files`, page('first')),
    await make(`/sites/${site}/deploy-files`, page('second')),
  ]
  const har = join(dir, 'report.har')
  // files named in the configuration are found beside it
  const configFile = join(dir, 'schemathesis.toml')
  await copyFile(join(import.meta.dirname, 'schemathesis.toml'), configFile)
  await writeFile(join(dir, 'sites.txt'), JSON.stringify(site))
  await writeFile(join(dir, 'deploys.txt'), deploys.map((id) => JSON.stringify(id)).join('\n'))
  const args = ['--config-file', configFile, 'run', `${config.urls.base}/api/v1/openapi.json`]
  const options = ['--header', `Authorization: Bearer ${key}`, '--phases', phases.join(','), '--report-har-path', har]
  const startedAt = performance.now()
  const env = {
    ...process.env,
    SCHEMATHESIS_HOOKS: 'hooks',
    FUZZ_FORMS: JSON.stringify(forms),
    PYTHONPATH: import.meta.dirname,
    PYTHONDONTWRITEBYTECODE: '1',
  }
  try {
    await run(program, [...args, ...options, ...defaults, ...process.argv.slice(2)], { env, cwd: dir })
  } finally {
    const { requests, statuses } = await readReport(har)
    print(`${requests} requests in ${((performance.now() - startedAt) / 1000).toFixed(0)} s: ${JSON.stringify(statuses)}`)
  }
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exitCode = 1
} finally {
  await rm(dir, { recursive: true, force: true })
}
// libraries may hold handles; every process of ours has ended by now
process.exit()
