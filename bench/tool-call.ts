import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { withStack } from './stack.ts'
import { median } from './statistics.ts'

// What a tool call costs over the same REST call: both in turn over one kept connection each, through the real processes.
//   npm run bench tool-call

const runs = 500
const warmUps = 100
const _meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1' },
}
const tools = [
  ['whoami', '/api/v1/whoami'],
  ['list_sites', '/api/v1/sites'],
] as const

await withStack(async (stack) => {
  const { config, demo } = stack
  if (!demo) throw new Error('there is no demo project')
  const places = [
    ['through Caddy', { host: '127.0.0.1', port: config.http.port }],
    ['at the api', { socketPath: config.sockets.api }],
  ] as const
  console.log('p50 in ms                       REST    bare tools/call    revision 2026-07-28')
  for (const [place, address] of places) {
    for (const [tool, path] of tools) {
      const post = { ...address, path: '/mcp', method: 'POST' }
      const params = { name: tool, arguments: {} }
      const stateless = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': tool }
      const [rest = Number.NaN, ...calls] = await alternate([
        openCaller({ ...address, path, method: 'GET' }, demo.key),
        openCaller(post, demo.key, { params }),
        openCaller(post, demo.key, { params: { ...params, _meta } }, stateless),
      ])
      const columns = calls.map((ms) => `${ms.toFixed(2)} (${(ms / rest).toFixed(2)} times)`.padStart(18))
      console.log(`${tool} ${place}`.padEnd(28), rest.toFixed(2).padStart(7), ...columns)
    }
  }
})

interface Target {
  readonly host?: string
  readonly port?: number
  readonly socketPath?: string
  readonly path: string
  readonly method: string
}

/** Makes the same request again and again over one connection; answers how many ms it took. */
function openCaller(
  target: Target,
  key: string,
  call?: { params: object },
  more: Record<string, string> = {},
): () => Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const body = call ? JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', ...call }) : ''
  const length = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const headers = { host: 'localhost', authorization: `Bearer ${key}`, ...length, ...more }
  return async () => {
    const startedAt = performance.now()
    const outgoing = request({ ...target, agent, headers }).end(body)
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    const answer = await text(response)
    const ms = performance.now() - startedAt
    if (response.statusCode !== 200 || answer.includes('"isError"')) throw new Error(`${response.statusCode} ${answer}`)
    return ms
  }
}

/** The median of each, called in turn so that a busy machine disturbs all alike. */
async function alternate(callers: readonly (() => Promise<number>)[]): Promise<number[]> {
  const times = callers.map(() => [] as number[])
  for (let run = -warmUps; run < runs; run++) {
    for (const [i, call] of callers.entries()) {
      const ms = await call()
      if (run >= 0) times[i]?.push(ms)
    }
  }
  return times.map(median)
}
