import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { makeSite } from '../make.ts'
import { world } from '../world.ts'
import { openCaddy } from './caddy-edge.ts'

test('E38: server-sent events pass the real Caddy one by one, at once', async () => {
  await using w = await world({ worker: false, liveTiming: { pollMs: 20, recheckMs: 60_000, maxAgeMs: 3_600_000 } })
  await using caddy = await openCaddy()
  const api = createServer((socket) => {
    const behind = connect(Number(new URL(w.base).port), '127.0.0.1')
    socket.pipe(behind).pipe(socket)
    for (const [one, other] of [
      [socket, behind],
      [behind, socket],
    ] as const)
      one.on('error', () => other.destroy()).on('close', () => other.destroy())
  })
  api.listen(caddy.config.sockets.api)
  await once(api, 'listening')
  const owner = await w.project()
  const { id } = await makeSite(w, owner)
  const headers = { host: new URL(caddy.config.urls.base).host, authorization: `Bearer ${owner.key}`, 'accept-encoding': 'gzip' }
  const asked = request({ port: caddy.port, path: `/api/v1/sites/${id}/stats/live`, headers }).end()
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  expect([response.statusCode, response.headers['content-encoding']]).toEqual([200, undefined])
  const chunks = response[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  for (const visitors of [0, 1, 2]) {
    expect(String((await chunks.next()).value)).toBe(`event: live\ndata: {"visitors":${visitors},"paths":[]}\n\n`)
    const visitor = { site_id: id, visitor: Buffer.alloc(12, visitors), seen_at: new Date() }
    await w.db.insertInto('live_visitors').values(visitor).execute()
  }
  asked.destroy()
  api.close()
})
