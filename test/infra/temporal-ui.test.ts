import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { Connection } from '@temporalio/client'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { freePort } from '../../infra/local/ports.ts'
import { type RunningTemporal, startTemporal } from '../../infra/local/temporal.ts'
import { chooseUiAddress, openTemporalUi, refusalOf, type SocketAddress } from '../../infra/local/temporal-ui.ts'
import { listeningPorts } from './listening-ports.ts'
import { openReboundPage } from './rebound-page.ts'

const stack = new AsyncDisposableStack()
let server: RunningTemporal
let connection: Connection
let inner: SocketAddress
let port: number
beforeAll(async () => {
  inner = await chooseUiAddress()
  port = await freePort()
  stack.use(await openTemporalUi(port, inner))
  server = stack.use(await startTemporal({ binary: inject('temporal'), ui: inner, searchAttributes: {} }))
  connection = await Connection.connect({ address: server.address })
  stack.defer(() => connection.close())
})
afterAll(() => stack.disposeAsync())

async function startWorkflow(workflowId: string): Promise<void> {
  const workflow = { namespace: 'default', workflowId, workflowType: { name: 'x' }, taskQueue: { name: 'none' } }
  await connection.workflowService.startWorkflowExecution({ ...workflow, requestId: workflowId })
}

/** WORKFLOW_EXECUTION_STATUS_RUNNING is 1, …_TERMINATED is 5. */
async function statusOf(workflowId: string) {
  const named = { namespace: 'default', execution: { workflowId } }
  return (await connection.workflowService.describeWorkflowExecution(named)).workflowExecutionInfo?.status
}

async function ask(method: string, path: string, headers: Record<string, string> = {}, body?: string) {
  const outgoing = request({
    host: '127.0.0.1',
    port,
    method,
    path,
    agent: false,
    headers: { host: `localhost:${port}`, ...headers },
  })
  outgoing.end(body)
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  return { status: response.statusCode, headers: response.headers, body: await text(response) }
}

test('a page whose name is rebound to loopback reads no workflow and ends none, whichever port it opens', async () => {
  await startWorkflow('mine')
  const ports = [...(await listeningPorts(server.pid)), { host: '127.0.0.1', port }]
  expect(ports).toEqual(expect.arrayContaining([expect.objectContaining(inner)]))
  for (const { host, port } of ports) {
    await using page = openReboundPage(host, port)
    for (const path of ['/', '/metrics', '/api/v1/namespaces', '/api/v1/namespaces/default/workflows', '/api/v1/settings']) {
      const read = await page.read(path)
      expect([host, port, path, read?.status === 200 ? read.body : 'refused']).toEqual([host, port, path, 'refused'])
    }
    expect((await page.terminate('mine'))?.status).not.toBe(200)
  }
  expect(await statusOf('mine')).toBe(1)
})

test('the UI loads with its scripts, and a link to a workflow opens it', async () => {
  const index = await ask('GET', '/')
  expect([index.status, index.headers['content-type'], index.body]).toEqual([200, 'text/html', expect.stringContaining('svelte')])
  const script = /"(\/_app\/[^"]+\.js)"/.exec(index.body)?.[1] ?? ''
  const loaded = await ask('GET', script, { 'sec-fetch-site': 'same-origin', 'sec-fetch-dest': 'script' })
  expect([loaded.status, loaded.headers['content-type']]).toEqual([200, expect.stringContaining('javascript')])
  const link = '/namespaces/default/workflows?query=DeployStatus%3D%22failed%22'
  expect(await ask('GET', link, { 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'document' })).toMatchObject({
    status: 200,
    body: index.body,
  })
})

test('nothing that the UI answers names the address behind it', async () => {
  for (const path of ['/', '/_app', '/nothing/', '/api/v1/settings', '/api/v1/cluster-info', '/login']) {
    const { headers, body } = await ask('GET', path)
    expect([path, JSON.stringify(headers) + body]).not.toEqual([
      path,
      expect.stringMatching(new RegExp(`${inner.host}|:${inner.port}`)),
    ])
  }
})

test('a page of the UI itself reads and ends a workflow', async () => {
  await startWorkflow('ended')
  const { body, headers } = await ask('GET', '/api/v1/namespaces/default/workflows/ended')
  expect(JSON.parse(body)).toMatchObject({ workflowExecutionInfo: { execution: { workflowId: 'ended' } } })
  const token = /_csrf=([^;]*)/.exec(String(headers['set-cookie']))?.[1] ?? ''
  const own = { origin: `http://localhost:${port}`, 'x-csrf-token': token, cookie: `_csrf=${token}` }
  const ended = await ask('POST', '/api/v1/namespaces/default/workflows/ended/terminate', own, '{"reason":"an operator"}')
  expect([ended.status, ended.body]).toEqual([200, '{}'])
  expect(await statusOf('ended')).toBe(5)
})

test('while Temporal is away the answer says so', async () => {
  const elsewhere = await freePort()
  await using _ui = await openTemporalUi(elsewhere, { host: '127.0.0.1', port: await freePort() })
  const response = await fetch(`http://localhost:${elsewhere}/`)
  expect([response.status, await response.text()]).toEqual([502, 'Temporal does not answer; it is being started again.\n'])
})

const own = { host: 'localhost:8233' }
test.each([
  ['GET', '/', own, undefined],
  ['GET', '/', { host: '127.0.0.1:8233' }, undefined],
  ['GET', '/', { host: '[::1]:8233' }, undefined],
  ['GET', '/', { host: 'localhost' }, undefined],
  ['GET', '/', { host: 'LOCALHOST:9000' }, undefined],
  ['GET', '/', { host: 'rebound.example:8233' }, 421],
  ['GET', '/', { host: 'localhost.rebound.example' }, 421],
  ['GET', '/', { host: 'localhost.:8233' }, 421],
  ['GET', '/', { host: '127.0.0.2:8233' }, 421],
  ['GET', '/', { host: '' }, 421],
  ['GET', '/', {}, 421],
  ['GET', 'http://rebound.example/', own, 421],
  ['GET', '/api', { ...own, 'sec-fetch-site': 'same-origin', 'sec-fetch-dest': 'empty' }, undefined],
  ['GET', '/', { ...own, 'sec-fetch-site': 'none', 'sec-fetch-dest': 'document' }, undefined],
  ['GET', '/', { ...own, 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'document' }, undefined],
  ['GET', '/api', { ...own, 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'script' }, 403],
  ['GET', '/', { ...own, 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'iframe' }, 403],
  ['GET', '/api', { ...own, 'sec-fetch-site': 'same-site', 'sec-fetch-dest': 'empty' }, 403],
  ['POST', '/api', { ...own, origin: 'http://localhost:8233', 'sec-fetch-site': 'same-origin' }, undefined],
  ['POST', '/api', { ...own, origin: 'http://localhost:8233' }, undefined],
  ['POST', '/api', own, 403],
  ['POST', '/api', { ...own, origin: 'null' }, 403],
  ['POST', '/api', { ...own, origin: 'http://localhost:8080' }, 403],
  ['POST', '/api', { ...own, origin: 'http://127.0.0.1:8233' }, 403],
  ['DELETE', '/api', { ...own, origin: 'http://evil.example' }, 403],
  ['OPTIONS', '/api', { ...own, origin: 'http://evil.example' }, 403],
  ['POST', '/', { ...own, origin: 'http://localhost:8233', 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'document' }, 403],
])('%s %s with %o is answered with %s by the guard of the Temporal UI', (method, target, headers, status) => {
  expect(refusalOf(method, target, headers)?.status).toBe(status)
})
