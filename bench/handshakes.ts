import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { createCertificateGetter, openCertificateTable } from '../edge/certificates.ts'
import { pushCaddyConfig } from '../infra/caddy/client.ts'
import { caddyConfig } from '../infra/caddy/config.ts'
import { openKeyring, seal } from '../infra/crypto/seal.ts'
import { openServer } from '../infra/listen.ts'
import { createLogger } from '../infra/log.ts'
import { startServer } from './child-server.ts'
import { platformConfig, secretKey, startPlatformCaddy } from './platform-caddy.ts'
import { median } from './statistics.ts'

// TLS handshakes with certificates that Caddy asks for each time, beside those that it has loaded from files, in one Caddy.
//   npm run bench handshakes -- [seconds per case]
// Names take turns in several rounds, and ratios are taken within a round. The client works on
// the same machine, so what Caddy and the edge themselves spend on a handshake is shown too.

const names = { files: 'files.example.com', getter: 'getter.example.com' } as const
type Case = keyof typeof names
const connections = 16
const rounds = 5
/** Of others, so that the table is as large as that of a platform. */
const otherCertificates = 2000

const [role, argument = ''] = process.argv.slice(2)
if (role === 'getter') await serveGetter(argument)
else if (role === 'client') await shakeHands(argument, Number(process.argv[4]), Number(process.argv[5]))
else await measure(Number(role ?? 2))

/** Runs in a child process, as the edge does, and prints its port. */
async function serveGetter(dir: string): Promise<void> {
  await using opened = new AsyncDisposableStack()
  const log = createLogger('bench', 'silent')
  const certificates = opened.use(await openCertificateTable({ snapshotDir: join(dir, 'state'), log }))
  const [certificate, key] = await Promise.all(['getter.pem', 'getter-key.pem'].map((file) => readFile(join(dir, file), 'utf8')))
  const stored = (id: string, name: string) => {
    const key_sealed = seal(openKeyring(secretKey), key ?? '', { table: 'certificates', id, column: 'key_sealed' })
    return { id, name, version: 1, certificate: certificate ?? '', key_sealed }
  }
  const others = Array.from({ length: otherCertificates }, (_, i) => stored(`${i}`, `n${i}.example.com`))
  certificates.apply([...others, stored('getter', names.getter)], [])
  const getter = createCertificateGetter({ certificates, isRoutable: () => true, isPermitted: () => false, secretKey, log })
  const { port } = opened.use(await openServer(getter, { port: 0 }, { requestTimeoutMs: 10_000 }))
  process.stdout.write(`${port}\n`)
  await once(process, 'SIGTERM')
}

/** Full handshakes without resumption, one after the other on each of the connections. Prints how many there were, and how many failed. */
async function shakeHands(servername: string, port: number, seconds: number): Promise<void> {
  const end = performance.now() + seconds * 1000
  let [done, failed] = [0, 0]
  const one = async () => {
    const socket = connect({ host: '127.0.0.1', port, servername, rejectUnauthorized: false, minVersion: 'TLSv1.3' })
    try {
      await once(socket, 'secureConnect')
      done += 1
    } catch {
      failed += 1
    }
    socket.destroy()
  }
  const again = async () => {
    while (performance.now() < end) await one()
  }
  await Promise.all(Array.from({ length: connections }, again))
  process.stdout.write(`${done} ${failed}\n`)
}

async function measure(seconds: number): Promise<void> {
  await using stack = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'plinth-bench-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  for (const name of ['files', 'getter'] as const) makeCertificate(dir, name)
  const getter = stack.use(await startServer(import.meta.filename, 'getter', dir))
  const caddy = await startWithFiles(stack, dir, getter.port)
  const pids = [caddy.pid, getter.pid]
  for (const name of ['files', 'getter'] as const) await run(name, caddy.port, 1, pids)
  const results: Record<Case, Result[]> = { files: [], getter: [] }
  for (let round = 0; round < rounds; round++) {
    for (const name of ['files', 'getter'] as const) results[name].push(await run(name, caddy.port, seconds, pids))
  }
  console.log('certificates from   handshakes/s   ms of Caddy and edge each   failed')
  for (const name of ['files', 'getter'] as const) {
    const column = (key: keyof Result) => median(results[name].map((result) => result[key]))
    console.log(
      name.padEnd(19),
      column('rate').toFixed(0).padStart(12),
      column('cpuMs').toFixed(2).padStart(27),
      `${column('failed')}`.padStart(8),
    )
  }
  const ratios = results.getter.map(({ rate }, round) => rate / (results.files[round]?.rate ?? Number.NaN))
  console.log(`ratio ${median(ratios).toFixed(2)}, of the rounds ${ratios.map((ratio) => ratio.toFixed(2)).join(' ')}`)
}

/** The configuration of the platform, with one certificate more that is loaded from a file. */
async function startWithFiles(stack: AsyncDisposableStack, dir: string, getterPort: number) {
  const loaded = await platformConfig(dir, { PLINTH_CERTIFICATES_PORT: `${getterPort}` })
  const running = await startPlatformCaddy(stack, loaded)
  const config = structuredClone(caddyConfig(loaded)) as { apps: { tls: { certificates: object } } }
  const files = [{ certificate: join(dir, 'files.pem'), key: join(dir, 'files-key.pem') }]
  config.apps.tls.certificates = { ...config.apps.tls.certificates, load_files: files }
  await pushCaddyConfig(loaded.sockets.caddyAdmin, config)
  return { port: loaded.http.httpsPort, pid: running.pid }
}

interface Result {
  readonly rate: number
  /** Processor time of Caddy and the edge for one handshake. */
  readonly cpuMs: number
  readonly failed: number
}

async function run(name: Case, port: number, seconds: number, pids: readonly number[]): Promise<Result> {
  const before = await cpuMsOf(pids)
  const args = [import.meta.filename, 'client', names[name], `${port}`, `${seconds}`]
  const client = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = (await once(client.stdout, 'data')) as [Buffer]
  const [done = 0, failed = 0] = line.toString().split(' ').map(Number)
  const spent = (await cpuMsOf(pids)) - before
  return { rate: done / seconds, cpuMs: spent / done, failed }
}

async function cpuMsOf(pids: readonly number[]): Promise<number> {
  const ticksMs = 1000 / Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))
  const times = pids.map(async (pid) => {
    const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? []
    return (Number(fields[11]) + Number(fields[12])) * ticksMs
  })
  return (await Promise.all(times)).reduce((sum, ms) => sum + ms, 0)
}

function makeCertificate(dir: string, name: Case): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}-key.pem`]
  const subject = ['-subj', '/CN=bench', '-addext', `subjectAltName=DNS:${names[name]}`]
  execFileSync('openssl', ['req', '-x509', ...key, '-days', '2', '-out', `${name}.pem`, ...subject], {
    cwd: dir,
    stdio: 'ignore',
  })
}
