import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { uploadPeriodMs } from '../../core/limits.ts'
import { deployFiles, makeSite, page, randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { openProcesses } from './processes.ts'

// The only worker of the platform is a process whose clock is wrong, while the api, PostgreSQL and the storage have the right time.

const minuteMs = 60_000
const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

let w: World
let owner: TestProject
let connection: Connection
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
  connection = await Connection.connect({ address: w.temporal.address })
})
afterAll(async () => {
  await connection?.close()
  await w?.[Symbol.asyncDispose]()
})

/** Sends a blob slowly, but not so slowly that it is refused; the returned function sends the rest and answers the status. */
async function beginUpload(): Promise<() => Promise<number>> {
  const bytes = randomBytes(20_000_000)
  const { hostname, port } = new URL(w.base)
  const headers = {
    authorization: `Bearer ${owner.key}`,
    'content-type': 'application/octet-stream',
    'content-length': bytes.length,
  }
  const outgoing = request({ hostname, port, method: 'PUT', path: `/api/v1/blobs/${hashOf(bytes)}`, headers })
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  let sent = 0
  const trickle = setInterval(() => {
    outgoing.write(bytes.subarray(sent, sent + 20_000))
    sent += 20_000
  }, 250)
  await expect.poll(async () => (await w.db.selectFrom('uploads').select('id').execute()).length).toBeGreaterThan(0)
  return async () => {
    clearInterval(trickle)
    outgoing.end(bytes.subarray(sent))
    const [response] = await answered
    response.resume()
    return response.statusCode ?? 0
  }
}

/** An object that no row needs yet, as a build stores it before it ends. */
async function storeUnaccepted(): Promise<{ readonly isStored: () => Promise<boolean> }> {
  const { sha256 } = await w.cas.put(Buffer.from(randomName('unaccepted')))
  return { isStored: async () => (await w.cas.stat(sha256)) !== undefined }
}

async function putBlob(): Promise<string> {
  const bytes = Buffer.from(randomName('staged'))
  const options = { key: owner.key, bytes, type: 'application/octet-stream' }
  expect((await w.call(`PUT /api/v1/blobs/${hashOf(bytes)}`, options)).status).toBe(200)
  return hashOf(bytes)
}

/** The worker has ended what is to be ended: an upload that is really abandoned. */
async function untilSwept(): Promise<void> {
  const tooLong = sql<Date>`now() - ${uploadPeriodMs + minuteMs}::integer * interval '1 millisecond'`
  const abandoned = { project_id: owner.id, bytes: 1, started_at: tooLong }
  const { id } = await w.db.insertInto('uploads').values(abandoned).returning('id').executeTakeFirstOrThrow()
  const rows = () => w.db.selectFrom('uploads').select('id').where('id', '=', id).execute()
  await expect.poll(rows, { timeout: 100_000 }).toEqual([])
}

test.each([
  ['16 minutes', 16 * minuteMs],
  ['25 hours', 25 * 60 * minuteMs],
])(
  '27: a worker %s ahead ends no upload and sweeps no object',
  async (_what, aheadMs) => {
    const site = await makeSite(w, owner)
    const endUpload = await beginUpload()
    const [staged, unaccepted] = [await putBlob(), await storeUnaccepted()]
    const NODE_OPTIONS = `--import=${join(import.meta.dirname, '../hostile/shifted-clock-process.ts')}`
    await using processes = openProcesses(w, { NODE_OPTIONS, SHIFT_MS: String(aheadMs) })
    processes.start('worker')
    expect((await deployFiles(w, owner, site.id, [page('live')])).status).toBe('active')
    await untilSwept()
    const temporal = new Client({ connection, namespace: w.temporal.namespace })
    const workflowId = randomName('sweep')
    await temporal.workflow.execute('sweepStorage', { workflowId, taskQueue: 'control', args: [{ max_share: 1 }] })
    expect(await w.db.selectFrom('blobs').select('sha256').where('sha256', '=', staged).execute()).toHaveLength(1)
    expect([(await w.cas.stat(staged)) !== undefined, await unaccepted.isStored()]).toEqual([true, true])
    expect(await endUpload()).toBe(200)
  },
  240_000,
)
