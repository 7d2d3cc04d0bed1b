import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BuildLogs } from '../../infra/build-logs/build-logs.ts'
import { openBuildLogs } from '../../infra/build-logs/open.ts'
import { readLogText } from '../../infra/build-logs/text.ts'
import { removeOldLogs } from '../../services/builds/expired-logs.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { world } from '../world.ts'

let folder: string
let logs: BuildLogs
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'plinth-logs-'))
  logs = openBuildLogs(`file://${folder}/cas`)
})
afterAll(() => rm(folder, { recursive: true }))

async function listed(from: BuildLogs): Promise<string[]> {
  const ids: string[] = []
  for await (const id of from.list()) ids.push(id)
  return ids
}

async function written(...parts: (string | Buffer)[]): Promise<string> {
  const id = randomUUID()
  for (const part of parts) await logs.append(id, Buffer.from(part))
  return id
}

test('J04: what was read at an offset stays there while the log grows', async () => {
  const id = await written('one\n')
  expect(await logs.read(id, 0, 100)).toEqual({ bytes: Buffer.from('one\n'), size: 4 })
  await logs.append(id, Buffer.from('two\n'))
  expect(await logs.read(id, 0, 4)).toEqual({ bytes: Buffer.from('one\n'), size: 8 })
  expect(await logs.read(id, 4, 100)).toEqual({ bytes: Buffer.from('two\n'), size: 8 })
  expect(await logs.read(id, 99, 100)).toEqual({ bytes: Buffer.alloc(0), size: 8 })
})

test('J04: a log that is not there reads as empty, and may be removed twice', async () => {
  const id = await written('x')
  await logs.remove(id)
  await logs.remove(id)
  expect(await logs.read(id, 0, 100)).toEqual({ bytes: Buffer.alloc(0), size: 0 })
})

test('logs are for the platform only, and no id leaves their folder', async () => {
  const id = await written('x')
  const file = await stat(join(folder, 'cas/logs', id.slice(-2), id))
  expect((file.mode & 0o777).toString(8)).toBe('600')
  await expect(logs.append('../../etc/passwd', Buffer.from('x'))).rejects.toThrow('not the id of a deploy')
})

test('all logs are listed', async () => {
  const ids = [await written('a'), await written('b')]
  expect(await listed(logs)).toEqual(expect.arrayContaining(ids))
  expect(await listed(openBuildLogs(`file://${folder}/nowhere`))).toEqual([])
})

test.each([1, 2, 3, 4, 5, 7, 64])('J04: pages of %i bytes never cut a character, and together are the log', async (limit) => {
  const text = 'aé€😀z😀\n€€'
  const id = await written(text)
  const texts: string[] = []
  let offset = 0
  for (;;) {
    const part = await readLogText(logs, id, { offset, limit, ended: true })
    expect(part.next_offset).toBe(offset + Buffer.byteLength(part.text))
    expect(Buffer.byteLength(part.text)).toBeLessThanOrEqual(Math.max(limit, 4))
    texts.push(part.text)
    offset = part.next_offset
    if (part.atEnd) break
  }
  expect(texts.join('')).toBe(text)
  expect(texts.join('')).not.toContain('\ufffd')
})

test('J04: an offset inside a character is moved behind it', async () => {
  const id = await written('😀a')
  for (const offset of [1, 2, 3]) {
    expect(await readLogText(logs, id, { offset, limit: 10, ended: false })).toEqual({ text: 'a', next_offset: 5, atEnd: true })
  }
})

test('J04: half a character at the end waits for its other half while the build runs', async () => {
  const euro = Buffer.from('€')
  const id = await written('a', euro.subarray(0, 2))
  expect(await readLogText(logs, id, { offset: 0, limit: 10, ended: false })).toEqual({ text: 'a', next_offset: 1, atEnd: false })
  expect(await readLogText(logs, id, { offset: 1, limit: 10, ended: false })).toMatchObject({ text: '', next_offset: 1 })
  expect(await readLogText(logs, id, { offset: 1, limit: 10, ended: true })).toEqual({
    text: '\ufffd',
    next_offset: 3,
    atEnd: true,
  })
  await logs.append(id, euro.subarray(2))
  expect(await readLogText(logs, id, { offset: 1, limit: 10, ended: false })).toEqual({ text: '€', next_offset: 4, atEnd: true })
})

test('J04: logs go when their deploy is older than they are kept, or has no record', async () => {
  await using w = await world()
  const project = await w.project()
  const site = await makeSite(w, project)
  const old = await deployFiles(w, project, site.id, [page('old')])
  w.advance(3_600_000)
  const young = await deployFiles(w, project, site.id, [page('young')])
  const nobody = randomUUID()
  for (const id of [old.id, young.id, nobody]) await w.buildLogs.append(id, Buffer.from('x'))
  expect(await removeOldLogs(w.db, w.buildLogs, new Date(old.created_at))).toBe(1)
  expect(await removeOldLogs(w.db, w.buildLogs, new Date(young.created_at))).toBe(1)
  expect(await removeOldLogs(w.db, w.buildLogs, new Date(young.created_at))).toBe(0)
  expect(await listed(w.buildLogs)).toEqual([young.id])
})
