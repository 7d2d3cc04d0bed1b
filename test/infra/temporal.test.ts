import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { Connection } from '@temporalio/client'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type RunningTemporal, startTemporal } from '../../infra/local/temporal.ts'
import { chooseUiAddress, type SocketAddress } from '../../infra/local/temporal-ui.ts'
import { listeningPorts } from './listening-ports.ts'

let server: RunningTemporal
let ui: SocketAddress
beforeAll(async () => {
  ui = await chooseUiAddress()
  server = await startTemporal({ binary: inject('temporal'), ui, searchAttributes: {} })
})
afterAll(() => server[Symbol.asyncDispose]())

/** What a page of another origin may send without asking: no preflight, no header of its own choice (the Fetch standard's simple request). */
async function postAsPage(host: string, port: number, path: string, body: unknown): Promise<number> {
  const headers = { origin: 'http://evil.plinth.localhost:8080', 'content-type': 'text/plain' }
  const outgoing = request({ host, port, path, method: 'POST', headers, agent: false })
  outgoing.end(JSON.stringify(body))
  try {
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    response.resume()
    return response.statusCode ?? 0
  } catch {
    // not HTTP/1.1
    return 0
  }
}

const posts = [
  ['/api/v1/namespaces/default/workflows/evil', { workflowType: { name: 'evil' }, taskQueue: { name: 'evil' } }],
  ['/api/v1/namespaces/default/workflows/mine/terminate', { reason: 'evil' }],
] as const

test('no page in a browser on this machine can start or terminate a workflow, whichever port it posts to', async () => {
  const connection = await Connection.connect({ address: server.address })
  const { workflowService } = connection
  const workflow = { namespace: 'default', workflowId: 'mine', workflowType: { name: 'x' }, taskQueue: { name: 'none' } }
  await workflowService.startWorkflowExecution({ ...workflow, requestId: 'first' })
  const ports = await listeningPorts(server.pid)
  expect(ports.map(({ port }) => port)).toEqual(expect.arrayContaining([ui.port, Number(server.address.split(':')[1])]))
  for (const { host, port } of ports) {
    for (const [path, body] of posts) expect([port, await postAsPage(host, port, path, body)]).not.toEqual([port, 200])
  }
  const { executions } = await workflowService.listOpenWorkflowExecutions({ namespace: 'default', startTimeFilter: {} })
  const described = await workflowService.describeWorkflowExecution({ namespace: 'default', execution: { workflowId: 'mine' } })
  await connection.close()
  expect(executions?.map((one) => one.execution?.workflowId) ?? []).not.toContain('evil')
  // WORKFLOW_EXECUTION_STATUS_RUNNING
  expect(described.workflowExecutionInfo?.status).toBe(1)
})

test('every port of the server is on loopback only', async () => {
  for (const { address } of await listeningPorts(server.pid)) expect(address).toMatch(/7F$/)
})
