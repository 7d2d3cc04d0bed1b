import { readdir } from 'node:fs/promises'
import type { NetConnectOpts } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'
import { waitUntil } from '../../infra/local/wait.ts'
import { tarGz } from '../infra/archives.ts'
import { listeningPorts } from '../infra/listening-ports.ts'
import { ok, report, startPlatform } from './platform.ts'

/** 127.0.0.0/8 and `::1`. */
const loopback = /^127\.|^::1$/

/** Tries every target, through the proxy of the sandbox as well when there is one, and prints those with which a connection came about. */
const probe = (targets: readonly NetConnectOpts[]) => `
const { connect } = require('node:net')
const { request } = require('node:http')
const targets = ${JSON.stringify(targets)}
const direct = (target) => new Promise((resolve) => {
  const socket = connect(target)
  const end = (reached) => { socket.destroy(); resolve(reached) }
  socket.on('connect', () => end(true)).on('error', () => end(false)).setTimeout(5000, () => end(false))
})
const proxy = process.env.HTTPS_PROXY && new URL(process.env.HTTPS_PROXY)
const proxied = ({ host, port }) => !proxy || port === undefined ? false : new Promise((resolve) => {
  const outgoing = request({ host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: host + ':' + port }).end()
  const end = (reached) => { outgoing.destroy(); resolve(reached) }
  outgoing.on('connect', (response) => end(response.statusCode === 200)).on('response', () => end(false))
  outgoing.on('error', () => end(false)).setTimeout(5000, () => end(false))
})
Promise.all(targets.map(async (target) => (await direct(target)) || (await proxied(target)) ? [target] : []))
  .then((reached) => console.log(JSON.stringify(reached.flat())))
`

test('86: no internal port or socket can be reached from another machine or from a build', async () => {
  await using platform = await startPlatform({ settings: { PLINTH_LISTEN: '0.0.0.0' } })
  const { config } = platform
  const names = (await readdir(join(config.dataDir, 'run'))).map((file) => file.replace('.json', ''))
  expect(names.toSorted()).toEqual(['api', 'caddy', 'edge', 'postgres', 'runner', 'temporal', 'worker'])
  const listening = (await Promise.all(names.map(async (name) => await listeningPorts(await platform.pidOf(name))))).flat()
  const open = [config.http.port, config.http.httpsPort]
  const internal = listening.filter(({ port }) => !open.includes(port))
  const ports = internal.map(({ port }) => port)
  expect(internal.filter(({ host }) => !loopback.test(host))).toEqual([])
  // gRPC and web interface of Temporal, PostgreSQL, the certificates of the edge
  expect(ports.length).toBeGreaterThanOrEqual(4)
  const addresses = Object.values(networkInterfaces())
    .flatMap((one) => one ?? [])
    .filter(({ internal }) => !internal)
    .map(({ address, scopeid }) => (scopeid ? `${address}%${scopeid}` : address))
  const outside = addresses.flatMap((host) => ports.map((port) => ({ host, port })))
  const sockets = Object.values(config.sockets).filter((path) => path !== config.sockets.dir)
  const inside = [...internal.map(({ host, port }) => ({ host, port })), ...sockets.map((path) => ({ path }))]

  const onHost = async (targets: NetConnectOpts[]) =>
    JSON.parse((await execa(process.execPath, ['-e', probe(targets)], { extendEnv: false, env: {} })).stdout)
  // the probe itself reaches what can be reached
  expect(await onHost(inside)).toEqual(inside)
  expect(await onHost(outside)).toEqual([])
  for (const [path, status] of [
    ['/metrics', 401],
    ['/operator/v1/projects', 401],
    ['/config/', 404],
  ])
    expect([path, (await platform.call(`GET ${path}`)).status]).toEqual([path, status])

  const site = await platform.emptySite('exposed-ports')
  const build = 'mkdir dist && node probe.cjs > dist/reached.json && echo built > dist/index.html'
  const bytes = tarGz([
    { name: 'package.json', data: JSON.stringify({ name: 'x', version: '1.0.0', scripts: { build } }) },
    { name: 'probe.cjs', data: probe([...inside, ...outside, { host: addresses[0] ?? '127.0.0.1', port: config.http.port }]) },
  ])
  const { id } = await ok(platform.call(`POST /api/v1/sites/${site.id}/deploys`, { key: site.key, bytes }))
  expect((await platform.reaches(site, id, ['active', 'failed'])).status).toBe('active')
  const reached = () => platform.call('GET /reached.json', { host: site.host })
  await waitUntil('the edge', async () => (await reached()).status === 200, { timeoutMs: 60_000 })
  const fromBuild = (await reached()).body
  report('86', `${fromBuild.length} of ${inside.length + outside.length} internal places reached`, '0')
  expect(fromBuild).toEqual([])
})
