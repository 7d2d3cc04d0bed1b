import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { openDatabase } from '../../infra/db/database.ts'

test('38: when a query finds PostgreSQL silent, those who wait for a permit learn it with it', async () => {
  const sockets: Socket[] = []
  const silent = createServer((socket) => sockets.push(socket.on('error', () => undefined))).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  try {
    await using opened = openDatabase(`postgres://nobody@127.0.0.1:${port}/nothing`)
    const waiting = opened.shareDatabase(
      (signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
    )
    const ask = (db: typeof opened.db) => sql`select 1`.execute(db).catch((error: Error) => error.message)
    const [first, ...others] = await Promise.all([ask(opened.db), ask(waiting), ask(waiting)])
    expect(first).toContain('timeout')
    expect(others).toEqual([first, first])
  } finally {
    for (const socket of sockets) socket.destroy()
    silent.close()
  }
})
