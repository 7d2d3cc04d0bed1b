import { execFileSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '../../infra/config.ts'
import { startChild } from '../../infra/local/child.ts'
import { freePort } from '../../infra/local/ports.ts'
import { startServer } from '../child-server.ts'
import { findCaddy, platformConfig, startPlatformCaddy } from '../platform-caddy.ts'
import { host, isInstalled } from './load.ts'

/** Something that serves the folder. Ports of 127.0.0.1. */
export interface MeasuredServer {
  readonly name: string
  readonly http: number
  readonly https?: number
  /** Headers of every request. */
  readonly headers?: readonly string[]
  /** Whether it sends texts with brotli when it is asked to. */
  readonly hasBrotli?: boolean
}

export interface Place {
  /** The files to serve. */
  readonly files: string
  /** For configurations and certificates. */
  readonly dir: string
  /** Stops everything that is started. */
  readonly stack: AsyncDisposableStack
}

/** Starts every server that this machine has; a missing one is said and left out. */
export async function startServers(place: Place): Promise<MeasuredServer[]> {
  return [
    ...(await startNginx(place)),
    await startCaddyFileServer(place),
    ...(await startBehindCaddy(place, 'bare Node', join(import.meta.dirname, '..', 'bare-server.ts'))),
    await startSirv(place),
    ...(await startBehindCaddy(place, 'Plinth edge', join(import.meta.dirname, 'plinth-server.ts'))).map((server) => ({
      ...server,
      hasBrotli: true,
    })),
  ]
}

async function startNginx({ files, dir, stack }: Place): Promise<MeasuredServer[]> {
  if (!isInstalled('nginx')) {
    console.log('nginx is not installed (apt-get install nginx): it is left out')
    return []
  }
  const [http, https] = [await freePort(), await freePort()]
  const own = join(dir, 'nginx')
  await mkdir(own)
  makeCertificate(own)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path ${own}/${kind};`)
  const config = `
daemon off;
pid ${own}/pid;
error_log stderr crit;
worker_processes auto;
events { worker_connections 1024; }
http {
  types { text/html html; text/javascript js; application/octet-stream bin; }
  access_log off;
  sendfile on;
  tcp_nopush on;
  # else it closes each connection after a thousand requests
  keepalive_requests 1000000000;
  ${temporary.join('\n  ')}
  server {
    listen 127.0.0.1:${http};
    listen 127.0.0.1:${https} ssl http2;
    ssl_certificate ${own}/certificate.pem;
    ssl_certificate_key ${own}/key.pem;
    root ${files};
  }
}`
  const file = join(own, 'nginx.conf')
  await writeFile(file, config)
  stack.use(await runProgram(['nginx', '-e', 'stderr', '-c', file]))
  return [{ name: 'nginx', http, https }]
}

function makeCertificate(folder: string): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'key.pem']
  const subject = ['-subj', '/CN=bench', '-addext', `subjectAltName=DNS:${host}`]
  const options = { cwd: folder, stdio: 'ignore' } as const
  execFileSync('openssl', ['req', '-x509', ...key, '-days', '2', '-out', 'certificate.pem', ...subject], options)
}

async function startCaddyFileServer({ files, dir, stack }: Place): Promise<MeasuredServer> {
  const [http, https] = [await freePort(), await freePort()]
  const routes = [{ handle: [{ handler: 'file_server', root: files }] }]
  const server = { automatic_https: { disable: true }, routes }
  const issuers = [{ module: 'internal' }]
  const config = {
    admin: { disabled: true },
    storage: { module: 'file_system', root: join(dir, 'caddy-files') },
    logging: { logs: { default: { level: 'ERROR' } } },
    apps: {
      http: {
        servers: {
          http: { ...server, listen: [`127.0.0.1:${http}`] },
          https: { ...server, listen: [`127.0.0.1:${https}`], tls_connection_policies: [{}] },
        },
      },
      tls: { certificates: { automate: [host] }, automation: { policies: [{ subjects: [host], issuers }] } },
      pki: { certificate_authorities: { local: { install_trust: false } } },
    },
  }
  const file = join(dir, 'file-server.json')
  await writeFile(file, JSON.stringify(config))
  stack.use(await runProgram([await findCaddy(), 'run', '--config', file], { HOME: dir }))
  return { name: 'Caddy file_server', http, https }
}

async function startSirv({ files, stack }: Place): Promise<MeasuredServer> {
  const { port } = stack.use(await startServer(join(import.meta.dirname, 'sirv-server.ts'), files))
  return { name: 'sirv', http: port }
}

/**
 * A Node server on its own, and behind a Caddy that is configured as for `npm start`.
 * @param more arguments of the program behind the folder and the socket
 */
export async function startBehindCaddy(
  { files, dir, stack }: Place,
  name: string,
  program: string,
  more: readonly string[] = [],
): Promise<MeasuredServer[]> {
  const dataDir = join(dir, name.replaceAll(' ', '-'))
  await mkdir(dataDir)
  const config: Config = await platformConfig(dataDir, { PLINTH_PLATFORM_DOMAIN: host.replace(/^bench\./, '') })
  await startPlatformCaddy(stack, config)
  const direct = stack.use(await startServer(program, files, config.sockets.edge, fileURLToPath(config.storage.url), ...more))
  return [
    { name, http: direct.port },
    { name: `Caddy → ${name}`, http: config.http.port, https: config.http.httpsPort },
  ]
}

const runProgram = (command: readonly [string, ...string[]], env: Readonly<Record<string, string>> = {}) =>
  startChild({ command, env: { PATH: '/usr/sbin:/usr/bin:/bin', ...env }, stopSignal: 'SIGTERM', stopTimeoutMs: 5000 })
