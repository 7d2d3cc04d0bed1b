import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { DeployStatus } from '../../core/deploy.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

// Check 33: whatever callers do to a site and its deploys at once, states change only as the specification's tables say.

const names = ['a', 'b', 'c'] as const
const deployActions = ['activate', 'purge', 'preview', 'revoke'] as const
const siteActions = ['trash', 'restore'] as const

type Command =
  | { readonly action: (typeof deployActions)[number]; readonly on: number }
  | { readonly action: (typeof siteActions)[number] }

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ action: fc.constantFrom(...deployActions), on: fc.nat(names.length - 1) }) },
  { weight: 1, arbitrary: fc.record({ action: fc.constantFrom(...siteActions) }) },
)
/** Commands that are sent at once, and then others. */
const batches = fc.array(fc.array(command, { minLength: 2, maxLength: 5 }), { minLength: 2, maxLength: 6 })

/** Where a deploy may be after several commands, by where it was. */
const reachable: Partial<Record<DeployStatus, readonly DeployStatus[]>> = {
  ready: ['ready', 'active', 'superseded'],
  active: ['active', 'superseded'],
  superseded: ['superseded', 'active'],
}

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ edge: true })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())

const endpoints = {
  activate: (id: string) => `POST /api/v1/deploys/${id}/activate`,
  purge: (id: string) => `DELETE /api/v1/deploys/${id}`,
  preview: (id: string) => `POST /api/v1/deploys/${id}/preview`,
  revoke: (id: string) => `DELETE /api/v1/deploys/${id}/preview`,
}
const rowsOf = (siteId: string) =>
  w.db.selectFrom('deploys').select(['id', 'status', 'artifacts_purged']).where('site_id', '=', siteId).orderBy('seq').execute()
const siteOf = (id: string) => w.db.selectFrom('sites').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

async function send(siteId: string, ids: readonly string[], one: Command): Promise<number> {
  const onSite = { trash: `DELETE /api/v1/sites/${siteId}`, restore: `POST /api/v1/sites/${siteId}/restore` }
  const endpoint = 'on' in one ? endpoints[one.action](ids[one.on] ?? '') : onSite[one.action]
  return (await w.call(endpoint, { key: owner.key })).status
}

async function race(sent: readonly (readonly Command[])[]): Promise<void> {
  const { id: siteId, subdomain } = await makeSite(w, owner)
  const ids: string[] = []
  for (const name of names) ids.push((await deployFiles(w, owner, siteId, [page(name)], false)).id)
  for (const batch of sent) {
    const before = await rowsOf(siteId)
    const statuses = await Promise.all(batch.map((one) => send(siteId, ids, one)))
    for (const status of statuses) expect([200, 409]).toContain(status)
    const after = await rowsOf(siteId)
    const site = await siteOf(siteId)
    for (const [index, row] of after.entries()) {
      const was = before[index]
      expect(reachable[was?.status ?? 'failed']).toContain(row.status)
      // what is removed stays removed, and is never live
      if (was?.artifacts_purged) expect(row).toEqual(was)
      if (row.artifacts_purged) expect(row.status).not.toBe('active')
    }
    const live = after.filter(({ status }) => status === 'active')
    expect(live.map(({ id }) => id)).toEqual(site.active_deploy_id === null ? [] : [site.active_deploy_id])
    const shown = site.deletion_scheduled_at ? undefined : names[ids.indexOf(site.active_deploy_id ?? '')]
    const seen = async () => {
      const { status, body } = await w.visit(subdomain)
      return status === 200 ? /<title>(\w+)/.exec(body)?.[1] : undefined
    }
    await expect.poll(seen, { timeout: 10_000, interval: 20 }).toBe(shown)
  }
}

test('check 33: activating, purging, showing, trashing and restoring at once leaves states of the table, and the edge shows them', async () => {
  const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
  console.log(`SEED=${seed} repeats these commands`)
  let batchesSent = 0
  const property = fc.asyncProperty(batches, async (sent) => {
    await race(sent)
    batchesSent += sent.length
  })
  await fc.assert(property, { seed, numRuns: 100, interruptAfterTimeLimit: 60_000, endOnFailure: true })
  console.log(`${batchesSent} batches of up to 5 commands at once`)
  expect(batchesSent).toBeGreaterThan(0)
})
