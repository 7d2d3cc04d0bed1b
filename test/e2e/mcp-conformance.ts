import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { glob, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { reachableFolder } from '../../infra/local/place.ts'
import { waitUntil } from '../../infra/local/wait.ts'
import { platformPorts } from '../ports.ts'

// The protocol's own checkers against a running `npm start`: `npm run test:mcp`. Needs npm's registry for the two packages below.

/** The second knows revision 2026-07-28, the first those before. Scenarios for what we do not declare are left out. */
const conformance: readonly [string, readonly string[]][] = [
  ['0.1.16', ['server-initialize', 'ping', 'tools-list', 'dns-rebinding-protection']],
  [
    '0.2.0-alpha.12',
    [
      'server-initialize',
      'ping',
      'tools-list',
      'dns-rebinding-protection',
      'server-stateless',
      'http-header-validation',
      'caching',
    ],
  ],
]
const inspector = '@modelcontextprotocol/inspector@2.12.0'
/** Checks that call the tools of a reference server, or ask for prompts and resources, which we do not declare. */
const notOurs = /^Not testable: server (does not list|exposes no)|^(prompts|resources)\/\S+ returned JSON-RPC error -32601/

const dir = await mkdtemp(join(tmpdir(), 'plinth-mcp-'))
const dataDir = join(dir, 'data')
let failures = 0
try {
  await using stack = await startStack()
  await using proxy = await startProxy(stack.url, stack.key)
  for (const [version, scenarios] of conformance) {
    for (const scenario of scenarios) await checkScenario(version, scenario, `${proxy.url}/mcp`)
  }
  await inspect(stack.url, stack.key)
} finally {
  for (const folder of [await reachableFolder(dataDir), dir]) await rm(folder, { recursive: true, force: true })
}
console.log(failures === 0 ? 'all passed' : `${failures} failed`)
process.exitCode = failures === 0 ? 0 : 1

function report(what: string, problems: readonly string[]): void {
  console.log(`${problems.length === 0 ? 'ok    ' : 'FAILED'} ${what}`)
  for (const problem of problems) console.log(`       ${problem}`)
  failures += problems.length
}

async function startStack(): Promise<{ url: string; key: string } & AsyncDisposable> {
  const env = {
    ...process.env,
    PLINTH_DATA_DIR: dataDir,
    ...(await platformPorts()).settings,
  }
  const npm = spawn('npm', ['start'], { cwd: resolve(import.meta.dirname, '../..'), env, stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  npm.stdout.on('data', (chunk) => (output += chunk))
  const exited = once(npm, 'close')
  await waitUntil('npm start', () => output.includes('--data-binary'), { timeoutMs: 590_000, ended: exited.then(() => output) })
  const line = (word: string) => new RegExp(`^${word} (.*)$`, 'm').exec(output)?.[1] ?? ''
  return {
    url: line('API'),
    key: line('Demo key'),
    async [Symbol.asyncDispose]() {
      npm.kill('SIGTERM')
      await exited
    },
  }
}

/** The checker can send no key, so this adds it. Its own name becomes the server's, and any other stays as it is. */
async function startProxy(target: string, key: string): Promise<{ url: string } & AsyncDisposable> {
  const { host: targetHost, port: targetPort } = new URL(target)
  const server = createServer((incoming, answer) => {
    const own = `localhost:${(server.address() as AddressInfo).port}`
    const { host = '', origin } = incoming.headers
    const headers = {
      ...incoming.headers,
      authorization: `Bearer ${key}`,
      host: host.replace(own, targetHost),
      ...(origin === undefined ? {} : { origin: origin.replace(own, targetHost) }),
    }
    const { url: path, method } = incoming
    const outgoing = request({ host: '127.0.0.1', port: targetPort, path, method, headers }, (response) => {
      answer.writeHead(response.statusCode ?? 502, response.headers)
      response.pipe(answer)
    })
    incoming.pipe(outgoing)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

interface Check {
  readonly name: string
  readonly status: string
  readonly errorMessage?: string
}

async function checkScenario(version: string, scenario: string, url: string): Promise<void> {
  const results = join(dir, `${version}-${scenario}`)
  const args = ['server', '--url', url, '--scenario', scenario, '-o', results]
  const { output } = await npx(`@modelcontextprotocol/conformance@${version}`, args)
  const checks: Check[] = []
  for await (const file of glob('**/checks.json', { cwd: results })) {
    checks.push(...(JSON.parse(await readFile(join(results, file), 'utf8')) as Check[]))
  }
  const failed = checks.filter((check) => check.status === 'FAILURE')
  const ours = failed.filter((check) => !notOurs.test(check.errorMessage ?? ''))
  const passed = checks.filter((check) => check.status === 'SUCCESS').length
  const problems = ours.map((check) => `${check.name}: ${check.errorMessage}`)
  if (passed === 0) problems.push(`nothing was checked: ${output.slice(-500)}`)
  const skipped = failed.length - ours.length
  report(`conformance ${version} ${scenario}: ${passed} checks${skipped > 0 ? `, ${skipped} not applicable` : ''}`, problems)
}

async function inspect(url: string, key: string): Promise<void> {
  const ask = async (...args: string[]) =>
    await npx(inspector, ['--cli', `${url}/mcp`, '--header', `Authorization: Bearer ${key}`, ...args])
  const list = await ask('--method', 'tools/list', '--strict')
  report('inspector tools/list --strict', list.code === 0 && !/Warning|Error/.test(list.errors) ? [] : [list.errors])
  const name = ['--tool-arg', 'name=By the inspector', 'subdomain=by-the-inspector']
  const calls: readonly [number, string, ...string[]][] = [
    [0, 'whoami'],
    [0, 'create_site', ...name],
    [5, 'create_site', ...name],
    [0, 'list_sites'],
  ]
  for (const [expected, tool, ...args] of calls) {
    const { code, output, errors } = await ask('--method', 'tools/call', '--tool-name', tool, ...args)
    const what = `inspector ${tool}${expected === 0 ? '' : ' again, which is refused'}`
    report(what, code === expected && output.includes('structuredContent') ? [] : [`exit code ${code}: ${errors}`])
  }
}

async function npx(name: string, args: readonly string[]): Promise<{ code: number; output: string; errors: string }> {
  const env = { ...process.env, MCP_STORAGE_DIR: join(dir, 'inspector'), MCP_CATALOG_PATH: join(dir, 'inspector', 'mcp.json') }
  const child: ChildProcess = spawn('npx', ['--yes', name, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const [output, errors, [code]] = await Promise.all([
    child.stdout ? text(child.stdout) : '',
    child.stderr ? text(child.stderr) : '',
    once(child, 'close'),
  ])
  return { code: code as number, output, errors }
}
