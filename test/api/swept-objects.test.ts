import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { beginUpload } from '../../services/storage/pending-upload.ts'
import { removeAbandonedUploads, sweepObjects } from '../../services/storage/sweep.ts'
import { randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project()
})
afterAll(() => w?.[Symbol.asyncDispose]())

const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')
const put = (text: string) =>
  w.call(`PUT /api/v1/blobs/${hashOf(text)}`, { key: owner.key, bytes: Buffer.from(text), type: 'application/octet-stream' })
const isStored = async (text: string) => (await w.cas.stat(hashOf(text))) !== undefined
const sweptRow = (text: string) =>
  w.db.selectFrom('swept_objects').selectAll().where('sha256', '=', hashOf(text)).executeTakeFirst()
/** As a sweeper that was killed right after it had begun to remove the object. */
const mark = (text: string) =>
  w.db
    .insertInto('swept_objects')
    .values({ sha256: hashOf(text), removed_at: null })
    .execute()
const everything = { before: new Date(Date.now() + 3_600_000), progress: () => undefined, maxShare: 1 }

test('X07: while an object is being removed no row for it is written, and the request may be repeated', async () => {
  const text = randomName()
  await mark(text)
  expect((await put(text)).status).toBe(503)
  expect(await w.db.selectFrom('blobs').select('sha256').where('sha256', '=', hashOf(text)).execute()).toEqual([])
})

test.each([
  ['before it removed the object', true],
  ['after that', false],
])('X07: of a sweeper that was killed %s the next one finds out, and the object can be stored', async (_when, stillThere) => {
  const text = randomName()
  if (stillThere) await w.cas.put(Buffer.from(text))
  await mark(text)
  await removeAbandonedUploads(w, w.clock())
  expect((await sweptRow(text))?.removed_at !== undefined).toBe(!stillThere)
  expect((await put(text)).status).toBe(200)
  expect(await isStored(text)).toBe(true)
})

test('X07: an upload whose bytes are removed before its row is written sends them again', async () => {
  const text = randomName()
  const { cas } = w
  let removed = 0
  // the sweeper comes right after the bytes were published
  const batch = () => {
    const objects = cas.batch()
    return Object.assign(objects, {
      publish: async () => {
        const hashes = await cas.put(Buffer.from(text))
        removed += (await sweepObjects(w, everything)).removed
        return [hashes.sha256]
      },
    })
  }
  await using upload = await beginUpload({ ...w, cas: { ...cas, batch } }, { project_id: owner.id, bytes: 1 })
  const accepted = upload.accept(() => Promise.resolve('accepted'))
  await expect(accepted).rejects.toMatchObject({ kind: 'unavailable', message: expect.stringContaining('send it again') })
  expect(removed).toBe(1)
})
