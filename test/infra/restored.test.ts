import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { endVisitsAfterRestore, markRestored } from '../../infra/local/restored.ts'
import { makeSite } from '../make.ts'
import { world } from '../world.ts'

test('E36: the first start after a restore gives every lock another epoch and its route the next version, a later one does not', async () => {
  await using w = await world({ worker: false })
  const owner = await w.project('pro')
  const [closed, open] = [await makeSite(w, owner), await makeSite(w, owner)]
  await w.call(`POST /api/v1/sites/${closed.id}/access/email-mode`, { key: owner.key, json: {} })
  const email = (
    await w.call(`POST /api/v1/sites/${closed.id}/access/emails`, { key: owner.key, json: { email: 'ada@example.com' } })
  ).body
  await w.call(`DELETE /api/v1/sites/${closed.id}/access/emails/${email.id}`, { key: owner.key })
  const state = async () => ({
    locks: await w.db.selectFrom('access_locks').select('epoch').execute(),
    generations: await w.db.selectFrom('access_generations').select('generation').execute(),
    closed: (await w.db.selectFrom('sites').select(['version', 'route_changed_at']).where('id', '=', closed.id).execute())[0],
    open: await w.db.selectFrom('sites').select(['version', 'route_changed_at']).where('id', '=', open.id).execute(),
  })
  const dir = await mkdtemp(join(tmpdir(), 'plinth-restored-'))
  try {
    const before = await state()
    expect(before.generations).toEqual([{ generation: 1 }])
    await endVisitsAfterRestore(dir, w.database.url)
    expect(await state()).toEqual(before)
    await markRestored(dir)
    await endVisitsAfterRestore(dir, w.database.url)
    const after = await state()
    expect(after.locks).toHaveLength(1)
    expect(after.locks).not.toEqual(before.locks)
    expect([after.generations, after.open]).toEqual([[], before.open])
    expect(after.closed?.version).toBeGreaterThan(before.closed?.version ?? 0)
    await endVisitsAfterRestore(dir, w.database.url)
    expect(await state()).toEqual(after)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
