import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sweepGraceMs } from '../../core/limits.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { defaultPlans } from '../../core/plans.ts'
import { readManifest } from '../../infra/cas/manifests.ts'
import { activateDeploy } from '../../services/deploys/activate.ts'
import { applyRetention, applyRetentionEverywhere } from '../../services/deploys/retention.ts'
import { withProject } from '../../services/projects/projects.ts'
import { purgeSite } from '../../services/removal/purge-site.ts'
import { listDamage } from '../../services/storage/damage.ts'
import { markDamaged } from '../../services/storage/health.ts'
import { forgetExpiredAssetsEverywhere, retainAssets } from '../../services/storage/retained-assets.ts'
import { sweepObjects } from '../../services/storage/sweep.ts'
import { transact } from '../../services/transact.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

const dayMs = 86_400_000
const unlimited = { deploys_per_hour: null, sites: null }
const plans = {
  ...defaultPlans,
  free: { ...defaultPlans.free, ...unlimited, inactive_deploys: 0, storage_bytes: 10_000 },
  start: { ...defaultPlans.start, ...unlimited, inactive_deploys: 2 },
}

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ plans, edge: true })
})
afterAll(() => w[Symbol.asyncDispose]())
beforeEach(async () => {
  owner = await w.project('start')
})

/** Paths as bundlers make them, one for each letter. */
const pathOf = (letter: string) => `assets/app-D1wrg${letter.toUpperCase()}d${letter}.js`
const asset = (letter: string, content = `script ${letter}`) => ({ path: pathOf(letter), content })
const patch = (site: { id: string }, json: object, project = owner) =>
  w.call(`PATCH /api/v1/sites/${site.id}`, { key: project.key, json })
const activate = (deploy: { id: string }) => w.call(`POST /api/v1/deploys/${deploy.id}/activate`, { key: owner.key })
const purge = (deploy: { id: string }) => w.call(`DELETE /api/v1/deploys/${deploy.id}`, { key: owner.key })

async function retainingSite(project = owner, days = 7): Promise<any> {
  const site = await makeSite(w, project)
  const { status, body } = await patch(site, { asset_retention_days: days }, project)
  expect([status, body.asset_retention_days]).toEqual([200, days])
  return site
}

/** Publishes a page that names the assets, with the assets. */
const publish = (site: any, letters: string, project = owner) =>
  deployFiles(w, project, site.id, [page(letters), ...letters.split('').map((letter) => asset(letter))])

/** The letters of those assets that the edge answers with 200. */
async function answering(site: any, letters = 'abcdef'): Promise<string> {
  const visits = await Promise.all(letters.split('').map(async (letter) => [letter, await visit(site, letter)] as const))
  return visits.flatMap(([letter, { status }]) => (status === 200 ? [letter] : [])).join('')
}
const visit = (site: any, letter: string) => w.visit(site.subdomain, `/${pathOf(letter)}`)
const until = (site: any, letters: string) => expect.poll(() => answering(site)).toBe(letters)

const storage = async (project = owner): Promise<number> =>
  (await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })).body.usage.storage_bytes

/** The rows of a project at one instant. */
const rowsOf = (project: TestProject) =>
  w.db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (db) => ({
      deploys: await db.selectFrom('deploys').selectAll().where('project_id', '=', project.id).execute(),
      retained: await db.selectFrom('retained_assets').selectAll().where('project_id', '=', project.id).execute(),
      blobs: await db.selectFrom('blobs').selectAll().where('project_id', '=', project.id).execute(),
      sites: await db.selectFrom('sites').selectAll().where('project_id', '=', project.id).execute(),
    }))

/** Waits until the retention of deploys has purged all but the active one, so that former files are kept as retained assets only. */
const untilPurged = (project: TestProject) =>
  expect.poll(async () => (await rowsOf(project)).deploys.filter((deploy) => !deploy.artifacts_purged).length).toBe(1)

const linesOf = (files: readonly ManifestEntry[]) =>
  files
    .map(({ path, sha256, size }) => `${path} ${sha256} ${size}`)
    .sort()
    .join('\n')

/** Compares the counter of every blob with the deploys and the retained assets that contain it, and each site's manifest with its rows. */
async function expectExactCounts(project = owner): Promise<void> {
  const { deploys, retained, blobs, sites } = await rowsOf(project)
  const counts = new Map<string, number>()
  const count = (sha256: string) => counts.set(sha256, (counts.get(sha256) ?? 0) + 1)
  for (const { manifest_sha256, artifacts_purged } of deploys) {
    if (manifest_sha256 === null || artifacts_purged) continue
    const { files } = await readManifest(w.cas, manifest_sha256)
    for (const sha256 of new Set(files.map((file) => file.sha256))) count(sha256)
  }
  for (const { sha256 } of retained) count(sha256)
  expect(new Map(blobs.map((blob) => [blob.sha256, blob.deploys]))).toEqual(counts)
  for (const { id, retained_sha256 } of sites) {
    const rows = retained.filter((row) => row.site_id === id)
    const { files } = retained_sha256 === null ? { files: [] } : await readManifest(w.cas, retained_sha256)
    expect(linesOf(files)).toBe(linesOf(rows))
  }
}

describe('E34: hashed assets of superseded deploys', () => {
  test('are gone with the next deploy unless the site retains them', async () => {
    const site = await makeSite(w, owner)
    expect(site.asset_retention_days).toBe(0)
    await publish(site, 'ab')
    await publish(site, 'bc')
    await until(site, 'bc')
  })

  test('answer as before for the days that the site wants, and pages do not', async () => {
    const site = await retainingSite()
    await deployFiles(w, owner, site.id, [page('one'), { path: 'old.html', content: 'old' }, asset('a')])
    await until(site, 'a')
    const before = await visit(site, 'a')
    await publish(site, 'b')
    await expect.poll(async () => (await visit(site, 'b')).status).toBe(200)
    const after = await visit(site, 'a')
    const { date: _before, ...headers } = before.headers
    const { date: _after, ...same } = after.headers
    expect([after.status, after.body, same]).toEqual([200, 'script a', headers])
    expect(same['cache-control']).toBe('max-age=31536000, immutable')
    const etag = after.headers.etag ?? ''
    expect((await w.visit(site.subdomain, `/${pathOf('a')}`, { 'if-none-match': etag })).status).toBe(304)
    expect((await w.visit(site.subdomain, '/old.html')).status).toBe(404)
    await expectExactCounts()
  })

  test('answer over several deploys, and give way to a newer file at the same path', async () => {
    const site = await retainingSite()
    for (const letters of ['a', 'b', 'c']) await publish(site, letters)
    await until(site, 'abc')
    await deployFiles(w, owner, site.id, [page('x'), asset('a', 'a newer script')])
    await until(site, 'abc')
    expect((await visit(site, 'a')).body).toBe('a newer script')
    await publish(site, 'd')
    await until(site, 'abcd')
    expect((await visit(site, 'a')).body).toBe('a newer script')
    await expectExactCounts()
  })

  test('of a deploy that a rollback supersedes are retained alike', async () => {
    const site = await retainingSite()
    const first = await publish(site, 'a')
    await publish(site, 'b')
    await activate(first)
    await until(site, 'ab')
    expect((await w.visit(site.subdomain)).body).toContain('<title>a</title>')
    await expectExactCounts()
  })

  test('expire one deploy after the other', async () => {
    const site = await retainingSite(owner, 2)
    const at = (days: number) => ({ ...w, clock: () => new Date(Date.now() + days * dayMs) })
    await publish(site, 'a')
    await publish(site, 'b')
    w.advance(dayMs)
    try {
      await publish(site, 'c')
    } finally {
      w.advance(-dayMs)
    }
    await forgetExpiredAssetsEverywhere(at(1.9))
    await until(site, 'abc')
    await forgetExpiredAssetsEverywhere(at(2.1))
    await until(site, 'bc')
    await forgetExpiredAssetsEverywhere(at(3.1))
    await until(site, 'c')
    await expectExactCounts()
  })

  test('are forgotten at once with 0 days, and the older ones with fewer days', async () => {
    const site = await retainingSite()
    await publish(site, 'a')
    await publish(site, 'b')
    w.advance(3 * dayMs)
    try {
      await publish(site, 'c')
      await patch(site, { asset_retention_days: 3 })
      await until(site, 'bc')
    } finally {
      w.advance(-3 * dayMs)
    }
    expect((await patch(site, { asset_retention_days: 0 })).status).toBe(200)
    await until(site, 'c')
    await publish(site, 'd')
    await until(site, 'd')
    await expectExactCounts()
  })

  test('outlive the retention of deploys, and go when their owner deletes the files of their deploy', async () => {
    const site = await retainingSite()
    const deploys: any[] = []
    for (const letters of ['a', 'b', 'c', 'd']) deploys.push(await publish(site, letters))
    await expect
      .poll(async () => (await w.call(`GET /api/v1/deploys/${deploys[0].id}`, { key: owner.key })).body.artifacts_purged)
      .toBe(true)
    await until(site, 'abcd')
    await expectExactCounts()
    for (const [deploy, left] of [
      [deploys[1], 'acd'],
      [deploys[0], 'cd'],
    ]) {
      expect((await purge(deploy)).status).toBe(200)
      await until(site, left)
    }
    await expectExactCounts()
  })

  test.each([-1, 31, 1.5, '7', null])('%j days are refused with 422', async (days) => {
    const site = await makeSite(w, owner)
    expect((await patch(site, { asset_retention_days: days })).status).toBe(422)
  })

  test('are an option of the tool, too', async () => {
    const site = await makeSite(w, owner)
    const { structuredContent } = await w.tool('update_site', { site_id: site.id, asset_retention_days: 30 }, owner.key)
    expect(structuredContent.asset_retention_days).toBe(30)
  })
})

describe('the storage of retained assets', () => {
  const big = (letter: string) => asset(letter, letter.repeat(3000))

  test('E10: counts for the project until they are forgotten', async () => {
    const project = await w.project('free')
    const site = await retainingSite(project)
    await deployFiles(w, project, site.id, [page('1'), big('a')])
    await deployFiles(w, project, site.id, [page('2'), big('b')])
    await expect.poll(() => storage(project)).toBeLessThan(6200)
    expect(await storage(project)).toBeGreaterThan(6000)
    await patch(site, { asset_retention_days: 0 }, project)
    // the first deploy has its files until the retention of deploys has purged them
    await expect.poll(() => storage(project)).toBeLessThan(3200)
    await expectExactCounts(project)
  })

  test('E10: makes room for what is published, the longest retained first, and no earlier than needed', async () => {
    const project = await w.project('free')
    const site = await retainingSite(project)
    for (const letter of ['a', 'b', 'c', 'd', 'e']) {
      const { status } = await deployFiles(w, project, site.id, [page(letter), big(letter)])
      expect(status).toBe('active')
      await untilPurged(project)
      await expectExactCounts(project)
    }
    expect(await answering(site)).toBe('cde')
    expect(await storage(project)).toBeLessThan(10_000)
    const twice = ['f', 'a'].map((letter) => big(letter))
    expect((await deployFiles(w, project, site.id, [page('f'), ...twice])).status).toBe('active')
    await expectExactCounts(project)
    expect((await visit(site, 'e')).status).toBe(200)
  })

  test('E10: keeps those whose content is published again', async () => {
    const project = await w.project('free')
    const site = await retainingSite(project)
    for (const letter of ['a', 'b', 'c']) await deployFiles(w, project, site.id, [page(letter), big(letter)])
    await untilPurged(project)
    await deployFiles(w, project, site.id, [page('a again'), big('a'), asset('d', 'd'.repeat(2000))])
    await expect.poll(() => answering(site)).toBe('acd')
    await expectExactCounts(project)
    expect(await storage(project)).toBeLessThan(10_000)
  })

  test('is left alone when all of it would not be enough', async () => {
    const project = await w.project('free')
    const site = await retainingSite(project)
    for (const letter of ['a', 'b']) await deployFiles(w, project, site.id, [page(letter), big(letter)])
    const files = [page('x'), asset('c', 'c'.repeat(9000))]
    const refused = await w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: project.key, json: { files } })
    expect([refused.status, refused.headers.get('plinth-error')]).toEqual([409, 'quota_storage'])
    expect(await answering(site)).toBe('ab')
  })

  test('is limited as that of a deploy: the latest 20,000 assets stay', async () => {
    const site = await retainingSite()
    const deploy = await publish(site, 'a')
    const { retained, blobs } = await rowsOf(owner)
    expect(retained).toEqual([])
    const { sha256 = '', size = 0 } = blobs[0] ?? {}
    const assets = (letter: string, count: number) =>
      Array.from({ length: count }, (_, i) => ({ path: `assets/${letter}${i}-D1wrgTda.js`, sha256, size }))
    const retain = (letter: string, count: number, at: number) =>
      withProject({ ...w, clock: () => new Date(Date.now() + at) }, owner.id, (tx) =>
        retainAssets(
          tx,
          { ...w, clock: () => new Date(Date.now() + at) },
          { ...site, project_id: owner.id, asset_retention_days: 7 },
          {
            deploy_id: deploy.id,
            assets: assets(letter, count),
            isLive: () => false,
          },
        ),
      )
    await retain('a', 12_000, 0)
    await retain('b', 9000, 1000)
    await expectExactCounts()
    const after = (await rowsOf(owner)).retained
    expect(after.length).toBe(20_000)
    expect(after.filter(({ path }) => path.startsWith('assets/b')).length).toBe(9000)
  })

  test('is swept when nothing needs it any more, and not before', async () => {
    const site = await retainingSite()
    await publish(site, 'e')
    await publish(site, 'f')
    for (const deploy of await w.db.selectFrom('deploys').select('id').where('site_id', '=', site.id).execute()) {
      await w.db
        .updateTable('deploys')
        .set({ created_at: new Date(0) })
        .where('id', '=', deploy.id)
        .execute()
    }
    const { sha256 } = await w.db
      .selectFrom('retained_assets')
      .selectAll()
      .where('site_id', '=', site.id)
      .executeTakeFirstOrThrow()
    const { retained_sha256 } = await w.db.selectFrom('sites').selectAll().where('id', '=', site.id).executeTakeFirstOrThrow()
    const sweep = (days: number) =>
      sweepObjects(w, { before: new Date(Date.now() + days * dayMs - sweepGraceMs), progress: () => undefined, maxShare: 1 })
    const stored = async () => [await w.cas.stat(sha256), await w.cas.stat(retained_sha256 ?? '')].map(Boolean)
    await sweep(3)
    expect(await stored()).toEqual([true, true])
    await patch(site, { asset_retention_days: 0 })
    const first = await w.db
      .selectFrom('deploys')
      .select('id')
      .where('site_id', '=', site.id)
      .where('seq', '=', 1)
      .executeTakeFirstOrThrow()
    expect((await purge(first)).status).toBe(200)
    await sweep(0.5)
    expect(await stored()).toEqual([true, true])
    await sweep(3)
    expect(await stored()).toEqual([false, false])
  })

  test('goes with its site', async () => {
    const site = await retainingSite()
    for (const letters of ['a', 'b', 'c', 'd']) await publish(site, letters)
    await w.call(`DELETE /api/v1/sites/${site.id}`, { key: owner.key, json: { confirm: true } })
    const { deletion_scheduled_at } = await w.db
      .selectFrom('sites')
      .select('deletion_scheduled_at')
      .where('id', '=', site.id)
      .executeTakeFirstOrThrow()
    const purge_at = deletion_scheduled_at ?? new Date()
    const later = { ...w, clock: () => new Date(purge_at.getTime() + 1000) }
    expect(await purgeSite(later, { site_id: site.id, purge_at }, () => undefined)).toBe('purged')
    const { rows } = await sql<{ rows: number }>`
      select (select count(*) from blobs where project_id = ${owner.id})
        + (select count(*) from retained_assets where project_id = ${owner.id}) as rows`.execute(w.db)
    expect(rows).toEqual([{ rows: 0 }])
  })

  test('is part of the report of damage, also beside a site that retains more assets of the same content than are listed', async () => {
    const other = await w.project('start')
    const hoarder = await retainingSite(other)
    const same = Array.from({ length: 600 }, (_, i) => ({ path: `assets/same${i}-D1wrgTda.js`, content: 'script a' }))
    await deployFiles(w, other, hoarder.id, [page('many'), ...same])
    await deployFiles(w, other, hoarder.id, [page('none')])
    const site = await retainingSite()
    const deploy = await publish(site, 'a')
    const live = await publish(site, 'b')
    await purgeFilesOnly(deploy)
    const { retained_sha256 } = await w.db.selectFrom('sites').selectAll().where('id', '=', site.id).executeTakeFirstOrThrow()
    const { sha256 } = await w.db
      .selectFrom('retained_assets')
      .selectAll()
      .where('site_id', '=', site.id)
      .executeTakeFirstOrThrow()
    await transact(w, (tx) => markDamaged(tx, sha256, new Date()))
    await transact(w, (tx) => markDamaged(tx, retained_sha256 ?? '', new Date()))
    const of = { project_id: owner.id, site_id: site.id }
    const damages = await listDamage(w, new Date())
    const uses = new Map(damages.map(({ sha256, uses }) => [sha256, uses.filter((use) => use.site_id === site.id)]))
    expect(uses.get(sha256)).toEqual([{ ...of, deploy_id: deploy.id, path: pathOf('a'), live: false }])
    expect(uses.get(retained_sha256 ?? '')).toEqual([{ ...of, deploy_id: live.id, path: null, live: true }])
  })

  /** As the retention of a plan that keeps none. What runs after a deploy may have done it first. */
  async function purgeFilesOnly({ id, site_id }: { id: string; site_id: string }): Promise<void> {
    await w.db.updateTable('projects').set({ plan: 'free' }).where('id', '=', owner.id).execute()
    await applyRetention(w, site_id)
    const { artifacts_purged } = await w.db.selectFrom('deploys').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
    expect(artifacts_purged).toBe(true)
  }
})

describe('an activation', () => {
  test('V16: never waits for retained assets: while the storage fails, the deploy goes live without them', async () => {
    const site = await retainingSite()
    await publish(site, 'a')
    const next = await deployFiles(w, owner, site.id, [page('b'), asset('b')], false)
    for (const fault of [{ open: fails }, { put: fails }]) {
      const { deploy } = await activateDeploy({ ...w, cas: { ...w.cas, ...fault } }, next.id)
      expect(deploy.status).toBe('active')
      await until(site, 'b')
      const [first] = (await w.call(`GET /api/v1/sites/${site.id}/deploys`, { key: owner.key })).body.slice(-1)
      await activate(first)
      await expect.poll(async () => (await visit(site, 'a')).status).toBe(200)
      await patch(site, { asset_retention_days: 0 })
      await patch(site, { asset_retention_days: 7 })
    }
    await expectExactCounts()
  })
  const fails = () => Promise.reject(new Error('the storage does not answer'))

  test('V16: fails when PostgreSQL refuses what is to be retained, so that no deploy goes live without it', async () => {
    const site = await retainingSite()
    const live = await publish(site, 'a')
    const next = await deployFiles(w, owner, site.id, [page('b'), asset('b')], false)
    await sql`alter table retained_assets add constraint refused check (site_id <> ${sql.lit(site.id)})`.execute(w.db)
    try {
      await expect(activateDeploy(w, next.id)).rejects.toThrow('refused')
      expect((await w.call(`GET /api/v1/sites/${site.id}`, { key: owner.key })).body.active_deploy_id).toBe(live.id)
    } finally {
      await sql`alter table retained_assets drop constraint refused`.execute(w.db)
    }
    await activateDeploy(w, next.id)
    await until(site, 'ab')
  })

  test('X04: many at once retain what each of them superseded, and every counter stays exact', async () => {
    const site = await retainingSite()
    const project = owner
    const deploys: any[] = []
    for (const letters of ['a', 'b', 'c']) deploys.push(await publish(site, letters))
    for (let round = 0; round < 5; round++) {
      await Promise.all([
        ...deploys.map((deploy) => activate(deploy)),
        patch(site, { asset_retention_days: 3 + round }),
        applyRetentionEverywhere(w),
        forgetExpiredAssetsEverywhere({ ...w, clock: () => new Date(Date.now() - dayMs) }),
      ])
      await until(site, 'abc')
      await expectExactCounts(project)
    }
    await Promise.all([...deploys.map((deploy) => purge(deploy)), ...deploys.map((deploy) => activate(deploy))])
    await expectExactCounts(project)
  })
})
