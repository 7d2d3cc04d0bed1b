import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keptLog } from '../kept-log.ts'
import { randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

// Check 62: whatever strangers send, each line of the log is one JSON object that they did not write.

const { log, written } = keptLog()
let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ worker: false, log })
  owner = await w.project()
})
afterAll(() => w?.[Symbol.asyncDispose]())

/** Sends bytes that no client would, and waits until the server has answered. */
async function sendRaw(bytes: string): Promise<void> {
  const socket = connect(Number(new URL(w.base).port), '127.0.0.1')
  socket.on('error', () => undefined)
  socket.end(bytes, 'latin1')
  socket.resume()
  await once(socket, 'close')
}

const forged = '{"level":30,"msg":"forged"}'
const hostile = [
  ['line ends', `x\r\n${forged}\r\n`],
  ['a line end alone', `x\n${forged}\n`],
  ['escapes of a terminal', '\u001b[2J\u001b]0;owned\u0007'],
  ['the end of a JSON text', `x","msg":"forged"}\n${forged}`],
  ['separators of lines in Unicode', `x\u2028${forged}\u2029\u0085`],
  ['half of a pair', '\ud800'],
] as const

test.each(hostile)('%s in paths, headers and names make no line of their own', async (_what, text) => {
  written.length = 0
  const { key } = owner
  const encoded = encodeURIComponent(text.toWellFormed())
  await w.call(`GET /api/v1/${encoded}`, { key })
  await w.call(`GET /hooks/git/${encoded}`)
  await w.call(`GET /${encoded}?${encoded}`)
  await w.call('POST /api/v1/sites', { key, json: { name: text, subdomain: randomName() } })
  await w.call('POST /api/v1/sites', { key, json: { name: 'x', subdomain: text } })
  await w.call('POST /mcp', { key, json: { jsonrpc: '2.0', id: text, method: text } })
  await sendRaw(`GET /${text} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  await sendRaw(`GET /healthz HTTP/1.1\r\nHost: x\r\nUser-Agent: ${text}\r\nX-Request-Id: ${text}\r\nConnection: close\r\n\r\n`)
  expect(written.length).toBeGreaterThan(5)
  for (const line of written) {
    expect(line.indexOf('\n')).toBe(line.length - 1)
    expect(line.slice(0, -1)).not.toMatch(/[\p{Cc}\u2028\u2029]/u)
    expect((JSON.parse(line) as { msg: string }).msg).not.toBe('forged')
  }
})
