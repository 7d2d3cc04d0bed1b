import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readManifest } from '../../infra/cas/manifests.ts'
import { findMissing } from '../../infra/cas/missing.ts'
import { dropUnusedBlobs, sweepObjects } from '../../services/storage/sweep.ts'
import { makeSite } from '../make.ts'
import { type Answer, type TestProject, type World, world } from '../world.ts'

// Uploads, checks, deploys and purges of several clients, while sweepers with a grace of a moment or none run without a pause.

const gracesMs = [200, 0, 20]
const contents = Array.from({ length: 12 }, (_, i) => `content ${i} `.repeat(60))
const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')

let w: World
beforeAll(async () => {
  w = await world({ worker: false })
})
afterAll(() => w?.[Symbol.asyncDispose]())

const step = fc.record({
  kind: fc.constantFrom('upload', 'check', 'manifest', 'manifest', 'files', 'purge'),
  picks: fc.uniqueArray(fc.integer({ min: 0, max: contents.length - 1 }), { minLength: 1, maxLength: 4 }),
})
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

interface Client {
  readonly project: TestProject
  readonly siteId: string
  readonly deployIds: string[]
}

const pickOf = ({ picks }: Step) =>
  ['index', ...picks.slice(1)].map((name, i) => ({ path: `${name}.html`, text: contents[picks[i] ?? 0] ?? '' }))

/** What a race may answer: done, blobs to send again, or to be repeated. */
function expectFair({ status, body }: Answer): boolean {
  const fair =
    status === 200 || status === 503 || (status === 400 && (body.missing?.length > 0 || /has no blob/.test(body.message)))
  expect([status, body, fair]).toEqual([status, body, true])
  return status === 200
}

async function take({ project, siteId, deployIds }: Client, next: Step): Promise<void> {
  const { key } = project
  const files = pickOf(next)
  const list = { files: files.map(({ path, text }) => ({ path, sha256: hashOf(text) })) }
  const put = (text: string) =>
    w.call(`PUT /api/v1/blobs/${hashOf(text)}`, { key, bytes: Buffer.from(text), type: 'application/octet-stream' })
  const post = (route: string, json: object) => w.call(`POST /api/v1/sites/${siteId}/${route}`, { key, json })
  switch (next.kind) {
    case 'upload':
      for (const { text } of files) expectFair(await put(text))
      return
    case 'check':
      return void expectFair(await post('deploys/check', list))
    case 'manifest': {
      const { missing = [] } = (await post('deploys/check', list)).body
      for (const { text } of files) if (missing.includes(hashOf(text))) expectFair(await put(text))
      return await accepted(await post('deploys/manifest', list), deployIds)
    }
    case 'files': {
      const [first, ...others] = files.map(({ path, text }) => ({ path, content: text }))
      const referenced = others.map(({ path, content }) => ({ path, sha256: hashOf(content) }))
      return await accepted(await post('deploy-files', { files: [first, ...referenced] }), deployIds)
    }
    case 'purge': {
      const id = deployIds.shift()
      if (id) expect((await w.call(`DELETE /api/v1/deploys/${id}`, { key })).body).toEqual({ ok: true })
    }
  }
}

/** After a 200 everything is there, and stays. */
async function accepted(answer: Answer, deployIds: string[]): Promise<void> {
  if (!expectFair(answer)) return
  expect(await missingOf(answer.body.id)).toEqual([])
  // without a worker it would stay queued, and could not be purged
  await w.db.updateTable('deploys').set({ status: 'superseded' }).where('id', '=', answer.body.id).execute()
  deployIds.push(answer.body.id)
}

async function missingOf(deployId: string): Promise<string[]> {
  const deploy = await w.db.selectFrom('deploys').select('manifest_sha256').where('id', '=', deployId).executeTakeFirstOrThrow()
  const { files } = await readManifest(w.cas, deploy.manifest_sha256 ?? '')
  return await findMissing(
    w.cas,
    files.map((file) => file.sha256),
  )
}

async function sweepOnce(graceMs = 0): Promise<void> {
  const options = { before: new Date(Date.now() - graceMs), progress: () => undefined, maxShare: 1 }
  await dropUnusedBlobs(w, options, new Date())
  await sweepObjects(w, options)
}

async function storedHashes(): Promise<string[]> {
  const hashes: string[] = []
  for await (const batch of w.cas.list()) hashes.push(...batch)
  return hashes
}

/** Clients one and two share a project, the third has the same contents in its own. */
async function makeClients(): Promise<Client[]> {
  const [shared, own] = [await w.project('enterprise'), await w.project('enterprise')]
  const client = async (project: TestProject) => ({ project, siteId: (await makeSite(w, project)).id, deployIds: [] })
  return [await client(shared), await client(shared), await client(own)]
}

test('D15 D17 D19 X07: no race of clients with the sweeper loses a blob after a 200, and nothing is left when all is purged', async () => {
  const run = async (plans: Step[][]) => {
    const clients = await makeClients()
    const ended = new AbortController()
    const sweeping = Promise.all(
      gracesMs.map(async (graceMs) => {
        while (!ended.signal.aborted) await sweepOnce(graceMs)
      }),
    )
    try {
      await Promise.all(
        clients.map(async (client, i) => {
          for (const next of plans[i] ?? []) await take(client, next)
        }),
      )
    } finally {
      ended.abort()
      await sweeping
    }
    for (const { deployIds } of clients) for (const id of deployIds) expect(await missingOf(id)).toEqual([])
    for (const client of clients) while (client.deployIds.length > 0) await take(client, { kind: 'purge', picks: [0] })
    await expect
      .poll(async () => {
        await sweepOnce()
        return [await w.db.selectFrom('blobs').select('sha256').execute(), await storedHashes()]
      })
      .toEqual([[], []])
  }
  const plans = fc.array(fc.array(step, { minLength: 25, maxLength: 25 }), { minLength: 3, maxLength: 3 })
  await fc.assert(fc.asyncProperty(plans, run), { numRuns: 2, endOnFailure: true })
}, 180_000)
